"""The quickstart with a smaller training, for tests of all else in it."""

from __future__ import annotations

import shutil
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def short_quickstart(folder: Path) -> Path:
    """A copy of the notebook, of what it uploads and of the program that runs it, in a folder."""
    name, training = "01_quickstart.ipynb", "--model small_resnet --batch_size 8 --num_batches 100"
    text = (NOTEBOOKS / name).read_text(encoding="utf-8")
    assert text.count(training) == 1
    small = "--model trivial --batch_size 8 --num_batches 20"
    (folder / name).write_text(text.replace(training, small), encoding="utf-8")
    for program in ("cnn_benchmark.py", "run.py"):
        shutil.copy(NOTEBOOKS / program, folder)
    return folder / name
