"""`batchai serve`: the 2018-05-01 REST protocol and Azure Files, in front of any backend.

Handlers are plain functions from a `HandlerContext` and an `ApiCall` to an `ApiResponse`. What comes before
and after them is in `http.asgi_app`. `batchai` has the operations of the published
API, `arm` the parts of Azure Resource Manager its clients need, `storage` files and blobs, `access`
authentication, ownership and the access log.
"""
