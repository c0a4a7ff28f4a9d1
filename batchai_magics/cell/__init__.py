"""A magic line and the body of its cell become a request for a job. No IPython here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.late_names import late_names

if TYPE_CHECKING:
    from batchai_magics.cell.request import CellRequest, describe, parse

# Where each name lives.
_HOMES = {
    "CellRequest": "cell.request",
    "describe": "cell.request",
    "parse": "cell.request",
}

__all__ = ["CellRequest", "describe", "parse"]

if not TYPE_CHECKING:  # a checker would take any name for one of these
    __getattr__, __dir__ = late_names(__name__, _HOMES)
