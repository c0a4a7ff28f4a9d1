"""A magic line and the body of its cell become a request for a job. No IPython here."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
