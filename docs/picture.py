"""Takes the pictures of the docs from real jobs: `python -m docs.picture [NAME …]`.

JupyterLab runs in headless Chromium; each picture is of real jobs, in few colours so that it is small.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from PIL import Image

from tests.widgets import lab as jupyter

if TYPE_CHECKING:
    from playwright.sync_api import Locator

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "notebooks"
COLOURS = 256
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
SEEN = 90  # the step of the quickstart at which its picture is taken
LOAD = "%load_ext batchai_magics"
PRINTING = """%%batchai_job {name} --nodes {nodes} --processes {ranks}
import math, os, random, time
rank, ranks = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
random.seed(rank)
if rank == 0:
    print(f"Model:       resnet50\\nBatch size:  {{32 * ranks}} global\\n             32 per device")
    print(f"Devices:     {{[f'horovod/gpu:{{each}}' for each in range(ranks)]}}", flush=True)
for step in range(1, 501):
    if step % 10 == 0:
        rate, loss = {rate} + random.gauss(0, 1.5), 7 * math.exp(-step / 150) + random.gauss(0, 0.05)
        print(f"{{step}}\\timages/sec: {{rate:.1f}} +/- 0.5 (jitter = 1.5)\\t{{loss:.3f}}", flush=True)
        print(f"step {{step}}/500", flush=True)
    if step == {end} and rank == ranks // 2:
        raise {error}
    time.sleep(0.01)
"""
SLOWER = PRINTING.replace("sleep(0.01)", "sleep(0.08)")
FAILS = {"end": 120, "error": 'RuntimeError("NCCL error: unhandled system error")'}
ENDS = {"end": 501, "error": "SystemExit"}


class Desk:
    """A notebook in JupyterLab, and pictures of what its cells show."""

    def __init__(self, lab: jupyter.Lab) -> None:
        self.lab = lab

    def run(self, name: str, *cells: str) -> Locator:
        """Opens a notebook of these cells, runs all but those that wait, and gives the last one."""
        self.lab.open(name, LOAD, *cells)
        for index in range(len(cells) + 1):
            self.lab.run(index)
        return self.lab.page.locator(".jp-Cell").nth(len(cells))

    def take(self, thing: Locator, name: str) -> None:
        """Writes a picture of a thing that has come to rest."""
        page, path = self.lab.page, ROOT / "docs" / f"{name}.png"
        page.mouse.move(2, 2)
        page.wait_for_timeout(800)
        thing.screenshot(path=path)
        in_few_colours(Image.open(path).convert("RGB")).save(path, optimize=True)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB", flush=True)


def in_few_colours(picture: Image.Image) -> Image.Image:
    """The picture in its most frequent colours, which stay what they are."""
    counted = sorted(picture.getcolors(1 << 24) or [], reverse=True)[:COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in counted for part in colour])  # type: ignore[attr-defined]  # RGB
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


def live_view(desk: Desk) -> None:
    """The quickstart while it runs."""
    cells = nbformat.read(NOTEBOOKS / "01_quickstart.ipynb", as_version=4).cells
    job = next(str(cell.source) for cell in cells if cell.source.startswith("%%batchai_job quickstart"))
    cell = desk.run("live", job)
    cell.get_by_text(f"{SEEN}\timages/sec").first.wait_for()
    desk.take(cell, "live-view")
    cell.locator(".ba-badge[data-state=succeeded]").first.wait_for()


def failure(desk: Desk) -> None:
    """A job one of whose ranks fails, in the light and in the dark."""
    cell = desk.run("failure", PRINTING.format(name="broken", nodes=2, ranks=4, rate=60, **FAILS))
    cell.locator(".ba-words", has_text="NCCL").wait_for()
    desk.take(cell.locator(".ba-view"), "failure")
    desk.lab.theme(DARK)
    desk.take(cell.locator(".ba-view"), "failure-dark")
    desk.lab.theme(LIGHT)


def runs(desk: Desk) -> None:
    """Runs of more and more processes, and how they scale."""
    sizes = {"resnet-1": (1, 1, 61), "resnet-2": (2, 2, 58), "resnet-4": (2, 4, 55)}
    cells = [
        PRINTING.format(name=name, nodes=nodes, ranks=ranks, rate=rate, **ENDS).replace(
            "%%batchai_job", "%%batchai_job --wait"
        )
        for name, (nodes, ranks, rate) in sizes.items()
    ]
    cell = desk.run("runs", *cells, f"%batchai scaling {' '.join(sizes)}")
    cell.locator("img").wait_for()
    desk.take(cell.locator(".jp-OutputArea").first, "scaling")


def listed(desk: Desk) -> None:
    """The list of jobs while one of them runs: long enough that it still does when the list is there."""
    training = SLOWER.format(name="resnet-warmup", nodes=2, ranks=4, rate=58, **ENDS)
    broken = PRINTING.format(name="resnet-broken", nodes=2, ranks=4, rate=60, **FAILS)
    done = PRINTING.format(name="resnet-base", nodes=2, ranks=2, rate=61, **ENDS)
    cells = [cell.replace("%%batchai_job", "%%batchai_job --wait") for cell in (done, broken)]
    cell = desk.run("list", *cells, training, "%batchai job list")
    training_row = cell.locator(".ba-dashboard tr", has_text="resnet-warmup")
    training_row.locator(".ba-progress[data-state=running]").wait_for()
    desk.take(cell.locator(".ba-dashboard"), "job-list")
    training_row.locator(".ba-badge[data-state=succeeded]").wait_for()


SCENES: dict[str, Callable[[Desk], None]] = {
    "live_view": live_view,
    "failure": failure,
    "runs": runs,
    "listed": listed,
}


def main(names: list[str]) -> None:
    """Writes the pictures of these scenes, or of all."""
    chromium = next(path for path in jupyter.CHROMIUM if Path(path).exists())
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        jupyter.server(Path(folder)) as server,
        jupyter.chrome(chromium) as chrome,
    ):
        shutil.copy(NOTEBOOKS / "cnn_benchmark.py", server.root)
        page = chrome.new_page(viewport={"width": 1100, "height": 2600}, device_scale_factor=1.25)
        desk = Desk(jupyter.Lab(page, server))
        for name in names or SCENES:
            SCENES[name](desk)
            desk.lab.close()


if __name__ == "__main__":
    main(sys.argv[1:])
