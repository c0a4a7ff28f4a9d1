"""Takes pictures of runs side by side into out/: `python -m tests.widgets.comparison_screenshots`."""

import tempfile
from pathlib import Path

from tests.widgets import lab as jupyter

OUT = Path(__file__).parents[2] / "out"
SETUP = """
%load_ext batchai_magics
import math, random
from batchai_magics import compare, scaling
from batchai_magics.jobs.job_handle import Job
from tests.widgets.scripted_cluster import EXPERIMENT, ExecutionState, Kind, ScriptedCluster
world = ScriptedCluster("{folder}")
random.seed(4)
LINE = "[1,{{}}]<stdout>:{{}}\\timages/sec: {{:.1f}} +/- 0.5 (jitter = 2.0)\\t{{:.3f}}\\n"
def head(ranks):
    return (f"Model:       resnet50\\nBatch size:  {{32 * ranks}} global\\n             32 per device\\n"
            f"Devices:     {{[f'horovod/gpu:{{r}}' for r in range(ranks)]}}\\n==========\\n")
def tell(name, ranks, first, last, rate):
    for step in range(first, last + 1):
        for rank in range(ranks):
            mean = rate * (1 - math.exp(-step / 8)) + random.gauss(0, rate / 60)
            loss = 7 * math.exp(-step / 40) + random.gauss(0, .05)
            world.tell(name, LINE.format(rank, step * 10, mean, loss))
RUNS = {{"resnet-1": (1, 61, 60), "resnet-2": (2, 58, 44), "resnet-4": (4, 52, 20)}}
for name, (ranks, rate, last) in RUNS.items():
    world.run(name, ExecutionState.RUNNING)
    world.tell(name, head(ranks))
    tell(name, ranks, 1, last, rate)
world.run("resnet-1", ExecutionState.SUCCEEDED)
world.tell("resnet-1", head(1))
tell("resnet-1", 1, 1, 60, 61)
world.run("waiting", ExecutionState.QUEUED)
jobs = [Job(world, EXPERIMENT.child(Kind.JOB, name)) for name in [*RUNS, "waiting"]]
"""
MORE = """
for name, (ranks, rate, last) in list(RUNS.items())[1:]:
    tell(name, ranks, last + 1, 60, rate)
"""
END = """
import dataclasses
for name, job in world.jobs.items():
    world.jobs[name] = dataclasses.replace(job, state=ExecutionState.SUCCEEDED)
"""


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
    page = chrome.new_page(viewport={"width": 1280, "height": 1500}, device_scale_factor=1.5)
    lab = jupyter.Lab(page, server)
    setup = SETUP.format(folder=folder / theme)
    lab.open(f"runs-{theme}", setup, "compare(jobs)", "scaling(jobs)", MORE, END)
    lab.theme(f"JupyterLab {theme.title()}")
    for index in range(3):
        lab.run(index)
    views = page.locator(".ba-dashboard")
    views.nth(1).locator(".ba-plot canvas").nth(1).wait_for()
    page.wait_for_timeout(1500)
    picture(views, theme, "early")
    lab.run(3)
    page.wait_for_timeout(3000)
    views.nth(0).locator(".ba-plot").first.hover()
    picture(views, theme, "live")
    views.nth(0).get_by_label("Draw over").first.select_option("time")
    page.set_viewport_size({"width": 620, "height": 1500})
    page.wait_for_timeout(500)
    picture(views, theme, "narrow")
    page.set_viewport_size({"width": 1280, "height": 1500})
    page.mouse.move(1, 1)
    lab.run(4)
    page.locator(".jp-CodeCell").nth(2).locator("img").wait_for()
    for index, name in ((1, "compare"), (2, "scaling")):
        cell = page.locator(".jp-CodeCell").nth(index)
        cell.locator(".jp-OutputArea").first.screenshot(path=OUT / f"{name}-{theme}-still.png")
    print(lab.errors)
    lab.shut_down()
    page.close()


def picture(views, theme, name):
    for index, kind in ((0, "compare"), (1, "scaling")):
        views.nth(index).screenshot(path=OUT / f"{kind}-{theme}-{name}.png")


if __name__ == "__main__":
    main()
