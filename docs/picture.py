"""Takes the README's picture from a real job: `python -m docs.picture`.

JupyterLab runs in headless Chromium; the job is the quickstart's benchmark, seen while it runs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat

from tests.widgets import lab as jupyter

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "live-view.png"
CELL = """\
%%batchai_job resnet --nodes 2 --processes 4 --upload benchmark.py --args "--display_every 2"
import runpy

runpy.run_module("benchmark", run_name="__main__")"""
SEEN = 90  # the step at which the picture is taken


def main() -> None:
    """Writes the picture."""
    chromium = next(path for path in jupyter.CHROMIUM if Path(path).exists())
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        jupyter.server(Path(folder)) as server,
        jupyter.chrome(chromium) as chrome,
    ):
        (server.root / "benchmark.py").write_text(benchmark(), encoding="utf-8")
        page = chrome.new_page(viewport={"width": 1200, "height": 1100}, device_scale_factor=1.5)
        lab = jupyter.Lab(page, server)
        lab.open("picture", "%load_ext batchai_magics", CELL, "job.wait();")
        lab.run(0)
        lab.run(1)
        page.get_by_text(f"{SEEN}\timages/sec").first.wait_for(timeout=60_000)
        page.mouse.move(2, 2)
        page.locator(".jp-Cell").nth(1).screenshot(path=TARGET)
        lab.run(2)
        lab.shut_down()


def benchmark() -> str:
    """The script in the quickstart's job cell."""
    cells = nbformat.read(ROOT / "notebooks" / "01_quickstart.ipynb", as_version=4).cells
    return next(cell.source for cell in cells if cell.source.startswith("%%")).partition("\n")[2]


if __name__ == "__main__":
    main()
