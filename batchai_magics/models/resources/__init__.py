"""Resources as a backend shows them: the description plus what became of it, to the service's JSON and back.

Keys that begin with `batchai` are ours: the service had no word for them, and its clients leave out keys that
they do not know.
"""

from batchai_magics import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports.attach_stub(__name__, __file__)
