"""Whatever is killed or restarted: the state is honest afterwards, and nothing hangs about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from batchai_magics.backends.local import process, reconciler
from batchai_magics.errors import StorageError
from batchai_magics.follow import LogFault
from batchai_magics.jobs.submit import find
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.world import World, processes_of, until

pytestmark = pytest.mark.slow

SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(1000)"
SUBMIT = """
import sys
from pathlib import Path
from batchai_magics import cell
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.jobs.submit import submit
settings = Settings(sections={"local": LocalSettings(home=Path(sys.argv[1]))})
for line in sys.argv[3:]:
    submit(open_backend(settings), cell.parse(line, sys.argv[2], settings=settings), settings)
print("submitted", flush=True)
sys.stdin.read()
"""


FAIL_ONCE = """
from batchai_magics.backends.local import supervisor
def fail_once(store, layout, guid, bind=supervisor.bind):
    mark = layout.home / "failed-once"
    if not mark.exists():
        mark.touch()
        {fault}
    return bind(store, layout, guid)
supervisor.bind = fail_once
"""
KILLED = "os.kill(os.getpid(), 9)"
FULL = "raise OSError(28, 'No space left on device')"
LOST = "The job's supervisor disappeared (killed, or the machine was restarted)"
NO_ROOM = "The disk is full: nothing of the job was started. Free some space and submit it again"


def kernel(world: World, body: str, *lines: str) -> subprocess.Popen[str]:
    """A process of its own that submits cells and then waits, as a notebook's kernel does."""
    argv = [sys.executable, "-c", SUBMIT, str(world.home), body, *lines]
    return subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def up(world: World, line: str = "j --nodes 2 --processes 2"):
    job = world.submit(line, SLEEP)
    until(lambda: job.log() == "up\nup\n")
    return job


def test_a_job_outlives_the_kernel_that_submitted_it(world: World) -> None:
    child = kernel(world, "import time; time.sleep(1); print('done')", "j --nodes 2 --processes 2")
    assert child.stdout.readline() == "submitted\n"
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    job = find(world.backend, "j", world.settings).wait(PATIENCE_S)
    assert (job.state, job.log()) == (ExecutionState.SUCCEEDED, "done\ndone\n")


def test_a_queued_job_starts_although_its_kernel_is_gone(world: World) -> None:
    child = kernel(world, "import time; time.sleep(0.5)", "a --nodes 2", "b --nodes 2")
    child.stdout.readline()
    end(child)
    with world.backend.store.read() as db:  # looks without helping, as `show` would
        until(lambda: db.execute("SELECT count(*) FROM job WHERE state = 'succeeded'").fetchone()[0] == 2)


def test_a_killed_supervisor_fails_its_job_and_takes_everything_with_it(world: World) -> None:
    job = up(world)
    world.supervisor(job).kill()
    until(lambda: not processes_of(world.home))  # although nobody looks
    # a process that is about to end has no words any more and is not gone yet
    (error,) = until(lambda: job.show().execution.errors)
    assert error.code == "JobSupervisorLost"
    fault = "its last lines may be missing: the job was killed"
    assert job.log() == "up\nup\n\n[The last log lines may be missing: the job was killed]\n"
    assert {event.fault for event in job.events() if isinstance(event, LogFault)} == {fault}
    with pytest.raises(StorageError, match="The last log lines may be missing"):
        job.download("stdout.txt", world.home / "to")
    assert world.backend.show(world.cluster).node_states.idle_node_count == 2


def test_a_job_with_restarts_continues_after_its_supervisor_was_killed(world: World) -> None:
    job = up(world, "j --nodes 2 --processes 2 --requeue 1")
    world.supervisor(job).kill()
    until(lambda: job.is_done or job.log().count("up\n") == 4)
    assert [each.reason for each in job.attempts()] == ["its supervisor disappeared", ""]
    world.supervisor(job).kill()
    until(lambda: job.is_done)
    assert job.show().execution.errors[0].code == "JobSupervisorLost"
    until(lambda: not processes_of(world.home))


@pytest.mark.parametrize("how", ["terminate", "delete"])
def test_a_stopped_supervisor_hears_that_its_job_is_to_end(world: World, how: str) -> None:
    job = up(world)
    supervisor = world.supervisor(job)
    supervisor.suspend()
    getattr(world.backend, how)(job.id)
    until(lambda: not world.backend.list(world.experiment, Kind.JOB) or job.is_done)
    until(lambda: not processes_of(world.home))
    if how == "terminate":
        assert job.show().execution.errors[0].code == "JobTerminated"


def test_a_supervisor_that_nothing_wakes_is_killed_for_a_deletion(world: World, monkeypatch) -> None:
    monkeypatch.setattr(reconciler, "OVERDUE_S", 0.5)
    monkeypatch.setattr(process, "ask_to_end", lambda name: None)
    job = up(world, "j --nodes 2 --processes 2 --grace 1s")
    world.supervisor(job).suspend()
    job.delete()
    assert not world.backend.list(world.experiment, Kind.JOB)
    until(lambda: not processes_of(world.home))


