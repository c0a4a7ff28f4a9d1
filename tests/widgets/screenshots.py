"""Takes pictures of the live views into out/: `python -m tests.widgets.screenshots [jobs] [dashboards]`."""

import sys
import tempfile
from pathlib import Path

from tests.widgets import lab as jupyter

OUT = Path(__file__).parents[2] / "out"
JOB = """
import math, random, time
from datetime import datetime, timedelta, timezone
from tests.widgets import scripted_job
from batchai_magics import widgets
from batchai_magics.jobs.job_handle import Job
scripted_job.START = datetime.now(timezone.utc) - timedelta(seconds=95)
backend = scripted_job.ScriptedBackend("{folder}")
job = Job(backend, scripted_job.JOB)
"""
TRAIN = """
random.seed(1)
backend.write("TensorFlow:  1.10\\nModel:       resnet50\\nDataset:     imagenet (synthetic)\\n")
backend.write("Batch size:  128 global\\n             32 per device\\n==========\\nRunning warm up\\n")
backend.write("\\x1b[33mW0301 12:00:08 allreduce: falling back to the ring algorithm\\x1b[0m\\n")
backend.write("Done warm up\\nStep\\tImg/sec\\ttotal_loss\\n")
for step in [1, *range(10, 800, 10)]:
    for rank in range(4):
        rate = (212 - 9 * rank) * (1 - math.exp(-step / 60)) + 60 + random.gauss(0, 2.5) * 100 / (step + 40)
        loss = 7.2 * math.exp(-step / 320) + 0.9 + random.gauss(0, 0.06)
        backend.write(scripted_job.step_line(step, rank, rate, loss))
    time.sleep(0.004)
"""
FAIL = """
backend.write("Traceback (most recent call last):\\n  RuntimeError: NCCL\\n", file="stderr.txt", rank=2)
backend.finish(scripted_job.ExecutionState.FAILED, **scripted_job.FAILURE)
"""
DASHBOARDS = """
import math, random
from batchai_magics import widgets
from tests.widgets.scripted_cluster import ExecutionState as S, NodeState as N, ScriptedCluster
nodes = [*[N.RUNNING] * 4, *[N.IDLE] * 2, N.PREPARING, N.LEAVING, N.UNUSABLE]
world = ScriptedCluster("{folder}", nodes)
world.scale = {{"autoScale": {{"minimumNodeCount": 1, "maximumNodeCount": 12, "initialNodeCount": 0}}}}
random.seed(2)
def rates(top, count):
    return [(1 - math.exp(-i / 6)) * top + random.gauss(0, top / 40) + 5 for i in range(count)]
world.run("resnet50-baseline", S.SUCCEEDED, rates=rates(412, 60), seconds=9000)
world.run("inception3-batch64", S.FAILED, rates=rates(198, 14), seconds=6400, exit_code=1)
world.run("vgg16", S.SUCCEEDED, rates=rates(155, 50), seconds=5100)
world.run("resnet50-8gpu", S.TERMINATING, rates=rates(1604, 30), seconds=900)
world.run("resnet50-lr-warmup", S.RUNNING, rates=rates(806, 24), seconds=372)
world.run("mnist", S.RUNNING, seconds=42)
for i in range(3):
    world.run(f"sweep-{{i}}", S.QUEUED, seconds=30 - i)
"""
CELLS = ("widgets.show_dashboard(world.cluster_subject)", "widgets.show_dashboard(world.jobs_subject)")
STILLS = tuple(cell.replace(")", ", ui='html')") for cell in CELLS)


class Album:
    """A notebook in one theme, and the pictures taken of it."""

    def __init__(self, chrome, server, theme):
        self.page = chrome.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=1.5)
        self.lab = jupyter.Lab(self.page, server)
        self.theme = theme

    def open(self, name, *cells):
        self.lab.open(f"{name}-{self.theme}", *cells)
        self.lab.theme(f"JupyterLab {self.theme.title()}")

    def take(self, thing, name, *, width=None, height=900):
        """A picture of a thing once it has come to rest."""
        if width:
            self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_timeout(600)
        thing.screenshot(path=OUT / f"{name}-{self.theme}.png")

    def close(self):
        print(self.theme, self.lab.errors)
        self.lab.shut_down()
        self.page.close()


def jobs(album, folder):
    page, lab = album.page, album.lab
    album.open("view", JOB.format(folder=folder), "widgets.show(job)", TRAIN, FAIL)
    for index in range(2):
        lab.run(index)
    view = page.locator(".ba-view")
    view.wait_for()
    album.take(view, "view-empty")
    lab.run(2)
    page.get_by_role("img", name="images/sec at step 790").wait_for()
    album.take(view, "view")
    page.get_by_label("Search the log").fill("images/sec: 2[0-9]{2}")
    page.get_by_label("Regular expression").click()
    page.locator(".ba-plot").first.hover(position={"x": 300, "y": 80})
    album.take(view, "view-search")
    album.take(view, "view-narrow", width=540, height=1300)
    page.get_by_label("Search the log").fill("")
    page.set_viewport_size({"width": 1280, "height": 1600})
    page.mouse.move(2, 2)
    page.get_by_label("Search the log").blur()
    lab.run(3)
    page.get_by_role("tab", name="First failure").click()
    page.locator(".ba-words", has_text="NCCL").wait_for()
    album.take(view, "view-failed")
    page.get_by_role("tab", name="First failure").blur()
    page.mouse.move(2, 2)
    page.locator(".jp-RenderedImage img").wait_for(state="attached")
    lab.save()
    lab.reload()
    page.locator(".jp-RenderedImage img").wait_for()
    album.take(page.locator(".jp-OutputArea", has=page.locator("img")), "still")


def dashboards(album, folder):
    page, lab = album.page, album.lab
    album.open("dashboards", DASHBOARDS.format(folder=folder), *CELLS, *STILLS)
    for index in range(3):
        lab.run(index)
    cluster, listed = page.locator(".ba-dashboard").nth(0), page.locator(".ba-dashboard").nth(1)
    listed.locator(".ba-spark:not([hidden])").first.wait_for()
    album.take(cluster, "cluster")
    album.take(listed, "jobs")
    cluster.get_by_label("How the cluster is scaled").select_option("manual")
    cluster.get_by_label("Number of nodes").fill("3")
    cluster.get_by_role("button", name="Resize").click()
    album.take(cluster, "cluster-asked")
    listed.get_by_role("button", name="resnet50-lr-warmup").click()
    listed.locator(".ba-opened-view .ba-plot canvas").first.wait_for()
    album.take(listed, "jobs-open", width=1280, height=1500)
    listed.get_by_role("button", name="Close").click()
    album.take(cluster, "cluster-narrow", width=540, height=1300)
    album.take(listed, "jobs-narrow")
    page.set_viewport_size({"width": 1280, "height": 1500})
    for index, name in ((3, "cluster-still"), (4, "jobs-still")):
        lab.run(index)
        album.take(page.locator(".jp-CodeCell").nth(index).locator(".jp-OutputArea").first, name)


SCENES = {"jobs": jobs, "dashboards": dashboards}


def main(names):
    OUT.mkdir(exist_ok=True)
    chromium = next(path for path in jupyter.CHROMIUM if Path(path).exists())
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        jupyter.server(Path(folder)) as server,
        jupyter.chrome(chromium) as chrome,
    ):
        for theme in ("light", "dark"):
            for name in names or SCENES:
                album = Album(chrome, server, theme)
                SCENES[name](album, Path(folder) / f"{name}-{theme}")
                album.close()


if __name__ == "__main__":
    main(sys.argv[1:])
