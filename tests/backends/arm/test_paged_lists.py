"""Paged lists: pages are requested lazily, by the token of the page before."""

from __future__ import annotations

from itertools import islice

from batchai_magics.backends.azure.arm_client import list_items, list_pages
from batchai_magics.backends.azure.arm_protocol import ArmRequest
from tests.backends.arm.scripted_connection import ScriptedConnection

LIST = ArmRequest("GET", "/list", {"$filter": "x"})


def page(*names: str, next: str = "") -> dict:
    link = {"nextLink": f"https://elsewhere.example/list?api-version=1&{next}"} if next else {}
    return {"value": [{"name": name} for name in names], **link}


def test_all_items_come_whatever_the_spelling_of_the_token() -> None:
    connection = ScriptedConnection(
        page("a", "b", next="%24skiptoken=2"), page("c", next="$SkipToken=3%2B"), page(), page("never")
    )
    assert [item["name"] for item in list_items(connection, LIST)] == ["a", "b", "c"]
    assert [request.query for request in connection.requests] == [
        {"$filter": "x"},
        {"$filter": "x", "$skiptoken": "2"},
        {"$filter": "x", "$skiptoken": "3+"},
    ]
    assert {request.path for request in connection.requests} == {"/list"}  # never to the link's host


def test_a_page_that_nobody_wants_is_not_asked_for() -> None:
    connection = ScriptedConnection(page("a", next="$skiptoken=2"))
    (first,) = islice(list_pages(connection, LIST, "1", 7), 1)
    assert ([item["name"] for item in first.items], first.next) == (["a"], "2")
    assert connection.requests[0].query == {"$filter": "x", "maxresults": "7", "$skiptoken": "1"}


def test_a_list_that_leads_to_itself_ends() -> None:
    connection = ScriptedConnection(page("a", next="$skiptoken=2"), page("b", next="$skiptoken=2"))
    assert [item["name"] for item in list_items(connection, LIST)] == ["a", "b"]


def test_what_is_no_item_is_left_out_and_a_list_of_nothing_is_empty() -> None:
    odd = {"value": [{"name": "a"}, None, "b", 3], "nextLink": None}
    assert list(list_items(ScriptedConnection(odd), LIST)) == [{"name": "a"}]
    for nothing in ({}, {"value": None}, {"value": [], "nextLink": "https://host/list"}):
        assert list(list_items(ScriptedConnection(nothing), LIST)) == []
