"""The default job name of a cell, from the names of its notebook and of the cell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.models.resource_ids import as_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


NAMELESS = "job"  # used when the notebook is unknown
_SUFFIXES = (".ipynb", ".py", ".md")  # of session names that are files
_CELL_LENGTH = 6


def name_of_cell(shell: InteractiveShell) -> str:
    """The default name, `train-3f2a9c`: notebook name from the server or editor, and cell id.

    A cell keeps its name across kernel restarts.
    """
    notebook = str(shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME") or "")
    path = Path(notebook)
    name = as_name(path.stem) if path.suffix in _SUFFIXES else ""
    cell = as_name(_cell_id(shell))[:_CELL_LENGTH]
    cell = f"c{cell}" if cell.isdigit() else cell  # must not look like a run number
    return "-".join(part for part in (name or NAMELESS, cell) if part)


def _cell_id(shell: InteractiveShell) -> str:
    """The cell id sent by the front end; empty in a terminal or an older front end."""
    parent: Any = getattr(shell, "get_parent", dict)()
    metadata = parent.get("metadata") if isinstance(parent, Mapping) else None
    return str(metadata.get("cellId") or "") if isinstance(metadata, Mapping) else ""
