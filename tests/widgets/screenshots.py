"""Takes pictures of the live view into out/: `python -m tests.widgets.screenshots`."""

import tempfile
from pathlib import Path

from . import lab as jupyter

OUT = Path(__file__).parents[2] / "out"
SETUP = """
import itertools, math, random, threading, time
from datetime import datetime, timedelta, timezone
from tests.widgets import scripted
from batchai_magics import widgets
from batchai_magics.jobs.handle import Job
scripted.START = datetime.now(timezone.utc) - timedelta(seconds=95)
backend = scripted.ScriptedBackend("{folder}")
job = Job(backend, scripted.JOB)
"""
TRAIN = """
random.seed(1)
backend.write("TensorFlow:  1.10\\nModel:       resnet50\\nDataset:     imagenet (synthetic)\\n")
backend.write("Batch size:  128 global\\n             32 per device\\n==========\\nRunning warm up\\n")
backend.write("\\x1b[33mW0301 12:00:08 allreduce: falling back to the ring algorithm\\x1b[0m\\n")
backend.write("Done warm up\\nStep\\tImg/sec\\ttotal_loss\\n")
for step in [1, *range(10, {steps}, 10)]:
    for rank in range(4):
        rate = (212 - 9 * rank) * (1 - math.exp(-step / 60)) + 60 + random.gauss(0, 2.5) * 100 / (step + 40)
        loss = 7.2 * math.exp(-step / 320) + 0.9 + random.gauss(0, 0.06)
        backend.write(scripted.step_line(step, rank, rate, loss))
    time.sleep(0.004)
"""
SHOW = "widgets.show(job)"


def main():
    OUT.mkdir(exist_ok=True)
    chromium = next(path for path in jupyter.CHROMIUM if Path(path).exists())
    with (
        tempfile.TemporaryDirectory() as folder,
        jupyter.server(Path(folder)) as server,
        jupyter.chrome(chromium) as chrome,
    ):
        for theme in ("light", "dark"):
            take(chrome, server, Path(folder), theme)


def take(chrome, server, folder, theme):
    page = chrome.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=1.5)
    lab = jupyter.Lab(page, server)
    setup = SETUP.format(folder=folder / theme)
    end = (
        "backend.finish(scripted.ExecutionState.FAILED, **scripted.FAILURE)"
        if theme == "dark"
        else "backend.finish()"
    )
    error = 'backend.write("Traceback (most recent call last):\\n  RuntimeError: NCCL\\n", file="stderr.txt")'
    lab.open(theme, setup, SHOW, TRAIN.format(steps=800), error, end)
    lab.theme(f"JupyterLab {theme.title()}")
    lab.run(0)
    lab.run(1)
    view = page.locator(".ba-view")
    view.wait_for()
    page.wait_for_timeout(500)
    view.screenshot(path=OUT / f"view-{theme}-empty.png")
    lab.run(2)
    page.wait_for_timeout(1500)
    view.screenshot(path=OUT / f"view-{theme}.png")
    page.screenshot(path=OUT / f"page-{theme}.png")
    page.get_by_label("Search the log").fill("images/sec: 2[0-9]{2}")
    page.get_by_label("Regular expression").click()
    page.locator(".ba-plot").first.hover(position={"x": 300, "y": 80})
    page.wait_for_timeout(300)
    view.screenshot(path=OUT / f"view-{theme}-search.png")
    page.set_viewport_size({"width": 640, "height": 1300})
    page.wait_for_timeout(500)
    view.screenshot(path=OUT / f"view-{theme}-narrow.png")
    page.set_viewport_size({"width": 1280, "height": 1600})
    lab.run(3)
    lab.run(4)
    page.mouse.move(2, 2)
    page.locator("body").focus()
    page.get_by_label("Search the log").blur()
    page.wait_for_selector(".jp-RenderedImage img")
    page.wait_for_timeout(500)
    page.locator(".jp-OutputArea", has=page.locator("img")).screenshot(path=OUT / f"still-{theme}.png")
    lab.shut_down()
    page.close()


if __name__ == "__main__":
    main()
