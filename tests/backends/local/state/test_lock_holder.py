"""A process that has the store locked is named; one of ours that was stopped meanwhile goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.local import process
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import database_errors
from batchai_magics.backends.local.state.store import Store
from batchai_magics.errors import StorageError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import ExperimentSpec
from tests.backends.local.still import Still
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a lock"),
]

HOLDER = """
import os, signal, sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
sys.stdin.readline()
connection.execute("BEGIN IMMEDIATE")
os.kill(os.getpid(), signal.SIGSTOP)
connection.execute("COMMIT")
time.sleep(1000)
"""


@pytest.fixture
def holder(still: Still) -> Iterator[subprocess.Popen[str]]:
    """A process that, told to go on, stops itself while it holds the store; then it commits, and stays."""
    argv = [sys.executable, "-c", HOLDER, str(still.layout.database)]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, text=True)
    yield child
    child.kill()
    child.communicate()


def supervised(still: Still, holder: subprocess.Popen[str], supervisor: str) -> ResourceId:
    """A running job with that supervisor; the holder has stopped in its transaction."""
    still.cluster()
    still.prepare()
    job = still.job()
    still.schedule()
    still.change("UPDATE job SET state = 'running', started = 1, spawner = '', supervisor = ?", supervisor)
    stop_in_transaction(holder)
    return job


def stop_in_transaction(holder: subprocess.Popen[str]) -> None:
    assert holder.stdin
    print(file=holder.stdin, flush=True)
    until(lambda: is_stopped(holder))


def is_stopped(holder: subprocess.Popen[str]) -> bool:
    return psutil.Process(holder.pid).status() == psutil.STATUS_STOPPED


def opened(still: Still) -> LocalBackend:
    """The store as a process opens it that comes now."""
    return LocalBackend(LocalSettings(home=still.layout.home))


def test_its_job_can_be_terminated(still: Still, holder: subprocess.Popen[str]) -> None:
    job = supervised(still, holder, process.identity(holder.pid))
    backend = opened(still)
    backend.terminate(job)
    assert holder.wait() == -signal.SIGTERM
    assert backend.show(job).execution.errors[0].code == "JobTerminated"


def test_others_can_write_and_its_job_runs_on(still: Still, holder: subprocess.Popen[str]) -> None:
    job = supervised(still, holder, process.identity(holder.pid))
    backend = opened(still)
    other = still.workspace.child(Kind.EXPERIMENT, "other")
    backend.create(other, ExperimentSpec())
    assert backend.show(other).id == other
    assert holder.poll() is None
    assert still.state(job)["state"] == "running"


def test_others_can_write_while_a_preparer_was_stopped(still: Still, holder: subprocess.Popen[str]) -> None:
    still.cluster()
    still.prepare()
    still.change("UPDATE node SET preparer = ?", process.identity(holder.pid))
    stop_in_transaction(holder)
    opened(still).create(still.workspace.child(Kind.EXPERIMENT, "other"), ExperimentSpec())
    assert holder.poll() is None


def test_a_process_that_only_has_its_pid_stays_stopped(still: Still, holder: subprocess.Popen[str]) -> None:
    pid, started, boot = process.identity(holder.pid).split(":")
    supervised(still, holder, f"{pid}:{int(started) + 1}:{boot}")
    impatient = Store(still.layout.database, busy_s=0.5, stuck_s=0.05)
    with pytest.raises(StorageError, match=f"process {holder.pid} .* is stopped"), impatient.write():
        pytest.fail("two transactions are open for writing")
    assert is_stopped(holder)


WRITE = "import sqlite3; db = sqlite3.connect(path, isolation_level=None); db.execute('BEGIN IMMEDIATE')"
MAKE = "import fcntl, os; fcntl.flock(os.open(os.path.dirname(path), os.O_RDONLY), fcntl.LOCK_EX)"
STAY = "path = __import__('sys').argv[1]; {}; print('holds', flush=True); __import__('sys').stdin.read()"
CLUSTER = "INSERT INTO cluster (guid, target, changed) VALUES ('g', 0, 0.0)"
Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "state.db"
    with Store(path).write():
        pass
    return path


@pytest.fixture
def start(database: Path) -> Iterator[Start]:
    """Starts a process that holds a lock of the database until its input ends."""
    children: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", STAY.format(code), str(database)]
        children.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert children[-1].stdout
        assert children[-1].stdout.readline() == "holds\n"
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


def write(database: Path, busy_s: float = 0.2) -> None:
    with Store(database, busy_s=busy_s).write() as db:
        db.execute(CLUSTER)


def refusal(database: Path) -> StorageError:
    """What a process is told that wants to write now."""
    with pytest.raises(StorageError) as caught:
        write(database)
    return caught.value


def stopped_refusal(database: Path) -> StorageError | None:
    """The same once the kernel says of the holder that it is stopped: it may wake it for a moment."""
    error = refusal(database)
    return error if "is stopped" in error.message else None


def stop(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGSTOP)
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED)


def test_a_process_that_writes_is_named_and_a_stopped_one_can_go_on(database: Path, start: Start) -> None:
    child = start(WRITE)
    who = f"process {child.pid} ({psutil.Process(child.pid).name()})"
    error = refusal(database)
    assert error.message == f"{database} cannot be changed: {who} has locked it"
    assert error.hint.startswith(f"Wait for it, or end it with `kill -KILL {child.pid}`")
    stop(child)
    error = until(lambda: stopped_refusal(database))
    assert error.message == f"{database} cannot be changed: {who} has locked it and is stopped"
    assert f"`kill -CONT {child.pid}`, or end it with `kill -KILL {child.pid}`" in error.hint
    child.send_signal(signal.SIGCONT)
    child.communicate()
    with Store(database).write() as db:
        db.execute(CLUSTER)


def test_a_process_that_stopped_while_it_opened_the_database_is_named(database: Path, start: Start) -> None:
    child = start(MAKE)
    stop(child)
    error = until(lambda: stopped_refusal(database))
    assert f"{database.parent} cannot be changed: process {child.pid} (" in error.message
    assert "is stopped" in error.message


def test_this_process_is_not_named(database: Path) -> None:
    with Store(database).write():
        assert database_errors.writer_of(database) is None
        assert str(os.getpid()) not in refusal(database).message


@pytest.mark.parametrize("hold", [WRITE, MAKE])
def test_a_stopped_process_is_named_soon_and_waited_for(
    database: Path, start: Start, monkeypatch: pytest.MonkeyPatch, hold: str
) -> None:
    child = start(hold)
    stop(child)
    said: list[str] = []
    monkeypatch.setattr("warnings.warn", lambda text, *_, **__: said.append(text))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(write, database, PATIENCE_S)
        until(lambda: said)
        assert not waiting.done()
        child.send_signal(signal.SIGCONT)
        child.communicate()
        waiting.result(PATIENCE_S)
    assert len(said) == 1
    assert f"process {child.pid} (" in said[0]
    assert "has locked it and is stopped; waiting for up to" in said[0]
    assert f"`kill -CONT {child.pid}`" in said[0]
