"""Paths of the programs that run on nodes, and the module that jobs import."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

_HERE = Path(__file__).parent
_RANKS = _HERE / "ranks"
RUN_RANKS = str(_RANKS / "run_ranks.py")
RUN_SCRIPT = str(_RANKS / "run_script.py")
JOB_MODULE = _HERE / "job_module.py"


def put_job_module(folder: Path) -> None:
    """Creates a private folder for a job's module path with the module for `import batchai_magics`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    module = folder / "batchai_magics.py"
    shutil.copyfile(JOB_MODULE, module)
    module.chmod(0o600)


def with_module_path(command: str, folder: Path) -> str:
    """The shell command with a folder appended to PYTHONPATH."""
    return f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{shlex.quote(str(folder))}; {command}'
