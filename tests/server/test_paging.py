"""Lists in pages: how long one may be, and the link to the next."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from batchai_magics.backends.base import Listing, Page
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.models.resources import Workspace
from batchai_magics.models.response_object import Provisioning
from batchai_magics.server.api_call import ApiCall, parse_query
from batchai_magics.server.batchai import resource_handlers
from batchai_magics.server.batchai.batchai_responses import (
    MAX_PAGE_SIZE,
    page_number,
    page_response,
    requested_page,
)
from tests.server.running import WORKSPACE, Running


@pytest.mark.parametrize("size", [1, MAX_PAGE_SIZE])
def test_page_size_and_start_are_read_from_the_query(size: int) -> None:
    assert requested_page(ApiCall("GET", "/", {"maxresults": str(size), "$skiptoken": "7"})) == Page(
        size, "7"
    )
    assert requested_page(ApiCall("GET", "/")) == Page(MAX_PAGE_SIZE, "")


@pytest.mark.parametrize("size", ["0", "-1", str(MAX_PAGE_SIZE + 1), "x", "²", "9" * 30, "0" * 9 + "9" * 9])
def test_a_length_that_no_page_has_is_refused(size: str) -> None:
    with pytest.raises(BatchAIError, match=f"from 1 to {MAX_PAGE_SIZE}"):
        requested_page(ApiCall("GET", "/", {"maxresults": size}))


@pytest.mark.parametrize("token", ["x", "-1", "1.5", "²", "٣", "9" * 19])
def test_a_token_that_no_link_of_ours_has_is_refused(token: str) -> None:
    with pytest.raises(BatchAIError) as caught:
        page_number(requested_page(ApiCall("GET", "/", {"$skiptoken": token})))
    assert caught.value.code == "InvalidSkipToken"
    assert page_number(requested_page(ApiCall("GET", "/", {"$skiptoken": "9" * 18}))) == int("9" * 18)


@pytest.mark.slow
@pytest.mark.parametrize("token", ["x", "-1", "²", "9" * 19, "0001700000000.000001 0a"])
def test_a_token_of_another_backend_is_refused(server: Running, token: str) -> None:
    answer = server.ask("GET", f"{WORKSPACE}/experiments?$skiptoken={quote(token)}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "InvalidSkipToken")


@pytest.mark.parametrize("mark", ["17", "0001700000000.000001 0a-b", "/subscriptions/s/jobs/j"])
def test_the_next_page_begins_where_the_backend_says(mark: str) -> None:
    asked: list[Page] = []

    def listing(parent: object, kind: Kind, page: Page) -> Listing:
        asked.append(page)
        return Listing((), Page(page.size, mark))

    context = SimpleNamespace(backend=SimpleNamespace(list=listing))
    parts = dict.fromkeys(("subscription", "group", "workspace"), "x")
    call = ApiCall("GET", "/", {"maxresults": "2"}, parts=parts)
    answer = resource_handlers.list_in(Kind.WORKSPACE, Kind.EXPERIMENT, context, call)
    query = parse_query(urlsplit(answer.data["nextLink"]).query.encode())
    resource_handlers.list_in(Kind.WORKSPACE, Kind.EXPERIMENT, context, replace(call, query=query))
    assert asked == [Page(2, ""), Page(2, mark)]


def test_paging_continues_after_a_workspace_without_a_creation_time() -> None:
    first, second = (
        Workspace(workspace_id(Settings(workspace=name)), "eastus", Provisioning(made, made))
        for name, made in (("a", datetime.fromtimestamp(0, timezone.utc)), ("b", datetime.now(timezone.utc)))
    )
    backend = SimpleNamespace(list=lambda parent, kind: [second, first])
    operations = SimpleNamespace(is_deleting=lambda id: False)
    context = SimpleNamespace(backend=backend, subscription="s", operations=operations)
    call, pages = ApiCall("GET", "/", {"maxresults": "1"}, parts={"group": "g"}), []
    for _ in range(2):
        data = resource_handlers.list_workspaces_in_group(context, call).data
        pages.append([item["name"] for item in data["value"]])
        query = parse_query(urlsplit(data.get("nextLink", "")).query.encode())
        call = replace(call, query=query)
    assert (pages, query) == ([["a"], ["b"]], {})


def test_link_to_the_next_page_keeps_the_query() -> None:
    query = {"api-version": "2018-05-01", "maxresults": "2", "$skiptoken": "2"}
    data = page_response(ApiCall("GET", "/a b", query, origin="https://host:1"), [1, 2], "4").data
    link = urlsplit(data["nextLink"])
    assert (link.scheme, link.netloc) == ("https", "host:1")
    assert parse_qs(link.query) == {"api-version": ["2018-05-01"], "maxresults": ["2"], "$skiptoken": ["4"]}
    assert page_response(ApiCall("GET", "/", query), [3], None).data == {"value": [3]}
