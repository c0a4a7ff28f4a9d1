"""The jobs that browser tests share run as long as those tests, and no longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.widgets.notebook_jobs import SCRIPT
from tests.world import until

pytestmark = pytest.mark.slow
AT_ONCE = "import time; time.sleep = lambda _: None\n"  # many times as long as any suite
STEPS = 5000


def start(folder: Path, owner: int) -> subprocess.Popen[bytes]:
    script = AT_ONCE + SCRIPT.format(flag=folder / "end", owner=owner)
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", script], env={**os.environ, "PMI_RANK": "0"}, stdout=log
        )


def test_a_job_of_the_browser_tests_runs_until_it_is_told_to_end(tmp_path: Path) -> None:
    with start(tmp_path, os.getpid()) as child:
        until(lambda: f"line {STEPS:06}" in (tmp_path / "log").read_text())
        (tmp_path / "end").touch()
        assert child.wait() == 0
    assert (tmp_path / "log").read_text().endswith("rank 0 is done\n")


def test_a_job_of_the_browser_tests_ends_when_they_are_gone(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with start(tmp_path, gone.pid) as child:
        assert child.wait() == 0
