"""Jobs that leave their GPUs idle, on a machine whose GPUs and driver are a library compiled for the test."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.backends.local.namespace import scene, tell
from tests.backends.node.ranks.test_gpus import compiled
from tests.patience import PATIENCE_S
from tests.world import World, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler for C"),
]
DEVICES = ("null", "zero", "full", "random", "urandom", "shm")
SLEEPS = "import time\ntime.sleep(600)"


def add_gpus(folder: Path) -> None:
    """Gives this mount namespace two GPUs: device files, a loaded driver and its library."""
    devices, driver = folder / "dev", Path("/proc/driver")
    devices.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(devices)], check=True)
    for name in DEVICES:
        here = devices / name
        here.mkdir() if Path("/dev", name).is_dir() else here.touch()
        subprocess.run(["mount", "--rbind", f"/dev/{name}", str(here)], check=True)
    (devices / "fd").symlink_to("/proc/self/fd")
    for number in range(2):
        (devices / f"nvidia{number}").touch()
    subprocess.run(["mount", "--move", str(devices), "/dev"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(driver)], check=True)
    (driver / "nvidia").mkdir()
    (driver / "nvidia" / "version").write_text("NVRM")
    compiled(folder / "libnvidia-ml.so.1")
    os.environ["LD_LIBRARY_PATH"] = str(folder)


def jobs_on_a_busy_and_on_an_idle_gpu(folder: Path) -> None:
    add_gpus(folder)
    worlds, jobs = [World(folder / f"home-{gpu}") for gpu in range(2)], []
    for gpu, world in enumerate(worlds):
        os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)
        jobs.append(world.submit('job --stop-if "gpu < 5% for 1s" --stop-if "gpu > 90% for 1s"', SLEEPS))
        until(lambda: jobs[-1].show().execution)  # it has its variables
    for job in jobs:
        shown = job.wait(PATIENCE_S).show()
        tell(shown.word, [error.message for error in shown.execution.errors])
    for world in worlds:
        world.close()


def test_job_is_stopped_by_the_gpu_use_that_the_driver_reports(tmp_path: Path) -> None:
    assert scene(jobs_on_a_busy_and_on_an_idle_gpu, tmp_path) == [
        ["stopped", ['stop-if "gpu > 90% for 1s": its GPUs were used at 97 % on average']],
        ["stopped", ['stop-if "gpu < 5% for 1s": its GPUs were used at 3 % on average']],
    ]
