"""An operation as it is asked for by its addresses: under way, over, or of somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from batchai_magics.errors import BatchAIError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.batchai import batchai_responses
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.operations import TERMINATE, Operations
from tests.server.running import SUBSCRIPTION, WORKSPACE

JOB = f"{WORKSPACE}/experiments/e/jobs/j"
RUNS = SimpleNamespace(show=lambda id: None)  # a backend whose jobs never end


@pytest.fixture
def context(tmp_path: Path) -> Iterator[HandlerContext]:
    operations = Operations(tmp_path, RUNS)
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


def test_what_is_under_way_is_no_news_and_asked_for_again_in_a_second(context: HandlerContext) -> None:
    name = context.operations.start(TERMINATE, JOB).name
    answers = asked(context, name)
    assert [answer.status for answer in answers] == [200, 202]
    assert [answer.is_news for answer in answers] == [False, False]
    assert [answer.headers for answer in answers] == [{"Retry-After": "1"}] * 2
    assert {answer.data["status"] for answer in answers} == {"InProgress"}
    assert all(answer.data["id"].endswith(f"/operationresults/{name}") for answer in answers)


def test_what_is_over_is_told_alike_by_both(context: HandlerContext) -> None:
    answers = asked(context, context.operations.record_completed(ResourceId.parse(JOB)).name)
    assert [(answer.status, answer.headers, answer.is_news) for answer in answers] == [(200, {}, None)] * 2
    assert {answer.data["status"] for answer in answers} == {"Succeeded"}


def test_an_unknown_name_is_not_found(context: HandlerContext) -> None:
    with pytest.raises(BatchAIError) as caught:
        asked(context, "x")
    assert caught.value.code == "OperationNotFound"
