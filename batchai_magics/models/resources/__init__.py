"""Resources as a backend shows them: the description plus what became of it, to the service's JSON and back.

Keys that begin with `batchai` are ours: the service had no word for them, and its clients leave out keys that
they do not know.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
