"""Jobs and clusters that several processes create, resize and delete: over Slurm in memory, in files."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from batchai_magics.backends.base import JobNeeds
from batchai_magics.backends.base.protocol import missing
from batchai_magics.backends.folders import mounts
from batchai_magics.backends.service import resource_changes
from batchai_magics.backends.service.job_admission import AdmittedJob
from batchai_magics.backends.service.runner import RunStatus
from batchai_magics.errors import ConflictError, NotFoundError, SpecError, UsageError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import ExperimentSpec, JobResource, WorkspaceSpec
from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.record_files import LABELS
from tests.backends.service.descriptions import CLUSTER, EXPERIMENT, WORKSPACE, cluster_spec, job_spec
from tests.backends.slurm.runs.test_runner import World, fixed
from tests.backends.slurm.scripted_slurm import ScriptedSlurm
from tests.calls import calls_of

__all__ = ["fixed"]
JOB = EXPERIMENT.child(Kind.JOB, "j")
ELSEWHERE = WORKSPACE.child(Kind.CLUSTER, "other")


def folders(sample: Path) -> set[str]:
    """The folders beside one, of runs or of clusters."""
    return {path.name for path in sample.parent.glob("*")}


NO_SERVER = {"fileServer": {"id": str(WORKSPACE.child(Kind.FILE_SERVER, "f"))}, "relativeMountPath": "f"}


@pytest.mark.parametrize(
    ("cluster", "mounts", "missing"),
    [("c", [NO_SERVER], "file server f"), ("other", [NO_SERVER], "file server f"), ("x", [], "cluster x")],
)
def test_resources_of_a_job_are_not_created_if_the_job_would_be_refused(
    fixed: World, cluster: str, mounts: list[object], missing: str
) -> None:
    id, experiment = WORKSPACE.child(Kind.CLUSTER, cluster), WORKSPACE.child(Kind.EXPERIMENT, "new")
    spec = job_spec(cluster={"id": str(id)}, mountVolumes={"fileServers": mounts})
    made = [(experiment, ExperimentSpec()), (ELSEWHERE, cluster_spec())]
    needs = JobNeeds(experiment.child(Kind.JOB, "j"), made, share="scripts", files={"a": b"1"}, spec=spec)
    with pytest.raises(NotFoundError, match=missing):
        fixed.backend.ensure(needs)
    assert fixed.backend.names(WORKSPACE, Kind.EXPERIMENT) == [EXPERIMENT.name]
    assert fixed.backend.names(WORKSPACE, Kind.CLUSTER) == [CLUSTER.name]
    assert "scripts" not in fixed.backend.storage.shares()


def test_nothing_is_created_if_the_engine_would_refuse_the_job_on_its_new_cluster(fixed: World) -> None:
    spec = job_spec(cluster={"id": str(ELSEWHERE)}, batchaiSlurm="--output=x")
    needs = JobNeeds(JOB, [(ELSEWHERE, cluster_spec())], share="scripts", files={"a": b"1"}, spec=spec)
    with pytest.raises(SpecError, match="--output"):
        fixed.backend.ensure(needs)
    assert fixed.backend.names(WORKSPACE, Kind.CLUSTER) == [CLUSTER.name]
    assert "scripts" not in fixed.backend.storage.shares()


def test_a_cluster_that_exists_is_found_without_its_nodes(fixed: World) -> None:
    new = EXPERIMENT.parent.child(Kind.EXPERIMENT, "new")
    needed = [(new, ExperimentSpec()), (replace(CLUSTER, name=CLUSTER.name.upper()), cluster_spec())]
    with calls_of(type(fixed.backend.context.runner).nodes) as reads:
        assert [id for id, _ in missing(fixed.backend, JobNeeds(JOB, needed))] == [new]
    assert reads.count == 0


@pytest.mark.parametrize(("is_made", "missing"), [(False, "cluster c"), (True, "file server f")])
def test_missing_resource_of_a_job_is_named_if_its_workspace_does_not_exist_yet(
    fixed: World, is_made: bool, missing: str
) -> None:
    workspace = replace(WORKSPACE, workspace="new", name="new")
    cluster = workspace.child(Kind.CLUSTER, "c")
    server = {**NO_SERVER, "fileServer": {"id": str(workspace.child(Kind.FILE_SERVER, "f"))}}
    spec = job_spec(cluster={"id": str(cluster)}, mountVolumes={"fileServers": [server]})
    made = [(workspace, WorkspaceSpec()), *([(cluster, cluster_spec())] if is_made else [])]
    with pytest.raises(NotFoundError, match=missing):
        fixed.backend.ensure(
            JobNeeds(workspace.child(Kind.EXPERIMENT, "e").child(Kind.JOB, "j"), made, spec=spec)
        )
    with pytest.raises(NotFoundError, match="workspace new"):
        fixed.backend.show(workspace)


def test_job_with_another_resource_as_its_cluster_is_refused(fixed: World) -> None:
    with pytest.raises(UsageError, match="not of a cluster"):
        fixed.job(cluster={"id": str(EXPERIMENT)})


def test_job_created_twice_concurrently_is_submitted_once(
    fixed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process creates the job just before this one records it."""
    repository, others = fixed.backend.context.repository, []
    insert = repository.insert

    def insert_after_another(record) -> object:
        if not others:
            others.append(record.guid)
            fixed.job()
        return insert(record)

    monkeypatch.setattr(repository, "insert", insert_after_another)
    assert isinstance(fixed.job(), JobResource)
    guid = fixed.guid(JOB)
    assert guid not in others
    assert [job.comment for job in fixed.slurm.jobs.values()] == [guid]
    assert folders(fixed.backend.layout.job("x").root) == {guid}
    assert [job.guid for job, _ in fixed.backend.context.open_jobs(fixed.guid(CLUSTER))] == [guid]


