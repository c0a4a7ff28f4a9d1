"""A process of ours that was stopped while it had the store locked goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from batchai_magics.backends.local import process
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state.store import Store
from batchai_magics.errors import StorageError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import ExperimentSpec
from tests.backends.local.still import Still
from tests.world import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it needs /proc"),
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
    with pytest.raises(StorageError, match="another process has locked it"), impatient.write():
        pytest.fail("two transactions are open for writing")
    assert is_stopped(holder)
