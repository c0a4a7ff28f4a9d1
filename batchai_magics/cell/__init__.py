"""A magic line and the body of its cell become a request for a job. No IPython here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batchai_magics.cell.request import CellRequest, describe, parse

# Where each name lives; imported when it is first asked for: a command needs few of them.
_HOMES = {
    "CellRequest": "cell.request",
    "describe": "cell.request",
    "parse": "cell.request",
}

__all__ = ["CellRequest", "describe", "parse"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"batchai_magics.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
