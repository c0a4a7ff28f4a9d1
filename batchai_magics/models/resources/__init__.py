"""Resources as backends return them: spec and state, with conversion to and from the service's JSON.

Keys that start with `batchai` are extensions of the API; its clients ignore unknown keys.
"""

from batchai_magics import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports.attach_stub(__name__, __file__)
