"""The quickstart with a fifth of its training, for tests of all else in it."""

from __future__ import annotations

import shutil
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def short_quickstart(folder: Path) -> Path:
    """A copy of the notebook, of what it uploads and of the program that runs it, in a folder."""
    name, batches = "01_quickstart.ipynb", "--num_batches 100"
    text = (NOTEBOOKS / name).read_text(encoding="utf-8")
    assert text.count(batches) == 1
    (folder / name).write_text(text.replace(batches, "--num_batches 20"), encoding="utf-8")
    for program in ("cnn_benchmark.py", "run.py"):
        shutil.copy(NOTEBOOKS / program, folder)
    return folder / name
