"""What a resource's rows look like from outside, whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from batchai_magics.backends.local.runner import LocalRunner
from batchai_magics.backends.local.state import job_table, run_status
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.service import resource_views, stored_descriptions
from batchai_magics.backends.service.home_subscription import Nodes
from batchai_magics.backends.service.runner import Run, RunStatus
from batchai_magics.backends.service.service import Service
from batchai_magics.backends.service.stored_descriptions import with_image
from batchai_magics.errors import NotFoundError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.cluster_spec import ClusterSpec, NodeStateCounts
from batchai_magics.models.error_details import ErrorDetail, NameValue
from batchai_magics.models.file_server import FileServer, FileServerSpec, MountSettings
from batchai_magics.models.job_execution import ExecutionInfo, RankExit
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import (
    Cluster,
    Experiment,
    JobResource,
    Node,
    Resource,
    Workspace,
    WorkspaceSpec,
)
from batchai_magics.models.response_object import Provisioning, ProvisioningState
from batchai_magics.models.states import AllocationState, ExecutionState, NodeState
from tests.backends.local.still import WORKSPACE, Still
from tests.contract.place import USER, manual

SERVER = {
    "vmSize": "STANDARD_D1",
    "sshConfiguration": {"userAccountSettings": USER},
    "dataDisks": {"diskSizeInGB": 10, "diskCount": 1, "storageAccountType": "Standard_LRS"},
}


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def made(at_s: float = 100.0) -> Provisioning:
    return Provisioning(at(at_s), at(at_s), ProvisioningState.SUCCEEDED)


@pytest.fixture(autouse=True)
def dated(still: Still) -> None:
    """All that is there was made at 100."""
    still.change("UPDATE resource SET created = 100")


def shown(still: Still, id: ResourceId) -> Resource:
    """The resource as one alone, and as one of several."""
    alone = Service.show(still.backend, id)  # which starts nothing
    assert all_shown(still, [id]) == {id.key: alone}
    return alone


def all_shown(still: Still, ids: list[ResourceId]) -> dict[str, Resource]:
    """Those that exist, by key."""
    return dict(Service.status(still.backend, ids).states)


def node(
    still: Still, cluster: ResourceId, id: str, state: str, job: str | None = None, error: str = ""
) -> None:
    ordinal = still.rows("SELECT count(*) FROM node")[0][0]
    values = (id, cluster.key, ordinal, state, 200.0 + ordinal, job, "", error)
    still.change("INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *values)


def test_a_workspace_and_an_experiment(still: Still) -> None:
    away = still.create(ResourceId.parse(f"{still.workspace}2"), WorkspaceSpec(location="away"))
    still.change("UPDATE resource SET created = 300 WHERE key = ?", away.key)
    assert shown(still, still.workspace) == Workspace(still.workspace, WorkspaceSpec().location, made())
    assert shown(still, away) == Workspace(away, "away", made(300.0))
    assert shown(still, still.experiment) == Experiment(still.experiment, made())


def test_a_file_server_is_on_this_machine(still: Still) -> None:
    spec = FileServerSpec.from_wire({"properties": SERVER})
    id = still.create(still.workspace.child(Kind.FILE_SERVER, "nfs"), spec)
    still.change("UPDATE resource SET created = 100")
    mount = MountSettings(mount_point="/data", public_ip="127.0.0.1", internal_ip="127.0.0.1")
    kept = shown(still, id)
    assert kept == FileServer(id, FileServerSpec.from_stored(stored(still, id)), made(), mount)
    assert kept.spec.data_disks == spec.data_disks


def stored(still: Still, id: ResourceId) -> str:
    (row,) = still.rows("SELECT spec FROM resource WHERE key = ?", id.key)
    return row["spec"]


def sized(still: Still, target: int) -> ResourceId:
    """A cluster that is to have so many nodes since 150, and has none."""
    cluster = still.cluster(scale=manual(0))
    still.change("UPDATE resource SET created = 100")
    still.change("UPDATE cluster SET target = ?", target)
    still.change("UPDATE resource SET more = json_set(more, '$.changed', 150.0) WHERE key = ?", cluster.key)
    return cluster


def test_a_cluster_counts_its_nodes_and_says_what_is_wrong_with_them(still: Still) -> None:
    cluster = sized(still, 7)
    states = ("idle", "idle", "idle", "running", "running", "unusable", "unusable")
    for number, state in enumerate(states):
        node(still, cluster, f"n{number}", state, error=f"no disk {number}" * (state == "unusable"))
    assert shown(still, cluster) == Cluster(
        id=cluster,
        spec=with_image(ClusterSpec.from_stored(stored(still, cluster))),
        provisioning=made(),
        allocation_state=AllocationState.STEADY,
        allocation_changed=at(150),
        node_states=NodeStateCounts(running_node_count=2, idle_node_count=3, unusable_node_count=2),
        errors=tuple(
            ErrorDetail(
                code="NodeSetupFailed",
                message=f"no disk {number}",
                details=(NameValue(name="NodeId", value=f"n{number}"),),
            )
            for number in (5, 6)
        ),
    )


@pytest.mark.parametrize(
    ("target", "states", "is_steady"),
    [
        (0, [], True),
        (1, ["idle"], True),
        (1, ["unusable"], True),
        (2, ["running", "idle"], True),
        (1, ["preparing"], False),
        (1, ["leaving"], False),
        (2, ["idle", "preparing"], False),
        (2, ["running", "leaving"], False),
    ],
)
def test_a_cluster_is_steady_with_all_of_its_nodes_and_none_coming_or_going(
    still: Still, target: int, states: list[str], is_steady: bool
) -> None:
    cluster = sized(still, target)
    for number, state in enumerate(states):
        node(still, cluster, f"n{number}", state)
    found = shown(still, cluster)
    assert (found.allocation_state is AllocationState.STEADY) is is_steady
    assert (found.allocation_state is AllocationState.RESIZING) is not is_steady
    assert found.node_states.of(NodeState.PREPARING) == states.count("preparing")
    assert found.node_states.of(NodeState.LEAVING) == states.count("leaving")


def job(still: Still, name: str = "j") -> ResourceId:
    made = still.job(name)
    still.change("UPDATE resource SET created = 100")
    still.change("UPDATE job SET changed = 160, guid = 'run ' || ? WHERE key = ?", name, made.key)
    still.change("UPDATE resource SET guid = 'run ' || ? WHERE key = ?", name, made.key)
    return made


def seen(still: Still, id: ResourceId, **values: object) -> JobResource:
    """A job as it is shown: queued since 160 but for `values`."""
    segment = f"s/g/workspaces/w/experiments/e/jobs/{id.name}/run {id.name}"
    fields = {"state": ExecutionState.QUEUED, "state_changed": at(160), "output_path_segment": segment}
    return JobResource(
        id=id, spec=JobSpec.from_stored(stored(still, id)), provisioning=made(), **{**fields, **values}
    )


def test_a_job_that_has_not_begun(still: Still) -> None:
    sized(still, 2)
    id = job(still)
    assert shown(still, id) == seen(still, id, execution=None, ranks=())


def test_a_job_that_runs(still: Still) -> None:
    sized(still, 2)
    id = job(still)
    still.change("UPDATE job SET state = 'running', started = 170")
    running = {"state": ExecutionState.RUNNING, "execution": ExecutionInfo(started=at(170))}
    assert shown(still, id) == seen(still, id, **running)


def test_a_job_that_ended_with_what_became_of_each_process(still: Still) -> None:
    sized(still, 2)
    id = job(still)
    exits = (ProcessExit(1, "n1", 7, 178.0), ProcessExit(0, "n0"))
    errors = failed_with("JobFailed", "it was told to", rank=1).errors
    with still.store.write() as db:
        job_table.end(db, id.key, "run j", Outcome(7, errors, exits))
    still.change("UPDATE job SET changed = 180, started = 170, ended = 180")
    error = ErrorDetail(
        code="JobFailed", message="it was told to", details=(NameValue(name="rank", value="1"),)
    )
    assert shown(still, id) == seen(
        still,
        id,
        state=ExecutionState.FAILED,
        state_changed=at(180),
        execution=ExecutionInfo(at(170), at(180), 7, (error,)),
        ranks=(RankExit(1, "n1", 7, at(178)), RankExit(0, "n0", None, None)),
    )


def test_some_are_told_of_and_those_that_are_not_there_are_left_out(still: Still) -> None:
    cluster = sized(still, 2)
    ids = [job(still, "b"), still.workspace, job(still, "a"), cluster, still.experiment]
    found = all_shown(still, [*ids, still.experiment.child(Kind.JOB, "nope")])
    assert found == {id.key: shown(still, id) for id in ids}


def test_the_nodes_of_a_cluster_and_of_a_job_say_what_they_run(still: Still) -> None:
    cluster = sized(still, 9)
    first, second = job(still, "A"), job(still, "b")
    node(still, cluster, "z", "running", "run A")
    node(still, cluster, "y", "idle")
    node(still, cluster, "x", "running", "run b")
    node(still, cluster, "w", "leaving", "run A")
    other = still.cluster("other", scale=manual(0))
    node(still, other, "v", "unusable")
    z = Node("z", NodeState.RUNNING, first, "127.0.0.1", 22, at(200))
    y = Node("y", NodeState.IDLE, None, "127.0.0.1", 22, at(201))
    x = Node("x", NodeState.RUNNING, second, "127.0.0.1", 22, at(202))
    w = Node("w", NodeState.LEAVING, first, "127.0.0.1", 22, at(203))
    v = Node("v", NodeState.UNUSABLE, None, "127.0.0.1", 22, at(204))
    with still.store.read() as db:
        assert run_status.nodes_of(db, cluster) == [z, y, x, w]
        assert run_status.nodes_of(db, other) == [v]
        assert run_status.nodes_of(db, first) == [z, w]
        assert run_status.nodes_of(db, second) == [x]
        assert str(run_status.nodes_of(db, first)[0].job) == str(first)


def test_quotas_count_what_each_cluster_is_to_have(still: Still) -> None:
    still.cluster("a", scale=manual(3))
    low = still.cluster("b", scale=manual(2), vmSize="STANDARD_NC6", vmPriority="lowpriority")
    a, b = Nodes("STANDARD_D1", 3, False), Nodes("STANDARD_NC6", 2, True)
    context = still.backend.context
    clusters = context.repository.clusters()
    assert sorted(context.quota_nodes(clusters), key=lambda item: item.count) == [b, a]
    others = [record for record in clusters if record.resource_id != low]
    assert [*context.quota_nodes(others)] == [a]


def test_descriptions_are_read_once(still: Still) -> None:
    cluster = sized(still, 2)
    text = stored(still, cluster)
    assert resource_views.cluster_spec(text) is resource_views.cluster_spec(text)
    assert resource_views.cluster_spec(text).vm_size == json.loads(text)["properties"]["vmSize"]
    text = stored(still, job(still))
    assert stored_descriptions.job_spec(text) is stored_descriptions.job_spec(text)
    assert stored_descriptions.job_spec(text).node_count == 1


class DeletedMeanwhile(LocalRunner):
    """The engine of a home where another process deletes each job that is asked for."""

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        with contextlib.closing(Store(self._layout.database)) as others:
            repository = SqliteRepository(others)
            for run in runs:
                repository.delete(ResourceId.parse(f"{WORKSPACE}/experiments/e/jobs/{run.name}"))
        return super().status(runs)


def test_a_job_deleted_while_it_is_read_is_shown_as_it_was(still: Still) -> None:
    still.cluster()
    still.prepare()
    ids = [still.job(name) for name in ("a", "b")]
    backend = still.backend
    runner = DeletedMeanwhile(still.store, still.layout, backend.settings)
    backend.context = replace(backend.context, runner=runner)
    assert backend.show(ids[0]).state is ExecutionState.QUEUED
    assert [job.state for job in backend.list(still.experiment, Kind.JOB)] == [ExecutionState.QUEUED]
    assert not backend.list(still.experiment, Kind.JOB)


def test_a_job_deleted_while_its_status_is_read_has_the_status_before(still: Still) -> None:
    cluster = still.cluster()
    still.prepare()
    id = still.job()
    reads: list[str] = []

    def delete_after_first_read(statement: str) -> None:
        if reads and statement.startswith("SELECT"):
            with contextlib.closing(Store(still.layout.database)) as others:
                SqliteRepository(others).delete(id)
        if "FROM resource" in statement:
            reads.append(statement)

    with still.store.read() as db:
        db.set_trace_callback(delete_after_first_read)
    assert still.backend.status([id]).of(id).state is ExecutionState.QUEUED
    assert len(reads) == 1
    with pytest.raises(NotFoundError):
        still.backend.show(id)
    assert [*still.backend.status([id, cluster]).states] == [cluster.key]


def test_the_status_of_some_jobs_is_that_of_a_list(still: Still) -> None:
    sized(still, 9)
    first, second = still.job("A"), still.job("b")
    missing = still.experiment.child(Kind.JOB, "missing")
    still.change("DELETE FROM job WHERE guid = (SELECT guid FROM resource WHERE key = ?)", second.key)
    listed = still.backend.list(still.experiment, Kind.JOB)
    states = still.backend.status([second, missing, first]).states
    assert sorted(states) == [first.key, second.key]
    assert [states[job.id.key] for job in listed] == list(listed)
    assert [job.state for job in listed] == [ExecutionState.QUEUED, ExecutionState.FAILED]
