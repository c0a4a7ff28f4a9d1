"""Which queued job gets which idle nodes, in one step."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from batchai_magics.backends.local import process, reconciler
from batchai_magics.backends.local.process import Secrets
from batchai_magics.errors import ServiceError
from tests.backends.local.still import Still

pytestmark = pytest.mark.slow


def test_a_job_that_fills_the_cluster_blocks_no_other_cluster(still: Still) -> None:
    still.cluster("c")
    still.cluster("other")
    still.prepare()
    still.job("a", 2)
    still.job("b", 2)
    still.job("z", cluster="other")
    still.schedule()
    assert still.assigned() == ["a", "z"]


def test_a_job_whose_secrets_nobody_holds_gets_no_nodes(still: Still) -> None:
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
def test_a_new_job_whose_supervisor_cannot_be_started_was_never_made(still: Still) -> None:
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
def test_a_waiting_job_whose_supervisor_cannot_be_started_has_failed(still: Still) -> None:
    still.cluster()
    still.prepare()
    job = still.job()
    assert reconciler.start_jobs(still.store, still.layout) == []
    assert still.state(job)["state"] == "failed"
    (error,) = json.loads(still.state(job)["errors"])
    assert (error["code"], error["message"]) == ("JobLaunchFailed", "no more processes")
