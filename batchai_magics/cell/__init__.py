"""A magic line and the body of its cell become a request for a job. No IPython here."""

from batchai_magics import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports.attach_stub(__name__, __file__)
