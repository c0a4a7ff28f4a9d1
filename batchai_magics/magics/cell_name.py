"""A name for the job of a cell that gives it none: after the notebook and the cell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.models.ids import as_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NAMELESS = "job"  # where nobody tells the notebook
_SUFFIXES = (".ipynb", ".py", ".md")  # what a session that has a file is called
_CELL_LENGTH = 6


def name_of_cell(shell: InteractiveShell) -> str:
    """`train-3f2a9c`: the notebook as the server or the editor tells it, and the cell that runs.

    The same cell has the same name, also after a restart of the kernel.
    """
    notebook = str(shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME") or "")
    path = Path(notebook)
    name = as_name(path.stem) if path.suffix in _SUFFIXES else ""
    cell = as_name(_cell_id(shell))[:_CELL_LENGTH]
    cell = f"c{cell}" if cell.isdigit() else cell  # no number of a run
    return "-".join(part for part in (name or NAMELESS, cell) if part)


def _cell_id(shell: InteractiveShell) -> str:
    """The id that the front end sent with the cell; empty in a terminal, and from a front end without."""
    parent: Any = getattr(shell, "get_parent", dict)()
    metadata = parent.get("metadata") if isinstance(parent, Mapping) else None
    return str(metadata.get("cellId") or "") if isinstance(metadata, Mapping) else ""
