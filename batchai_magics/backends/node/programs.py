"""The programs that run on nodes: where they are, and a copy of them for machines without this package."""

from __future__ import annotations

import shutil
from pathlib import Path

from batchai_magics.launch import plan

RANK = str(Path(__file__).with_name("rank.py"))
RUN_SCRIPT = str(Path(__file__).with_name("run_script.py"))


def copy_to(folder: Path) -> None:
    """Copies the programs, and the file of the Plan that they read, to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (RANK, RUN_SCRIPT, plan.__file__):
        shutil.copy(file, folder)