def test_cluster_resized_during_a_submission_learns_of_the_new_job(
    fixed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned_run = AdmittedJob.planned_run

    def planned_meanwhile(job: AdmittedJob) -> object:
        fixed.resize(1)
        return planned_run(job)

    monkeypatch.setattr(AdmittedJob, "planned_run", planned_meanwhile)
    fixed.job(nodeCount=2)
    assert fixed.in_slurm().is_held  # as its cluster is too small now


def test_cluster_created_twice_concurrently_has_one_folder(
    fixed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process creates the cluster while this one makes its folder."""
    link, others = mounts.link, []

    def link_twice(*mounted: object) -> None:
        link(*mounted)
        if not others:
            others.append("another process")
            fixed.made(2, ELSEWHERE)

    monkeypatch.setattr(mounts, "link", link_twice)
    assert fixed.made(2, ELSEWHERE).id == ELSEWHERE
    assert folders(fixed.backend.layout.cluster("x")) == {fixed.guid(CLUSTER), fixed.guid(ELSEWHERE)}


def test_a_run_that_ended_before_it_began_has_an_end_and_its_errors(
    fixed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fixed.job().execution is None
    errors, warnings = ({"code": "A", "message": "a"},), ({"code": "B", "message": "b"},)
    result = Outcome(None, errors, warnings=warnings, ended=30.0)
    status = RunStatus(ExecutionState.FAILED, 30.0, result=result)
    monkeypatch.setattr(type(fixed.backend.runner), "status", lambda _, runs: [status] * len(runs))
    execution = fixed.backend.show(JOB).execution
    assert execution.started == execution.ended == datetime.fromtimestamp(30.0, timezone.utc)
    assert [error.code for error in execution.errors] == ["A", "B"]


def test_a_job_that_does_not_end_is_not_deleted(fixed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed.job()
    clock: list[float] = [0.0]
    monkeypatch.setattr(ScriptedSlurm, "_scancel", lambda *_: "")
    monkeypatch.setattr(resource_changes.time, "monotonic", lambda: sum(clock))
    monkeypatch.setattr(resource_changes.time, "sleep", clock.append)
    with pytest.raises(ConflictError, match="The job j does not end"):
        fixed.backend.delete(JOB)
    assert sum(clock) == pytest.approx(resource_changes.END_TIMEOUT_S, abs=1)
    assert fixed.backend.show(JOB).id == JOB


def test_labels_of_a_run_are_among_its_record_files(fixed: World) -> None:
    job = fixed.job().id
    fixed.backend.records.relabel(job, LabelChange(("kept",), note="it is good"))
    files = fixed.backend.records.read(job, [LABELS])
    assert Labels.from_json(json.loads(files[LABELS])) == Labels(("kept",), "it is good")
