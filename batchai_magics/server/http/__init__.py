"""HTTP and ASGI: application, endpoints, limits, request bodies, long polling."""
