"""HTTP: the ASGI application, and its steps: limits, checks, bodies, waiting, responses."""
