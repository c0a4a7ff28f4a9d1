"""Jobs of a workspace while they are watched, over real connections to the stand-in."""

from __future__ import annotations

from itertools import chain, pairwise

import pytest

from batchai_magics import follow
from batchai_magics.backends.azureml.azureml_backend import AzureMLBackend
from batchai_magics.backends.base import FileRef, Page
from batchai_magics.errors import ServiceError
from batchai_magics.follow import LogBytes
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from tests.azureml.workspace import ROOT

SINGLE = "user_logs/std_log.txt"


def shown(backend: AzureMLBackend, id: ResourceId) -> JobResource:
    job = backend.show(id)
    assert isinstance(job, JobResource)
    return job


def log_of(backend: AzureMLBackend, id: ResourceId) -> bytes:
    events = chain.from_iterable(follow.events(backend, id))
    return b"".join(event.chunk.data for event in events if isinstance(event, LogBytes))


def test_a_workspace_without_shared_keys_is_read_like_any_other(azure, backend, start):
    azure.workspace.is_identity_based, azure.blobs.allows_keys = True, False
    id = start()
    azure.write_log("resnet", SINGLE, b"hello\n")
    azure.set_status("resnet", "Completed")
    assert log_of(backend, id) == b"hello\n"


def test_addresses_that_expire_while_a_job_is_watched_are_renewed(azure, backend, start):
    azure.history.link_life_s = 0.0
    id = start()
    azure.write_log("resnet", SINGLE, b"one\n")
    backend.logs.watched(id).details()
    azure.history.link_life_s = 3600.0
    azure.write_log("resnet", SINGLE, b"two\n")
    assert backend.read(FileRef(id, "stdout.txt")).data == b"one\ntwo\n"


def test_service_error_follows_the_error_of_the_first_failed_rank(azure, backend, start):
    id = start()
    for rank, code, ended in ((0, 1, 1764.9), (1, 3, 1764.5), (2, None, 1765.0), (3, 0, 1764.1)):
        end = Outcome(code, ranks=(ProcessExit(rank, f"node-{rank}", code, ended, 7),))
        azure.write_log("resnet", f"logs/batchai/exits/{rank}.json", end.to_json().encode())
    azure.set_status("resnet", "Failed", error={"code": "UserError", "message": "it failed"})
    job = shown(backend, id)
    assert [(rank.rank, rank.exit_code) for rank in job.ranks] == [(1, 3), (0, 1), (3, 0), (2, None)]
    assert job.execution.exit_code == 3
    assert [error.code for error in job.execution.errors] == ["JobFailed", "UserError"]
    assert [detail.value for detail in job.execution.errors[0].details] == ["1", "node-1", "3"]


def test_an_end_that_run_history_learns_later_than_the_job_is_shown_then(azure, backend, start):
    now = [0.0]
    backend.logs.clock = lambda: now[0]
    id, run = start(), azure.jobs.find("resnet")
    azure.set_status("resnet", "Completed")
    ended, run.ended_at = run.ended_at, None
    assert shown(backend, id).state is ExecutionState.SUCCEEDED
    run.ended_at = ended
    now[0] = 60.0
    execution = shown(backend, id).execution
    assert execution
    assert execution.ended == ended


def test_a_restart_by_the_service_is_an_attempt(azure, backend, start):
    id = start()
    azure.write_log("resnet", SINGLE, b"first\n")
    azure.write_log("resnet", "user_logs/retry_001/std_log.txt", b"second\n")
    azure.set_status("resnet", "Completed")
    attempts = shown(backend, id).attempts
    assert [(attempt.number, bool(attempt.reason)) for attempt in attempts] == [(1, True), (2, False)]
    assert "attempt 1: the service started it again" in attempts[0].sentence
    assert log_of(backend, id) == b"first\nsecond\n"