def test_a_supervisor_whose_guard_was_killed_goes_on(world: World) -> None:
    job = up(world)
    supervisor = world.supervisor(job)
    guard = next(p for p in supervisor.children() if p.cmdline() == supervisor.cmdline())
    guard.kill()
    job.cancel()
    assert job.wait(PATIENCE_S).state is ExecutionState.FAILED
    assert not process.marked(world.guid(job))


@pytest.mark.parametrize(
    ("fault", "option", "errors"),
    [
        (KILLED, "", [("JobSupervisorLost", LOST)]),
        (KILLED, "--requeue 1", []),
        (FULL, "", [("DiskFull", NO_ROOM)]),
        ("raise RuntimeError('no such node')", "--requeue 1", [("JobLaunchFailed", "no such node")]),
    ],
)
def test_a_supervisor_that_cannot_bind_the_plan_fails_its_job_only(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: str, option: str, errors: list[tuple[str, str]]
) -> None:
    begun = process.START.replace("gc.freeze()", FAIL_ONCE.format(fault=fault) + "gc.freeze()")
    monkeypatch.setattr(process, "START", begun)
    job = world.submit(f"j {option}", "print('ran')")
    following = world.submit("k --nodes 2", "print('next')")
    until(lambda: job.is_done and following.is_done)
    assert following.log() == "next\nnext\n"
    assert [(each.code, each.message) for each in job.show().execution.errors] == errors
    assert (job.log().splitlines()[1:], len(job.attempts())) == (([], 1) if errors else (["ran"], 2))


@pytest.fixture
def killed_at_start(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every supervisor that this process starts is killed before anybody has written its identity down."""
    start = process.start

    def start_and_kill(*given, **named):
        child = start(*given, **named)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        return child

    monkeypatch.setattr(process, "start", start_and_kill)
    return monkeypatch


def test_a_supervisor_killed_before_its_identity_is_recorded_fails_its_job_only(
    world: World, killed_at_start: pytest.MonkeyPatch
) -> None:
    job = world.submit("j --nodes 2")
    killed_at_start.undo()
    assert world.run("k --nodes 2", "print('next')").log() == "next\nnext\n"
    (error,) = job.show().execution.errors
    assert (error.code, "nothing of it ran" in error.message) == ("JobLaunchFailed", True)
    job.delete()
    assert [shown.id.name for shown in world.backend.list(world.experiment, Kind.JOB)] == ["k"]


@pytest.mark.parametrize("how", ["terminate", "delete"])
def test_a_job_whose_supervisor_was_killed_at_its_start_can_be_ended(
    world: World, killed_at_start: pytest.MonkeyPatch, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "recover_jobs", lambda *given: False)  # nobody has noticed yet
    job = world.submit("j --nodes 2")
    monkeypatch.undo()
    getattr(world.backend, how)(job.id)
    assert all(shown.state.is_final for shown in world.backend.list(world.experiment, Kind.JOB))
    assert world.backend.show(world.cluster).node_states.idle_node_count == 2


def kill_unreaped(child: subprocess.Popen[bytes]) -> None:
    """Kills a child, whose exit is not noticed before somebody asks."""
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_a_supervisor_killed_before_it_was_told_anything_is_started_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    class FirstKilled(process.DetachedProcess):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            begun.append(self)
            if len(begun) == 1:
                kill_unreaped(self)

    monkeypatch.setattr(process, "DetachedProcess", FirstKilled)
    assert world.run("j", "print('ran')").log() == "ran\n"
    assert len(begun) == 2


def test_a_supervisor_that_never_starts_fails_its_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(process.DetachedProcess):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            kill_unreaped(self)

    monkeypatch.setattr(process, "DetachedProcess", Killed)
    job = world.submit("j")
    (error,) = job.wait(PATIENCE_S).show().execution.errors
    assert (error.code, "ended at once, with exit status -9" in error.message) == ("JobLaunchFailed", True)


def test_ctrl_c_between_giving_nodes_and_starting_the_job_loses_neither(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*given, **named) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reconciler, "spawn", interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.submit("j --nodes 2", "print('ran')")
    monkeypatch.undo()
    job = find(world.backend, "j", world.settings).wait(PATIENCE_S)
    assert (job.state, job.log()) == (ExecutionState.SUCCEEDED, "ran\nran\n")


def test_ctrl_c_while_a_job_with_secrets_is_made_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*given, **named) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("TOKEN", "hush")
    monkeypatch.setattr(reconciler, "spawn", interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.submit("j --secret TOKEN")
    job = find(world.backend, "j", world.settings).wait(PATIENCE_S)
    assert job.show().execution.errors[0].code == "JobSecretsLost"


def test_two_kernels_at_once_lose_no_job(world: World) -> None:
    code = "import os; open(os.environ['AZ_BATCHAI_MOUNT_ROOT'] + '/autoafs/ran', 'a').write('x')"
    children = [kernel(world, code, *(f"{name}{i}" for i in range(5))) for name in "ab"]
    for child in children:
        assert child.stdout.readline() == "submitted\n"
    jobs = [find(world.backend, f"{name}{i}", world.settings) for name in "ab" for i in range(5)]
    assert {job.wait(PATIENCE_S).state for job in jobs} == {ExecutionState.SUCCEEDED}
    assert world.backend.storage.download("batchaishare", "ran") == b"x" * 10
    for child in children:
        end(child)
