"""The runner of this machine: `reconcile` starts what was created; reading starts nothing."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from batchai_magics.backends.base import NewJob
from batchai_magics.backends.local import process, reconciler, scheduler
from batchai_magics.backends.local.runner import LocalRunner
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.service import job_admission, resource_changes
from batchai_magics.backends.service.context import run_of
from batchai_magics.errors import CapabilityError, NotFoundError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Stand, Still, dead
from tests.wire_bodies import MOUNTED, manual, plain_cluster, plain_job

Started = list[tuple[str, Mapping[str, Any]]]
SECRETS = [{"name": "TOKEN", "value": "hush"}]
SETUP = {"commandLine": "true", "stdOutErrPathPrefix": MOUNTED, "secrets": SECRETS}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The programs that are started, with what they are told."""
    programs: Started = []

    def start(module: str, *_: Any, secrets: Mapping[str, Any], **__: Any) -> subprocess.Popen[bytes]:
        programs.append((module, dict(secrets)))
        return Stand()  # type: ignore[return-value]  # has what is used of a process

    monkeypatch.setattr(process, "start", start)
    return programs


def created_job(still: Still, name: str = "j", **fields: object) -> ResourceId:
    """A job that this process creates, and has not started."""
    body = plain_job(still.workspace.child(Kind.CLUSTER, "c"), **fields)
    id = still.experiment.child(Kind.JOB, name)
    job_admission.create_jobs(still.backend.context, [NewJob(id, JobSpec.from_wire(body))])
    return id


def test_run_starts_only_after_its_transaction(still: Still, started: Started) -> None:
    still.cluster()
    still.prepare()
    with contextlib.suppress(KeyError), still.store.write():
        created_job(still, "undone", secrets=SECRETS)
        raise KeyError("undone")
    still.backend.runner.reconcile()
    assert (started, still.assigned()) == ([], [])
    created_job(still, secrets=SECRETS)
    still.backend.runner.reconcile()
    assert [program for program, _ in started] == ["supervisor"]


def test_runs_that_are_started_together_have_a_process_for_the_secrets_of_each(
    still: Still, started: Started
) -> None:
    still.cluster(scale=manual(1))
    still.prepare()
    for name in ("first", "second"):
        created_job(still, name, secrets=SECRETS)
    still.backend.runner.reconcile()
    assert len(started) == 2
    assert still.assigned() == ["first"]


def test_a_job_on_a_cluster_that_is_deleted_meanwhile_is_refused(still: Still) -> None:
    cluster = still.cluster()
    still.change("DELETE FROM cluster")
    with pytest.raises(NotFoundError, match=f"cluster {cluster.name} is not found"):
        created_job(still)
    assert not still.rows("SELECT * FROM resource WHERE kind = 'jobs'")


def test_an_engine_without_a_daemon_pulls_no_private_images(still: Still, tmp_path: Path) -> None:
    apptainer = tmp_path / "apptainer"
    apptainer.symlink_to(sys.executable)
    settings = LocalSettings(home=still.home, container_command=f"{apptainer} --silent")
    engine = LocalRunner(still.store, still.layout, settings)
    assert engine.facts.container_engine(has_credentials=False) == (str(apptainer), "--silent")
    with pytest.raises(CapabilityError) as caught:
        engine.facts.container_engine(has_credentials=True)
    field = "properties.containerSettings.imageSourceRegistry.credentials"
    assert caught.value.message == f"{field} is not supported by the local backend"
    assert (caught.value.code, caught.value.hint) == (
        "NotSupported",
        "Docker and podman can pull private images.",
    )


def test_missing_container_engine_is_refused_by_the_name_of_its_setting(still: Still) -> None:
    settings = LocalSettings(home=still.home, container_command="/no/podman --runtime runc")
    engine = LocalRunner(still.store, still.layout, settings)
    with pytest.raises(CapabilityError, match=r"local\.container_command names /no/podman"):
        engine.facts.container_engine(has_credentials=False)


def test_a_job_that_another_thread_creates_is_left_to_that_thread(still: Still, started: Started) -> None:
    still.cluster()
    still.prepare()
    with ThreadPoolExecutor(1) as other:  # whose transaction may not be over
        other.submit(created_job, still, secrets=SECRETS).result()
        still.backend.runner.reconcile()
        assert (started, still.assigned()) == ([], [])
        other.submit(still.backend.runner.reconcile).result()
    assert len(started) == 1


def created_cluster(still: Still) -> ResourceId:
    """A cluster that this thread creates, with a setup task that has secrets; its nodes are not set up."""
    spec = ClusterSpec.from_wire(plain_cluster(nodeSetup={"setupTask": SETUP}))
    id = still.workspace.child(Kind.CLUSTER, "c")
    resource_changes.create(still.backend.context, id, spec)
    return id


def test_only_the_creator_of_a_cluster_with_secrets_sets_up_its_nodes(still: Still, started: Started) -> None:
    with ThreadPoolExecutor(1) as other:
        cluster = other.submit(created_cluster, still).result()
        still.backend.runner.reconcile()
        still.prepare()  # as another process does
        assert (started, [*still.nodes(cluster).values()]) == ([], ["preparing"])
        other.submit(still.backend.runner.reconcile).result()
    assert started == [("node_preparer", {"TOKEN": "hush"})]


def test_nodes_are_unusable_if_the_secrets_of_their_setup_are_lost(
    still: Still, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    cluster = created_cluster(still)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(reconciler, "recover_jobs", interrupt)
        with pytest.raises(KeyboardInterrupt):
            still.backend.runner.reconcile()
    still.backend.runner.reconcile()
    assert "secrets (TOKEN) are not stored" in still.rows("SELECT error FROM node")[0]["error"]
    assert [*still.nodes(cluster).values()] == ["unusable"]


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_run_that_ends_or_changes_hands_while_its_status_is_read_is_not_lost(
    still: Still, monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    still.cluster()
    still.prepare()
    run = run_of(still.backend.context.repository.get(still.job()))
    scheduler.assign_all(still.store)
    with still.store.write() as db:
        job_table.claim(db, run.guid, dead())
        job_table.begin(db, run.guid)
    is_alive = process.is_alive

    def changed_meanwhile(_name: str) -> bool:
        monkeypatch.setattr(process, "is_alive", is_alive)
        with still.store.write() as db:
            if has_ended:
                scheduler.record_end(db, run.guid, Outcome(0))
            db.execute("UPDATE job SET supervisor = ?", (process.own_identity(),))
        return False

    monkeypatch.setattr(process, "is_alive", changed_meanwhile)
    (status,) = still.backend.runner.status([run])
    assert status.state is (ExecutionState.SUCCEEDED if has_ended else ExecutionState.RUNNING)