@pytest.mark.parametrize("kind", [Kind.JOB, Kind.EXPERIMENT])
def test_a_list_continues_behind_a_resource_that_was_deleted_meanwhile(backend, start, experiment, kind):
    parent = experiment if kind is Kind.JOB else experiment.parent
    for name in "cabd":
        start(name, experimentName=experiment.name if kind is Kind.JOB else name)
    first = backend.list(parent, kind, Page(2))
    backend.delete(parent.child(kind, "a"))
    rest = backend.list(parent, kind, first.next)
    assert [[item.id.name for item in page] for page in (first, rest)] == [["c", "a"], ["b", "d"]]
    assert rest.next is None


@pytest.mark.parametrize("token", ["x", "7", "-1 /subscriptions/s"])
def test_a_page_that_no_list_has_is_refused(backend, experiment, token):
    with pytest.raises(ServiceError, match="is not from this service"):
        backend.list(experiment, Kind.JOB, Page(1, token))


def test_a_queued_job_says_what_its_cluster_and_the_quota_lack(azure, backend, start):
    azure.workspace.cores["Standard NCASv3_T4 Family"] = 4
    azure.computes.add("gpus", size="Standard_NC4as_T4_v3", minimum=3)
    id = start(status="Queued", computeId=f"{ROOT}/computes/gpus", resources={"instanceCount": 3})
    waiting = shown(backend, id).waiting
    assert "exceeding quota limits" in waiting
    assert "3 × NC4as_T4_v3, 0 of 4 cores free: more than the quota, which must be raised to 12" in waiting


def test_a_list_of_queued_jobs_costs_one_request(azure, backend, start):
    id, sent = start(status="Queued"), len(azure.exchanges)
    (job,) = backend.list(id.parent, Kind.JOB)
    assert isinstance(job, JobResource)
    assert (job.execution, job.ranks, job.state_changed) == (None, (), job.provisioning.created)
    assert len(azure.exchanges) == sent + 1


def test_a_serverless_job_says_what_the_quota_lacks(azure, backend, start):
    azure.workspace.cores_in_use["standardDSv2Family"] = 100
    assert "1 × DS3_v2, 0 of 100 cores free: will queue" in shown(backend, start(status="Queued")).waiting


def test_nodes_of_a_job_are_the_nodes_that_run_it(azure, backend, start):
    azure.computes.preparation_s = 0
    cluster = azure.computes.add("gpus", minimum=2)
    id = start(computeId=f"{ROOT}/computes/gpus", resources={"instanceCount": 1})
    cluster.nodes[1].run_id = "resnet"
    (node,) = backend.nodes(id)
    assert (node.id, node.job) == (cluster.nodes[1].id, id)
    nodes = backend.nodes(id.workspace_id.child(Kind.CLUSTER, "gpus"))
    assert [node.job for node in nodes] == [None, id]


def test_logs_are_listed_with_logs_of_processes_and_of_the_service(azure, backend, start):
    id = start()
    for rank in range(2):
        azure.write_log("resnet", f"user_logs/std_log_process_{rank}.txt", b"hello\n")
    azure.write_log("resnet", "system_logs/lifecycler/execution.log", b"service\n")
    azure.set_status("resnet", "Completed")
    sizes = {file.path: file.size_bytes for file in backend.files(id)}
    assert sizes == {"stdout.txt": 12, "stdout-0.txt": 6, "stdout-1.txt": 6, "system_logs": 0, "user_logs": 0}
    (folder,) = backend.files(id, path="system_logs")
    (file,) = backend.files(id, path=folder.path)
    assert backend.read(FileRef(id, file.path)).data == b"service\n"
    assert file.download_url
    assert file.modified


def test_states_are_asked_for_once_in_some_seconds_whoever_watches(azure, backend, start):
    now = [0.0]
    id = start()
    backend.recent.clock = lambda: now[0]
    for now[0] in range(21):
        backend.status([id])
    asked = [exchange for exchange in azure.exchanges if exchange.request.path.endswith("/jobs/resnet")]
    assert sum(exchange.request.method == "GET" for exchange in asked) <= 6
    assert all(first.at <= second.at for first, second in pairwise(asked))
