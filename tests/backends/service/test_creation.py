"""Creating and resizing: checked first, recorded at once, submitted or gone. The engine is in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.backends.base import JobNeeds
from batchai_magics.backends.folders import mounts
from batchai_magics.backends.service.job_admission import AdmittedJob
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.cluster_spec import ClusterPatch
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import ExperimentSpec, JobResource, WorkspaceSpec
from batchai_magics.models.states import DeallocationOption
from tests.backends.service.engine import (
    CLUSTER,
    EXPERIMENT,
    WORKSPACE,
    EngineHome,
    cluster_spec,
    job_spec,
)

JOB = EXPERIMENT.child(Kind.JOB, "j")
ELSEWHERE = WORKSPACE.child(Kind.CLUSTER, "other")


def patched(count: int) -> ClusterPatch:
    manual = {"targetNodeCount": count}
    return ClusterPatch.from_wire({"properties": {"scaleSettings": {"manual": manual}}})


def folders(home: EngineHome, kind: str) -> set[str]:
    """The folders of runs, or of clusters, that there are."""
    sample = home.layout.job("x").root if kind == "runs" else home.layout.cluster("x")
    return {path.name for path in sample.parent.glob("*")}


NO_SERVER = {"fileServer": {"id": str(WORKSPACE.child(Kind.FILE_SERVER, "f"))}, "relativeMountPath": "f"}


@pytest.mark.parametrize(
    ("cluster", "mounts", "missing"),
    [("c", [NO_SERVER], "file server f"), ("other", [NO_SERVER], "file server f"), ("x", [], "cluster x")],
)
def test_what_a_job_needs_is_not_made_if_its_creation_would_be_refused(
    home: EngineHome, cluster: str, mounts: list[object], missing: str
) -> None:
    id, experiment = WORKSPACE.child(Kind.CLUSTER, cluster), WORKSPACE.child(Kind.EXPERIMENT, "new")
    spec = job_spec(cluster={"id": str(id)}, mountVolumes={"fileServers": mounts})
    made = [(experiment, ExperimentSpec()), (ELSEWHERE, cluster_spec())]
    needs = JobNeeds(experiment.child(Kind.JOB, "j"), made, share="scripts", files={"a": b"1"}, spec=spec)
    with pytest.raises(NotFoundError, match=missing):
        home.service.ensure(needs)
    assert home.service.names(WORKSPACE, Kind.EXPERIMENT) == [EXPERIMENT.name]
    assert home.service.names(WORKSPACE, Kind.CLUSTER) == [CLUSTER.name]
    assert "scripts" not in home.service.storage.shares()


@pytest.mark.parametrize(("is_made", "missing"), [(False, "cluster c"), (True, "file server f")])
def test_what_a_job_lacks_is_named_where_its_workspace_is_not_made_yet(
    home: EngineHome, is_made: bool, missing: str
) -> None:
    workspace = replace(WORKSPACE, workspace="new", name="new")
    cluster = workspace.child(Kind.CLUSTER, "c")
    server = {**NO_SERVER, "fileServer": {"id": str(workspace.child(Kind.FILE_SERVER, "f"))}}
    spec = job_spec(cluster={"id": str(cluster)}, mountVolumes={"fileServers": [server]})
    made = [(workspace, WorkspaceSpec()), *([(cluster, cluster_spec())] if is_made else [])]
    with pytest.raises(NotFoundError, match=missing):
        home.service.ensure(
            JobNeeds(workspace.child(Kind.EXPERIMENT, "e").child(Kind.JOB, "j"), made, spec=spec)
        )
    with pytest.raises(NotFoundError, match="workspace new"):
        home.service.show(workspace)


def test_a_job_whose_cluster_is_another_kind_of_resource_is_refused(home: EngineHome) -> None:
    with pytest.raises(UsageError, match="not of a cluster"):
        home.job(cluster={"id": str(EXPERIMENT)})


def test_of_two_who_create_the_same_job_at_once_one_submits_it(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process creates the job just before this one records it."""
    repository, others = home.service.context.repository, []
    insert = repository.insert

    def insert_after_another(record) -> object:
        if not others:
            others.append(record.guid)
            home.job()
        return insert(record)

    monkeypatch.setattr(repository, "insert", insert_after_another)
    assert isinstance(home.job(), JobResource)
    guid = home.guid(JOB)
    assert guid not in others
    assert list(home.engine.statuses) == [guid]
    assert folders(home, "runs") == {guid}
    assert [job.guid for job, _ in home.service.context.open_jobs(home.guid(CLUSTER))] == [guid]


def test_a_cluster_that_is_resized_while_a_job_is_submitted_is_told_of_it(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned_run = AdmittedJob.planned_run

    def planned_meanwhile(job: AdmittedJob) -> object:
        home.service.update(CLUSTER, patched(1))
        return planned_run(job)

    monkeypatch.setattr(AdmittedJob, "planned_run", planned_meanwhile)
    home.job()
    during, after = home.engine.resizes
    assert during.runs == []
    assert [run.guid for run, _ in after.runs] == [home.guid(JOB)]
    assert (after.cluster.scale.maximum, after.option) == (1, DeallocationOption.WAIT_FOR_JOB_COMPLETION)


def test_of_two_who_create_the_same_cluster_at_once_one_keeps_its_folder(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process creates the cluster while this one makes its folder."""
    link, others = mounts.link, []

    def link_twice(*mounted: object) -> None:
        link(*mounted)
        if not others:
            others.append("another process")
            home.cluster(ELSEWHERE)

    monkeypatch.setattr(mounts, "link", link_twice)
    assert home.cluster(ELSEWHERE).id == ELSEWHERE
    assert folders(home, "clusters") == {home.guid(CLUSTER), home.guid(ELSEWHERE)}
