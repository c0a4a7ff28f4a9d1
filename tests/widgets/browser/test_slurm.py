"""The live view of a job on a real Slurm: why it waits, how it runs on its nodes, and how it ended."""

import os
import re
from pathlib import Path

import pytest

from tests.backends.slurm.conftest import own_slurm  # noqa: F401  # a fixture
from tests.widgets.log_reader import missing
from tests.world import processes_of, until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

CELL = """%%batchai_job seen --nodes 2 --processes 2 --toolkit pytorch
import os, time
rank, step = os.environ["RANK"], 0
while not os.path.exists("{end}"):
    step += 1
    print(f"rank {{rank}} line {{step:06}}", flush=True)
    print(f"{{step}}\\timages/sec: {{100 + step}}.0 +/- 0.0 (jitter = 0.0)\\t{{9 / step:.3f}}", flush=True)
    time.sleep(0.5)
if rank == "0":
    from batchai_magics import log
    for step in range(40):
        log(step=step, accuracy=step / 40)
print(f"rank {{rank}} is done", flush=True)
"""


@pytest.fixture
def on_slurm(own_slurm, tmp_path):  # noqa: F811  # the fixture
    """The cell by which a notebook's jobs run there; no process of one is left at the end."""
    env = {
        "BATCHAI_UI": "widget",
        "BATCHAI_BACKEND": "slurm",
        "BATCHAI_SLURM_HOME": tmp_path / "home",
        "BATCHAI_SLURM_CONF": own_slurm.conf,
        "BATCHAI_SLURM_LOOK_S": "0.2",
    }
    yield "".join(f"%env {name}={value}\n" for name, value in env.items()) + "%load_ext batchai_magics"
    own_slurm.ask("scancel", "--user", str(os.getuid()))
    until(lambda: own_slurm.is_idle() and not processes_of(tmp_path / "home"))


def hold_all_nodes(slurm, folder):
    """Another job gets both nodes until there is the file that is given."""
    go = folder / "go"
    wrap = f"--wrap=until [ -e {go} ]; do sleep 0.1; done"
    assert slurm.ask("sbatch", "--parsable", "-N2", "--exclusive", "-o/dev/null", wrap).strip().isdigit()
    until(lambda: slurm.ask("squeue", "-h", "-t", "R", "-o", "%N").split() == ["node[1-2]"])
    return go


def log_of(folder) -> Path:
    """The job's stdout on the shared folder."""
    return until(lambda: next(folder.glob("home/shares/**/jobs/seen/*/stdouterr/stdout.txt"), None))


def test_a_job_is_seen_waiting_with_its_reason_then_running_then_ended(lab, own_slurm, on_slurm, tmp_path):  # noqa: F811
    go, end = hold_all_nodes(own_slurm, tmp_path), tmp_path / "end"
    lab.open("slurm", on_slurm, CELL.format(end=end))
    lab.run(0)
    lab.run(1)
    page = lab.page
    page.locator(".ba-badge", has_text="queued").wait_for()
    why = re.compile(r"Waiting for 2 nodes of \w+: too few of its nodes are free")
    page.locator(".ba-view", has_text=why).wait_for()
    go.touch()
    page.locator(".ba-badge", has_text="running").wait_for()
    page.get_by_role("img", name="Nodes: 2 running").wait_for()
    page.locator(".ba-facts", has_text="2 nodes × 1 process").wait_for()
    page.locator(".ba-row", has_text="line").first.wait_for()
    is_moving(page, log_of(tmp_path))
    end.touch()
    page.locator(".ba-badge", has_text="succeeded").wait_for()
    page.get_by_role("log").press("End")  # it was read elsewhere
    page.get_by_role("button", name=re.compile(r"log\(\) records, step \d+ to 39$")).wait_for()
    page.get_by_role("img", name="accuracy at step 39, 0.975").wait_for()
    assert missing(page, log_of(tmp_path)) == {}
    assert lab.errors == []


def is_moving(page, log):
    """The view has what the log has by now, and its chart is told of a later step."""
    chart = page.get_by_role("img", name="images/sec at step")
    chart.wait_for()
    first, size = chart.get_attribute("aria-label"), log.stat().st_size
    until(lambda: log.stat().st_size > size and chart.get_attribute("aria-label") != first)
    assert missing(page, log) == {}
