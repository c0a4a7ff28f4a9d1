"""Creating and resizing: checked first, recorded at once, submitted or gone. The engine is in memory."""

from __future__ import annotations

import pytest

from batchai_magics.backends.folders import mounts
from batchai_magics.backends.service.job_admission import AdmittedJob
from batchai_magics.errors import ServiceError, SpecError, UsageError
from batchai_magics.models.cluster_spec import ClusterPatch
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import AllocationState, DeallocationOption, ExecutionState
from tests.backends.service.engine import (
    CLUSTER,
    EXPERIMENT,
    WORKSPACE,
    EngineHome,
)

JOB = EXPERIMENT.child(Kind.JOB, "j")
ELSEWHERE = WORKSPACE.child(Kind.CLUSTER, "other")


def patched(count: int, option: str | None = None) -> ClusterPatch:
    manual = {"targetNodeCount": count, **({"nodeDeallocationOption": option} if option else {})}
    return ClusterPatch.from_wire({"properties": {"scaleSettings": {"manual": manual}}})


def folders(home: EngineHome, kind: str) -> set[str]:
    """The folders of runs, or of clusters, that there are."""
    sample = home.layout.job("x").root if kind == "runs" else home.layout.cluster("x")
    return {path.name for path in sample.parent.glob("*")}


@pytest.mark.parametrize("name", ["a b", "x" * 65])
def test_a_name_that_nothing_may_have_is_refused(home: EngineHome, name: str) -> None:
    with pytest.raises(SpecError):
        home.experiment(WORKSPACE.child(Kind.EXPERIMENT, name))


def test_a_job_whose_cluster_is_another_kind_of_resource_is_refused(home: EngineHome) -> None:
    with pytest.raises(UsageError, match="not of a cluster"):
        home.job(cluster={"id": str(EXPERIMENT)})


def test_what_users_of_the_cluster_have_to_know_is_told_in_the_log_of_the_job(home: EngineHome) -> None:
    from batchai_magics.backends.service.runner import ClusterWarning

    home.engine.facts.warned = [ClusterWarning("Slow", "The disks are slow.")]
    home.job()
    assert "The disks are slow." in home.engine.planned[home.guid(JOB)].plan.notes
    errors = home.service.show(CLUSTER).errors
    assert [(error.code, error.message) for error in errors] == [("Slow", "The disks are slow.")]


def test_nothing_is_left_of_a_job_that_the_engine_refuses(home: EngineHome) -> None:
    home.engine.refusal = ServiceError("no such partition", code="JobRefused")
    with pytest.raises(ServiceError, match="no such partition"):
        home.job()
    assert folders(home, "runs") == set()
    assert home.service.context.open_jobs(home.guid(CLUSTER)) == []
    assert list(home.service.list(EXPERIMENT, Kind.JOB)) == []
    home.engine.refusal = None
    assert home.job().state is ExecutionState.QUEUED


def test_of_two_who_create_the_same_job_at_once_one_submits_it(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process creates the job just before this one records it."""
    repository, others = home.service.context.repository, []
    insert = repository.insert

    def insert_after_another(id, record) -> object:
        if not others:
            others.append(record.guid)
            home.job()
        return insert(id, record)

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


def test_an_auto_scale_cluster_waits_for_the_jobs_on_nodes_that_leave(home: EngineHome) -> None:
    auto = {"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 1}}
    home.service.update(CLUSTER, ClusterPatch.from_wire({"properties": {"scaleSettings": auto}}))
    (resize,) = home.engine.resizes
    assert resize.option is DeallocationOption.WAIT_FOR_JOB_COMPLETION
    assert resize.cluster.scale.is_auto


def test_when_a_cluster_changed_is_shown_with_it(home: EngineHome) -> None:
    before = home.service.show(CLUSTER)
    after = home.service.update(CLUSTER, patched(1))
    assert before.allocation_changed >= before.provisioning.created
    assert after.allocation_changed > before.allocation_changed
    assert (after.provisioning.created, after.allocation_state) == (
        before.provisioning.created,
        AllocationState.STEADY,
    )


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
