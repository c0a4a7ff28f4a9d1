"""Pages of names and ranges of bytes, as they go out."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from batchai_magics.errors import BatchAIError
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.storage.storage_resource import StorageApiError
from batchai_magics.server.storage.storage_responses import (
    content_response,
    list_response,
    name_element,
    name_page,
)

NAMES = ["c", "a", "e", "ä", "b", "d"]


def pages(size: int) -> list[list[str]]:
    """All pages of the names, each asked for with the marker of the one before."""
    found, marker = [], ""
    while (not found or marker) and len(found) <= len(NAMES):
        page = name_page(ApiCall("GET", "/", {"maxresults": str(size), "marker": marker}), NAMES)
        found.append(list(page.items))
        marker = page.next
    return found


@pytest.mark.parametrize(
    ("size", "lengths"), [(1, [1] * 6), (2, [2, 2, 2]), (4, [4, 2]), (5, [5, 1]), (6, [6]), (7, [6])]
)
def test_pages_of_each_size_have_every_name_once_and_in_order(size: int, lengths: list[int]) -> None:
    found = pages(size)
    assert [len(page) for page in found] == lengths
    assert [name for page in found for name in page] == sorted(NAMES)


def test_a_page_begins_where_the_one_before_ended_though_that_name_is_gone() -> None:
    marker = name_page(ApiCall("GET", "/", {"maxresults": "2"}), NAMES).next
    left = [name for name in NAMES if name != "c"]
    assert name_page(ApiCall("GET", "/", {"marker": marker}), left).items == ["d", "e", "ä"]


@pytest.mark.parametrize("marker", ["x", "ü", "/w==", "YQ==!", "a?b="])
def test_a_marker_of_no_list_is_refused(marker: str) -> None:
    with pytest.raises(BatchAIError, match="marker"):
        name_page(ApiCall("GET", "/", {"marker": marker}), NAMES)


def test_list_response_repeats_the_query_escaped() -> None:
    call = ApiCall("GET", "/", {"prefix": "<&>", "maxresults": "3"})
    told = ElementTree.fromstring(list_response(call, {"Entries": []}, "next", ShareName='a"&').body)
    assert (told.findtext("Prefix"), told.findtext("MaxResults")) == ("<&>", "3")
    assert (told.get("ShareName"), told.findtext("NextMarker"), told.find("Marker")) == ('a"&', "next", None)


@pytest.mark.parametrize(
    ("name", "text", "encoded"),
    [
        ("a & <b>", "a & <b>", None),
        ("a\tb", "a\tb", None),
        ("a\x01b", "a%01b", "true"),
        ("a\nb", "a%0Ab", "true"),
    ],
)
def test_a_name_that_xml_cannot_have_is_percent_encoded(name: str, text: str, encoded: str | None) -> None:
    told = ElementTree.fromstring(name_element(name))
    assert (told.text, told.get("Encoded")) == (text, encoded)


DATA = b"0123456789"


def sent(text: str, data: bytes = DATA) -> ApiResponse:
    """The answer to a request with such a header `Range`."""
    call = ApiCall("GET", "/", headers={"range": text} if text else {})
    return content_response(
        call, {"ETag": "e"}, len(data), lambda start, limit: data[start : start + limit], None
    )


@pytest.mark.parametrize(
    ("text", "status", "body", "told"),
    [
        ("bytes=3-6", 206, b"3456", "bytes 3-6/10"),
        ("bytes=0-0", 206, b"0", "bytes 0-0/10"),
        ("bytes=8-", 206, b"89", "bytes 8-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=9-9", 206, b"9", "bytes 9-9/10"),
        ("bytes=0-9", 206, DATA, "bytes 0-9/10"),
        ("bytes=6-3", 200, DATA, None),
        ("", 200, DATA, None),
    ],
)
def test_content_range_has_the_range_and_the_total_size(
    text: str, status: int, body: bytes, told: str | None
) -> None:
    answer = sent(text)
    assert (answer.status, answer.body) == (status, body)
    assert answer.headers.get("Content-Range") == told
    assert (answer.headers["Content-Length"], answer.headers["ETag"]) == (str(len(body)), "e")


@pytest.mark.parametrize(("text", "data"), [("bytes=10-", DATA), ("bytes=11-12", DATA), ("bytes=0-0", b"")])
def test_a_range_behind_the_end_is_refused(text: str, data: bytes) -> None:
    with pytest.raises(StorageApiError) as caught:
        sent(text, data)
    assert caught.value.code == "InvalidRange"


def test_large_range_is_read_while_it_is_sent() -> None:
    data = DATA * 100_000
    answer = sent("bytes=1-999998", data)
    assert answer.body is None
    assert b"".join(answer.chunks) == data[1:-1]
    assert answer.headers["Content-Length"] == "999998"
