"""A job's supervisor loads what it needs while the job gets its nodes, and is nothing before it is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from batchai_magics.backends.local.watch import detached_process, plan_binding
from batchai_magics.backends.local.watch.detached_process import JobSecrets, Program
from tests.world import World, until

pytestmark = pytest.mark.slow

DYING = """
import os, sys, time
from pathlib import Path
from batchai_magics.backends.local.watch import detached_process
program = detached_process.Program("supervisor", ("home", "key", "guid"), sys.executable, Path(sys.argv[1]))
with detached_process.preloaded(program):
    print(detached_process._loading[program].pid, flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The programs that are begun from here on."""
    children: list[subprocess.Popen[bytes]] = []

    class Noted(detached_process.DetachedProcess):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            children.append(self)

    monkeypatch.setattr(detached_process, "DetachedProcess", Noted)
    return children


def supervisor(folder: Path) -> Program:
    return Program("supervisor", (str(folder), "key", "guid"), sys.executable, folder / "log")


def test_it_is_begun_before_the_plan_is_written_and_runs_the_job(
    world: World, begun: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bind, seen = plan_binding.bind, []

    def look(*given: Any) -> None:
        seen.append(len(begun))
        bind(*given)

    monkeypatch.setattr(plan_binding, "bind", look)
    job = world.submit("j")
    with world.backend.store.read() as db:
        (watcher,) = db.execute("SELECT supervisor FROM job WHERE key = ?", (job.id.key,)).fetchone()
    assert (seen, [f"{child.pid}" for child in begun]) == ([1], [watcher.partition(":")[0]])
    assert job.wait().log() == "hello\n"


def test_one_that_was_begun_ahead_gets_the_secrets(
    world: World, begun: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    assert world.run("j --secret TOKEN", "import os; print(len(os.environ['TOKEN']))").log() == "9\n"
    assert len(begun) == 1


def test_a_job_that_has_to_wait_has_none(world: World, begun: list[subprocess.Popen[bytes]]) -> None:
    first = world.submit("first --nodes 2", "import time; time.sleep(1000)")
    until(lambda: first.show().is_running)
    second = world.submit("second")
    assert len(begun) == 1
    world.backend.terminate(second.id)
    world.backend.terminate(first.id)


def test_one_that_nobody_starts_ends_and_has_said_nothing(
    tmp_path: Path, begun: list[subprocess.Popen[bytes]]
) -> None:
    with detached_process.preloaded(supervisor(tmp_path)):
        assert begun[0].poll() is None
    assert begun[0].returncode is not None
    assert (tmp_path / "log").read_text() == ""
    detached_process.start(supervisor(tmp_path), secrets=JobSecrets()._asdict()).wait()
    assert len(begun) == 2


def test_one_that_has_died_is_begun_again(tmp_path: Path, begun: list[subprocess.Popen[bytes]]) -> None:
    with detached_process.preloaded(supervisor(tmp_path)):
        begun[0].kill()
        begun[0].wait()
        child = detached_process.start(supervisor(tmp_path), secrets=JobSecrets()._asdict())
    assert child is begun[1]
    child.wait()


def test_it_ends_without_a_word_when_who_began_it_is_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", DYING, str(tmp_path / "log")]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -9
    until(lambda: not psutil.pid_exists(int(done.stdout)))
    assert (tmp_path / "log").read_text() == ""


def test_that_it_cannot_be_begun_is_told_by_who_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(detached_process, "DetachedProcess", refuse)
    with detached_process.preloaded(supervisor(tmp_path)), pytest.raises(OSError, match="no more processes"):
        detached_process.start(supervisor(tmp_path), secrets={})
