"""Long-running operations: as their addresses tell them, and after the server that began them."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec
from batchai_magics.server.access.access_control import UNKNOWN_OWNER, Owners
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.batchai import batchai_responses
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.operations import DELETE, DELETE_GROUP, RETENTION_S, TERMINATE, Operations
from tests.patience import PATIENCE_S
from tests.server.running import SUBSCRIPTION, WORKSPACE
from tests.world import World, until

NO_RESOURCE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Other/things/x"


def left_behind(folder: Path, target: str, **more: object) -> str:
    """The file of an operation that a server had under way when it was killed."""
    name = str(uuid.uuid4())
    said = {
        "name": name,
        "kind": DELETE,
        "target": target,
        "started": 1.0,
        "ended": None,
        "error": None,
        **more,
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(said))
    return name


@pytest.mark.slow
def test_a_deletion_goes_on_with_the_next_server(world: World, tmp_path: Path) -> None:
    id = world.workspace.child(Kind.EXPERIMENT, "old")
    world.backend.create(id, ExperimentSpec())
    owners = Owners(tmp_path / "owners.jsonl")
    owners.record(f"{id.key}/jobs/j", "ann")
    name = left_behind(tmp_path / "operations", str(id))
    operations = Operations(tmp_path / "operations", world.backend, owners)
    assert operations.find(name).status == "InProgress"
    operations.resume()
    until(lambda: operations.find(name).status == "Succeeded")
    with pytest.raises(NotFoundError):
        world.backend.show(id)
    assert owners.of(f"{id.key}/jobs/j") == UNKNOWN_OWNER  # not of whoever had it before
    operations.close()


@pytest.mark.slow
def test_deletion_of_a_group_resumes_and_its_contents_lose_their_owners(world: World, tmp_path: Path) -> None:
    group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/Old"
    id = ResourceId.parse(f"{group}/providers/Microsoft.BatchAI/workspaces/w")
    world.backend.groups.create("Old", "eastus")
    world.backend.create(id, WorkspaceSpec(location="eastus"))
    owners = Owners(tmp_path / "owners.jsonl")
    for key in (group.lower(), id.key):
        owners.record(key, "ann")
    name = left_behind(tmp_path / "operations", group, kind=DELETE_GROUP)
    operations = Operations(tmp_path / "operations", world.backend, owners)
    operations.resume()
    until(lambda: operations.find(name).status == "Succeeded")
    with pytest.raises(NotFoundError):
        world.backend.groups.show("Old")
    assert (owners.of(group.lower()), owners.of(id.key)) == (UNKNOWN_OWNER, UNKNOWN_OWNER)
    operations.close()


def test_what_is_in_a_group_that_is_being_deleted_is_being_deleted(tmp_path: Path) -> None:
    may_end, groups = threading.Event(), SimpleNamespace(delete=lambda name: may_end.wait(PATIENCE_S))
    operations = Operations(tmp_path, SimpleNamespace(groups=groups), Owners(tmp_path / "owners.jsonl"))
    id = ResourceId.parse(WORKSPACE)
    operation = operations.start(DELETE_GROUP, f"/subscriptions/{id.subscription}/resourceGroups/{id.group}")
    found = [operations.is_deleting(each) for each in (id, replace(id, group=f"{id.group}-2"))]
    may_end.set()
    assert found == [True, False]
    until(lambda: operations.find(operation.name).status == "Succeeded")
    assert not operations.is_deleting(id)
    operations.close()


@pytest.mark.slow
def test_an_operation_that_is_long_over_is_forgotten(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "operations"
    old, new = (left_behind(folder, "x", ended=ended) for ended in (5.0, 10.0))
    operations = Operations(
        folder, world.backend, Owners(tmp_path / "owners.jsonl"), clock=lambda: RETENTION_S + 7.0
    )
    operations.resume()
    assert (operations.find(old), operations.find(new).status) == (None, "Succeeded")
    operations.close()


@pytest.mark.slow
def test_what_cannot_be_deleted_is_told_with_its_reason(world: World, tmp_path: Path) -> None:
    operations = Operations(tmp_path / "operations", world.backend, Owners(tmp_path / "owners.jsonl"))
    operation = operations.start(DELETE, NO_RESOURCE)
    until(lambda: operations.find(operation.name).status == "Failed")
    told = operations.find(operation.name).to_wire("url")
    assert set(told["error"]) >= {"code", "message"}
    operations.close()


JOB = f"{WORKSPACE}/experiments/e/jobs/j"
RUNS = SimpleNamespace(show=lambda id: None)  # a backend whose jobs never end


@pytest.fixture
def context(tmp_path: Path) -> Iterator[HandlerContext]:
    operations = Operations(tmp_path, RUNS, Owners(tmp_path / "owners.jsonl"))
    yield HandlerContext(RUNS, SUBSCRIPTION, "local", "batchai", operations, None, None, None)
    operations.close()


def asked(context: HandlerContext, name: str) -> list[ApiResponse]:
    """The answers of both addresses."""
    call = ApiCall(
        "GET",
        "/",
        parts={"subscription": SUBSCRIPTION, "operation": name, "location": "local"},
        origin="http://host",
    )
    return [
        batchai_responses.operation_result(context, call),
        batchai_responses.operation_status(context, call),
    ]


def test_running_operation_is_in_progress_and_retried_after_a_second(context: HandlerContext) -> None:
    name = context.operations.start(TERMINATE, JOB).name
    answers = asked(context, name)
    assert [answer.status for answer in answers] == [200, 202]
    assert [answer.is_news for answer in answers] == [False, False]
    assert [answer.headers for answer in answers] == [{"Retry-After": "1"}] * 2
    assert {answer.data["status"] for answer in answers} == {"InProgress"}
    assert all(answer.data["id"].endswith(f"/operationresults/{name}") for answer in answers)


def test_both_urls_of_an_ended_operation_have_its_result(context: HandlerContext) -> None:
    answers = asked(context, context.operations.record_completed(ResourceId.parse(JOB)).name)
    assert [(answer.status, answer.headers, answer.is_news) for answer in answers] == [(200, {}, None)] * 2
    assert {answer.data["status"] for answer in answers} == {"Succeeded"}


@pytest.mark.parametrize("name", ["x", "../../secret", "7d1b0c0e-5a0f-4f43-9a43-0a2f2b1c9d11"])
def test_an_unknown_name_is_not_found(context: HandlerContext, name: str) -> None:
    with pytest.raises(BatchAIError) as caught:
        asked(context, name)
    assert caught.value.code == "OperationNotFound"
