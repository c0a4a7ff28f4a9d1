"""Takes pictures of the views of clusters and jobs into out/: `python -m tests.widgets.board_screenshots`."""

import tempfile
from pathlib import Path

from . import lab as jupyter

OUT = Path(__file__).parents[2] / "out"
SETUP = """
import math, random
from batchai_magics import widgets
from tests.widgets.place import ExecutionState, NodeState, Place
N = NodeState
place = Place("{folder}", [*[N.RUNNING] * 4, *[N.IDLE] * 2, N.PREPARING, N.LEAVING, N.UNUSABLE])
place.scale = {{"autoScale": {{"minimumNodeCount": 1, "maximumNodeCount": 12, "initialNodeCount": 0}}}}
random.seed(2)
def rates(top, count):
    return [(1 - math.exp(-i / 6)) * top + random.gauss(0, top / 40) + 5 for i in range(count)]
S = ExecutionState
place.run("resnet50-baseline", S.SUCCEEDED, rates=rates(412, 60), seconds=9000)
place.run("inception3-batch64", S.FAILED, rates=rates(198, 14), seconds=6400, exit_code=1)
place.run("vgg16", S.SUCCEEDED, rates=rates(155, 50), seconds=5100)
place.run("resnet50-8gpu", S.TERMINATING, rates=rates(1604, 30), seconds=900)
place.run("resnet50-lr-warmup", S.RUNNING, rates=rates(806, 24), seconds=372)
place.run("mnist", S.RUNNING, seconds=42)
for i in range(3):
    place.run(f"sweep-{{i}}", S.QUEUED, seconds=30 - i)
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
    page = chrome.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=1.5)
    lab = jupyter.Lab(page, server)
    cells = ["widgets.show_board(place.cluster_subject)", "widgets.show_board(place.jobs_subject)"]
    stills = [cell.replace(")", ", ui='html')") for cell in cells]
    lab.open(f"boards-{theme}", SETUP.format(folder=folder / theme), *cells, *stills)
    lab.theme(f"JupyterLab {theme.title()}")
    for index in range(3):
        lab.run(index)
    cluster, jobs = page.locator(".ba-board").nth(0), page.locator(".ba-board").nth(1)
    jobs.locator(".ba-spark:not([hidden])").first.wait_for()
    page.wait_for_timeout(800)
    cluster.screenshot(path=OUT / f"cluster-{theme}.png")
    jobs.screenshot(path=OUT / f"jobs-{theme}.png")
    cluster.get_by_label("How the cluster is scaled").select_option("manual")
    cluster.get_by_label("Number of nodes").fill("3")
    cluster.screenshot(path=OUT / f"cluster-{theme}-edited.png")
    cluster.get_by_role("button", name="Resize").click()
    cluster.screenshot(path=OUT / f"cluster-{theme}-asked.png")
    jobs.get_by_role("button", name="resnet50-lr-warmup").click()
    jobs.locator(".ba-opened-view .ba-plot canvas").first.wait_for()
    page.set_viewport_size({"width": 1280, "height": 1500})
    page.wait_for_timeout(500)
    jobs.screenshot(path=OUT / f"jobs-{theme}-open.png")
    jobs.get_by_role("button", name="Close").click()
    page.set_viewport_size({"width": 540, "height": 1300})
    page.wait_for_timeout(500)
    cluster.screenshot(path=OUT / f"cluster-{theme}-narrow.png")
    jobs.screenshot(path=OUT / f"jobs-{theme}-narrow.png")
    page.set_viewport_size({"width": 1280, "height": 1500})
    for index in (3, 4):
        lab.run(index)
    page.wait_for_timeout(500)
    page.locator(".jp-CodeCell").nth(4).locator("table").wait_for()
    for index, name in ((3, "cluster"), (4, "jobs")):
        cell = page.locator(".jp-CodeCell").nth(index)
        cell.locator(".jp-OutputArea").first.screenshot(path=OUT / f"{name}-{theme}-still.png")
    print(lab.errors)
    lab.shut_down()
    page.close()


if __name__ == "__main__":
    main()
