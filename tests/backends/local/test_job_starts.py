"""Which queued job gets which idle nodes, in one step; and jobs that are told to stop."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.local import process, reconciler
from batchai_magics.backends.local.process import Secrets
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.service.context import run_of
from batchai_magics.errors import ServiceError
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still
from tests.patience import PATIENCE_S
from tests.world import World, until

pytestmark = pytest.mark.slow


def test_job_that_does_not_fit_blocks_later_jobs_of_its_cluster_only(still: Still) -> None:
    still.cluster("c")
    still.cluster("other")
    still.prepare()
    still.job("a")
    still.job("b", 2)
    still.job("small")
    still.job("z", cluster="other")
    still.schedule()
    assert still.assigned() == ["a", "z"]


def test_job_without_a_holder_of_its_secrets_gets_no_nodes(still: Still) -> None:
    still.cluster()
    still.prepare()
    job = still.job()
    still.change("UPDATE job SET needs_secrets = 1")
    still.schedule()
    assert not still.assigned()
    still.change("UPDATE job SET supervisor = ?", process.own_identity())
    still.schedule()
    assert still.assigned() == [job.name]


def test_a_job_that_another_supervisor_took_meanwhile_keeps_it(still: Still, monkeypatch) -> None:
    still.cluster()
    still.prepare()
    job = still.job()
    start = process.start

    def and_another(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        child = start(*given, **named)
        still.change("UPDATE job SET supervisor = 'another'")
        return child

    monkeypatch.setattr(process, "start", and_another)
    still.schedule()
    assert still.state(job)["supervisor"] == "another"


@pytest.fixture
def no_start(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no program can be started."""

    def start(*given: object, **named: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(process, "start", start)


@pytest.mark.usefixtures("no_start")
def test_new_job_is_not_created_if_its_supervisor_cannot_be_started(still: Still) -> None:
    still.cluster()
    job = still.job()
    secrets = {still.state(job)["guid"]: Secrets({"TOKEN": "hush"})}
    with pytest.raises(ServiceError, match="could not be started: no more processes") as refused:
        reconciler.start_jobs(still.store, still.layout, secrets)
    assert refused.value.code == "JobLaunchFailed"
    for table in ("job", "resource"):
        assert not still.rows(f"SELECT * FROM {table} WHERE key = ?", job.key)
    assert still.rows("SELECT * FROM resource WHERE key = ?", still.experiment.key)


@pytest.mark.usefixtures("no_start")
def test_queued_job_fails_if_its_supervisor_cannot_be_started(still: Still) -> None:
    still.cluster()
    still.prepare()
    job = still.job()
    assert reconciler.start_jobs(still.store, still.layout) == []
    assert still.state(job)["state"] == "failed"
    (error,) = json.loads(still.state(job)["errors"])
    assert (error["code"], error["message"]) == ("JobLaunchFailed", "no more processes")


@pytest.mark.parametrize(("has_begun", "code"), [(True, -signal.SIGTERM), (False, 0)])
def test_a_supervisor_is_signalled_only_when_its_job_has_begun(
    still: Still, has_begun: bool, code: int
) -> None:
    still.cluster()
    still.prepare()
    job = still.job()
    still.schedule()
    loading = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # like one that hears no signal yet
    still.change("UPDATE job SET supervisor = ?", process.identity(loading.pid))
    guid = still.state(job)["guid"]
    if has_begun:
        with still.store.write() as db:
            job_table.begin(db, guid)
    still.backend.runner.stop([run_of(still.backend.context.repository.get(job))])
    loading.communicate()
    assert loading.returncode == code
    assert still.state(job)["state"] == ExecutionState.TERMINATING.value


def test_job_that_prints_continuously_can_be_read_and_terminated(world: World) -> None:
    code = "import sys\nwhile True: sys.stdout.write(('y' * 1023 + '\\n') * 1024)"
    job = world.submit("j", code)
    until(lambda: job.backend.read(FileRef(job.id, "stdout.txt"), 0, 1).size > 100 << 20)
    job.cancel()
    job.wait(PATIENCE_S)
    assert set(job.log(3).splitlines()) <= {"y" * 1023, *("y" * n for n in range(1023))}
