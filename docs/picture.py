"""Takes the README's picture from a real job: `python -m docs.picture`.

JupyterLab runs in headless Chromium; the job is the quickstart's, seen while it runs.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import nbformat

from tests.widgets import lab as jupyter

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "notebooks"
TARGET = ROOT / "docs" / "live-view.png"
SEEN = 90  # the step at which the picture is taken


def main() -> None:
    """Writes the picture."""
    chromium = next(path for path in jupyter.CHROMIUM if Path(path).exists())
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        jupyter.server(Path(folder)) as server,
        jupyter.chrome(chromium) as chrome,
    ):
        shutil.copy(NOTEBOOKS / "cnn_benchmark.py", server.root)
        page = chrome.new_page(viewport={"width": 1200, "height": 1400}, device_scale_factor=1.5)
        lab = jupyter.Lab(page, server)
        lab.open("picture", "%load_ext batchai_magics", job_cell(), "job.wait();")
        lab.run(0)
        lab.run(1)
        page.get_by_text(f"{SEEN}\timages/sec").first.wait_for(timeout=60_000)
        page.mouse.move(2, 2)
        page.locator(".jp-Cell").nth(1).screenshot(path=TARGET)
        lab.run(2)
        lab.shut_down()


def job_cell() -> str:
    """The quickstart's job cell."""
    cells = nbformat.read(NOTEBOOKS / "01_quickstart.ipynb", as_version=4).cells
    return str(next(cell.source for cell in cells if cell.source.startswith("%%")))


if __name__ == "__main__":
    main()
