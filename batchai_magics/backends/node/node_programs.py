"""Paths of the programs that run on nodes, and the module that jobs import."""

from __future__ import annotations

import shlex
from pathlib import Path

_HERE = Path(__file__).parent
_RANKS = _HERE / "ranks"
RUN_RANKS = str(_RANKS / "run_ranks.py")
RUN_SCRIPT = str(_RANKS / "run_script.py")
JOB_MODULE = _HERE / "job_module.py"


def with_module_path(command: str, folder: Path) -> str:
    """The shell command with a folder appended to PYTHONPATH."""
    return f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{shlex.quote(str(folder))}; {command}'
