"""A program that watches a job and is killed: it is started again, or the job says that it is not watched."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.world import World, is_reading_logs, kill_watchers, processes_of, until

pytestmark = pytest.mark.slow
HELD = """
import os, time
print('{"step": 1, "loss": 2.0}', flush=True)
while not os.path.exists(GO): time.sleep(0.02)
print('{"step": 2, "loss": NaN}', flush=True)
if ENDS: raise SystemExit
time.sleep(100)
"""


def script(go: Path, *, ends: bool = False) -> str:
    """A job that prints a NaN once a file is there, and then ends, or does not."""
    return HELD.replace("GO", repr(str(go))).replace("ENDS", repr(ends))


def watchers(world: World) -> list[int]:
    """The processes that check the conditions of jobs."""
    return [process.pid for process in filter(is_reading_logs, processes_of(world.home))]


def test_conditions_are_still_checked_after_their_program_was_killed(world: World, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = world.submit('j --stop-if "loss is nan"', script(go))
    (first,) = until(lambda: watchers(world))
    os.kill(first, signal.SIGKILL)
    (second,) = until(lambda: [pid for pid in watchers(world) if pid != first])
    assert second != first
    go.touch()
    assert job.wait().show().is_stopped


def test_running_job_warns_that_its_conditions_are_no_longer_watched(world: World, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = world.submit('j --stop-if "loss is nan"', script(go, ends=True))

    def warnings() -> list[str]:
        kill_watchers(world.home)
        return [error.message for error in job.show().execution.errors] if job.show().is_running else []

    (text,) = until(warnings)
    assert job.show().is_running
    assert text.startswith("the conditions of this job are no longer watched: ")
    go.touch()
    ended = job.wait().show()
    assert (ended.word, [error.message for error in ended.execution.errors]) == ("succeeded", [text])
    assert job.log(file="execution.log").count(f"Z warning: {text}") == 1  # behind its time
