"""Turns a magic line and the body of its cell into a request for a job. Does not depend on IPython."""

from batchai_magics import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports.attach_stub(__name__, __file__)
