"""Follows jobs: events from their current state to their end, with the only loop that waits."""

from batchai_magics import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports.attach_stub(__name__, __file__)
