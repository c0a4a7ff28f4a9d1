"""Makes the recordings of the docs from real jobs, and the README's moving picture of one.

`python -m docs.recordings` makes all; `python -m docs.recordings picture` only the picture, a replay in
headless Chromium.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from batchai_magics.backends.base.backend_registry import load_settings, open_backend
from batchai_magics.cell import parse
from batchai_magics.jobs.submit import submit
from batchai_magics.widgets.core.pages import STATIC
from tests.widgets.lab import CHROMIUM

FOLDER = Path(__file__).parent / "recordings"
PICTURE = FOLDER.parent / "replay.png"
SIZE = {"width": 760, "height": 560}
COLOURS = 128
FRAMES, FRAME_MS, LAST_MS = 16, 600, 4000
PAGE = """<!doctype html><html lang="en"><link rel="stylesheet" href="job_view.css">
<body style="margin: 0; --jp-layout-color1: #fff; --jp-border-color2: #d0d0d0; --jp-border-color3: #e6e6e6;
  --jp-content-font-color1: #212121; --jp-ui-font-color2: #5f5f5f"><div></div><script type="module">
import widget from "./job_view.js";
const options = {recording: "./recording", speed: 1.4};
widget().render({model: {get: (name) => options[name]}, el: document.querySelector("div")});
</script></body></html>"""
TRAIN = """
import math, os, random, time
from batchai_magics import log
rank = int(os.environ["AZ_BATCHAI_TASK_INDEX"])
random.seed(rank)
print(f"rank {rank} reads its part of the data")
for step in range(1, 121):
    time.sleep(0.08 + 0.02 * (rank == 3))
    loss = 2.3 * math.exp(-step / 40) + 0.2 + random.gauss(0, 0.03)
    log(step=step, loss=loss, images_per_sec=(410 - 60 * (rank == 3)) * random.uniform(0.97, 1.03))
    if step % 30 == 0:
        log(step=step, val_loss=2.2 * math.exp(-step / 40) + 0.28)
        print(f"rank {rank}: validated after step {step}")
"""
FAIL = """
import os, time
from batchai_magics import log
rank = int(os.environ["AZ_BATCHAI_TASK_INDEX"])

def read_batch(step):
    if rank == 2 and step == 40:
        raise FileNotFoundError("shard-0040.tar is not in the share")
    time.sleep(0.08)

for step in range(1, 81):
    read_batch(step)
    log(step=step, loss=2 / step)
"""
JOBS = {"training": TRAIN, "failure": FAIL}


def main(words: list[str]) -> None:
    """Makes what the words say, or all."""
    if not words:
        make_recordings()
    make_picture()


def make_recordings() -> None:
    """Runs each job in a home and a folder of its own, so that nothing of this machine is recorded."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="batchai-", ignore_cleanup_errors=True) as home:
        os.environ["BATCHAI_HOME"] = home
        os.chdir(home)
        settings = load_settings()
        backend = open_backend(settings)
        for name, script in JOBS.items():
            line = f"{name} --nodes 2 --processes 4 --toolkit custom --new"
            job = submit(backend, parse(line, script, settings=settings), settings).job
            print(job.record(FOLDER / f"{name}.batchai"))
        backend.close()


def make_picture() -> None:
    """A replay as an animated PNG, which GitHub and PyPI show without a script."""
    chromium = next(path for path in CHROMIUM if Path(path).exists())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.route("http://replay.test/**", lambda route: route.fulfill(**answer(route.request.url)))
        page.goto("http://replay.test/page.html")
        page.locator(".ba-view").first.wait_for()
        frames = [frame(page) for _ in range(FRAMES)]
        browser.close()
    palette = palette_of(frames)
    first, *others = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    times = [FRAME_MS] * len(others) + [LAST_MS]
    first.save(PICTURE, save_all=True, append_images=others, duration=times, loop=0, optimize=True)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB")


def answer(url: str) -> dict[str, str | bytes]:
    """What the page is given for an address."""
    name = url.rpartition("/")[2]
    if name == "page.html":
        return {"body": PAGE, "content_type": "text/html"}
    if name == "recording":
        return {
            "body": (FOLDER / "training.batchai").read_bytes(),
            "content_type": "application/octet-stream",
        }
    kind = "text/css" if name.endswith("css") else "text/javascript"
    return {"body": (STATIC / name).read_bytes(), "content_type": kind}


def frame(page: Page) -> Image.Image:
    """The page after a while."""
    page.wait_for_timeout(FRAME_MS)
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def palette_of(frames: list[Image.Image]) -> Image.Image:
    """The most frequent colours of all frames: one palette keeps the picture small."""
    counts: Counter[tuple[int, ...]] = Counter()
    for each in frames:
        counts.update({colour: count for count, colour in each.getcolors(1 << 24) or []})
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour, _ in counts.most_common(COLOURS) for part in colour])
    return palette


if __name__ == "__main__":
    main(sys.argv[1:])
