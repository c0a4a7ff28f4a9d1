"""The quickstart with a fifth of its training, for backends on which only its way there and back differs."""

from __future__ import annotations

import shutil
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def short_quickstart(folder: Path) -> Path:
    """A copy of the notebook and what it uploads, in a folder."""
    name, batches = "01_quickstart.ipynb", "--num_batches 100"
    text = (NOTEBOOKS / name).read_text(encoding="utf-8")
    assert text.count(batches) == 1
    (folder / name).write_text(text.replace(batches, "--num_batches 20"), encoding="utf-8")
    shutil.copy(NOTEBOOKS / "cnn_benchmark.py", folder)
    return folder / name
