"""HTTP: the ASGI application, and what a request passes through: limits, checks, bodies, waiting, responses."""
