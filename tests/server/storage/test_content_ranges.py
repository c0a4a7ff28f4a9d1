"""Bytes as they go out: the range that was asked for, as far as there are any."""

from __future__ import annotations

import pytest

from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.storage.storage_resource import StorageApiError
from batchai_magics.server.storage.storage_responses import content_response

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
def test_a_range_is_told_with_what_it_is_of(text: str, status: int, body: bytes, told: str | None) -> None:
    answer = sent(text)
    assert (answer.status, answer.body) == (status, body)
    assert answer.headers.get("Content-Range") == told
    assert (answer.headers["Content-Length"], answer.headers["ETag"]) == (str(len(body)), "e")


@pytest.mark.parametrize(("text", "data"), [("bytes=10-", DATA), ("bytes=11-12", DATA), ("bytes=0-0", b"")])
def test_a_range_behind_the_end_is_refused(text: str, data: bytes) -> None:
    with pytest.raises(StorageApiError) as caught:
        sent(text, data)
    assert caught.value.code == "InvalidRange"


def test_much_is_read_only_when_it_goes_out() -> None:
    data = DATA * 100_000
    answer = sent("bytes=1-999998", data)
    assert answer.body is None
    assert b"".join(answer.chunks) == data[1:-1]
    assert answer.headers["Content-Length"] == "999998"
