"""Whatever is killed or restarted: the state is honest afterwards, and nothing hangs about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from batchai_magics.backends.local import process
from batchai_magics.errors import StorageError
from batchai_magics.follow import LogFault
from batchai_magics.jobs.submit import find
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.world import FOLLOWED, World, processes_of, until

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
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def up(world: World, line: str = "j --nodes 2 --processes 2"):
    job = world.submit(line, SLEEP)
    until(lambda: job.log() == "up\nup\n")
    return job


def test_running_and_queued_jobs_survive_the_kernel_that_submitted_them(world: World) -> None:
    go = world.home / "go"
    child = kernel(
        world,
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)",
        *("a --nodes 2", "b --nodes 2"),
    )
    assert child.stdout.readline() == "submitted\n"
    end(child)
    FOLLOWED.discard(world.backend)  # it would start the one that waits
    go.touch()
    jobs = [find(world.backend, name, world.settings) for name in "ab"]
    until(lambda: all(job.show().state is ExecutionState.SUCCEEDED for job in jobs))


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
def test_stopped_supervisor_learns_that_its_job_has_to_end(world: World, how: str) -> None:
    job = up(world)
    supervisor = world.supervisor(job)
    supervisor.suspend()
    getattr(world.backend, how)(job.id)
    until(lambda: not world.backend.list(world.experiment, Kind.JOB) or job.is_done)
    until(lambda: not processes_of(world.home))
    if how == "terminate":
        assert job.show().execution.errors[0].code == "JobTerminated"


def test_supervisor_survives_the_kill_of_its_guard(world: World) -> None:
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


def kill_unreaped(child: subprocess.Popen[bytes]) -> None:
    """Kills a child, whose exit is not noticed before somebody asks."""
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def killed_at_start(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every supervisor that this process starts is killed before anybody has written its identity down."""
    start = process.start

    def start_and_kill(*given, **named):
        child = start(*given, **named)
        kill_unreaped(child)
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


@pytest.mark.parametrize(("kills", "end"), [(1, []), (9, [("JobLaunchFailed", True)])])
def test_supervisor_killed_before_it_read_its_input_is_restarted(
    world: World, monkeypatch: pytest.MonkeyPatch, kills: int, end: list[tuple[str, bool]]
) -> None:
    begun = []

    class Killed(process.DetachedProcess):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            begun.append(self)
            if len(begun) <= kills:
                kill_unreaped(self)

    monkeypatch.setattr(process, "DetachedProcess", Killed)
    job = world.run("j", "print('ran')")
    errors = job.show().execution.errors
    assert [(each.code, "ended at once, with exit status -9" in each.message) for each in errors] == end
    assert (job.log(), len(begun)) == ("" if end else "ran\n", 2)


@pytest.mark.parametrize(("line", "codes"), [("j", []), ("j --secret TOKEN", ["JobSecretsLost"])])
def test_ctrl_c_between_giving_nodes_and_starting_the_job_loses_its_secrets_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, line: str, codes: list[str]
) -> None:
    def interrupt(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("TOKEN", "hush")
    monkeypatch.setattr(process, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.submit(line, "print('ran')")
    monkeypatch.undo()
    job = find(world.backend, "j", world.settings).wait(PATIENCE_S)
    assert [error.code for error in job.show().execution.errors] == codes
    assert job.log() == ("" if codes else "ran\n")


# Forks that submit are killed at their n-th change of a file: finds the first n after which there is a job.
SUBMITTER = """
import os, signal, sys
from pathlib import Path
from batchai_magics import cell
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.submit import find, submit

EVENTS = ("open", "os.rename", "os.mkdir", "os.link", "os.symlink", "os.remove", "subprocess.Popen")
settings = Settings(sections={"local": LocalSettings(home=Path(sys.argv[1]))})

def submit_until(last):
    left = last
    def count(event, _):
        nonlocal left
        if event in EVENTS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    line = f"j{last} --args '--lr 0.5' --tag wide"
    request = cell.parse(line, "print(1)", settings=settings)
    backend = open_backend(settings)
    sys.addaudithook(count)
    submit(backend, request, settings)
    os._exit(0)

def is_there_after(last):
    child = os.fork()
    if not child:
        submit_until(last)
    os.waitpid(child, 0)
    try:
        return bool(find(open_backend(settings), f"j{last}", settings))
    except NotFoundError:
        return False

submit(open_backend(settings), cell.parse("warm", "print(1)", settings=settings), settings).job.wait()
missing, there = 0, 1024
assert not is_there_after(missing) and is_there_after(there)
while there - missing > 1:
    middle = (missing + there) // 2
    there, missing = (middle, missing) if is_there_after(middle) else (there, middle)
print(*(last for last in range(there, there + 8) if last == there or is_there_after(last)))
"""


@pytest.mark.slow
def test_a_killed_submitter_leaves_a_job_with_its_record_or_none(world: World) -> None:
    command = [sys.executable, "-c", SUBMITTER, str(world.home)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lasts = result.stdout.split()
    assert len(lasts) == 8
    for last in lasts:
        job = find(world.backend, f"j{last}", world.settings)
        assert job.labels() == Labels(("wide",), parameters={"lr": 0.5})
        assert job.provenance().submission.code.text == "print(1)"
