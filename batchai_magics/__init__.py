"""Distributed training jobs from a notebook cell: Azure Batch AI's workflow, live inside Jupyter.

`__init__.pyi` lists the public names; each is imported on first use, so that `%load_ext` stays fast.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from batchai_magics import lazy_exports, user_ports
from batchai_magics.version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_load_attribute, _, _names = lazy_exports.attach_stub(__name__, __file__, keeps_loaded=False)
__all__ = [*_names, "__version__", "load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Called by `%load_ext batchai_magics`."""
    from batchai_magics.magics.extension import load

    load(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Called by `%unload_ext batchai_magics`."""
    from batchai_magics.magics.extension import unload

    unload(ipython)


def _pages() -> user_ports.ViewPages:
    from batchai_magics.widgets.hosts import opened_pages

    return opened_pages


def _terminal_prompt() -> Callable[[str], None] | None:
    is_read = sys.stdin is not None and sys.stdin.isatty()
    return partial(print, flush=True) if is_read else None


user_ports.PAGES.register(_pages)
user_ports.PROMPT.register(_terminal_prompt)


def __getattr__(name: str) -> Any:
    if name not in _names:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("Job", "find_job", "run", "submit") and "IPython" in sys.modules:
        importlib.import_module(f"{__name__}.magics.extension").prepare_notebook()
    return _load_attribute(name)


def __dir__() -> list[str]:
    return sorted(__all__)
