"""Metrics from training logs: parses bytes into records, and records into series and summaries.

pandas and matplotlib are imported only when a frame or a plot is requested.
"""

from batchai_magics import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports.attach_stub(__name__, __file__)
