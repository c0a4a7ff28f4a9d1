"""`batchai serve`: the 2018-05-01 REST protocol and Azure Files, in front of any backend.

`call` holds what goes in and comes out of a handler; handlers are plain functions of a Service and a Call,
and nothing below `http` knows of ASGI. `batchai` has the operations of the published API, `arm` what its
clients need of Azure around them, `storage` files and blobs, `access` who gets in.
"""
