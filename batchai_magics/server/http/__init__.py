"""HTTP: the ASGI application with its middleware, in order: limits, checks, bodies, waiting, responses."""
