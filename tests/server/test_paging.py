"""Lists in pages: how long one may be, and the link to the next."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from batchai_magics.backends.base import Page
from batchai_magics.errors import BatchAIError
from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.batchai.batchai_responses import MAX_PAGE_SIZE, page_response, requested_page


@pytest.mark.parametrize("size", [1, MAX_PAGE_SIZE])
def test_a_page_is_as_long_as_it_is_wanted_and_begins_where_the_last_one_ended(size: int) -> None:
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
        requested_page(ApiCall("GET", "/", {"$skiptoken": token}))
    assert caught.value.code == "InvalidSkipToken"
    assert requested_page(ApiCall("GET", "/", {"$skiptoken": "9" * 18})).after == "9" * 18


def test_the_link_to_the_next_page_asks_for_it_as_this_one_was_asked_for() -> None:
    query = {"api-version": "2018-05-01", "maxresults": "2", "$skiptoken": "2"}
    data = page_response(ApiCall("GET", "/a b", query, origin="https://host:1"), [1, 2], "4").data
    link = urlsplit(data["nextLink"])
    assert (link.scheme, link.netloc) == ("https", "host:1")
    assert parse_qs(link.query) == {"api-version": ["2018-05-01"], "maxresults": ["2"], "$skiptoken": ["4"]}
    assert page_response(ApiCall("GET", "/", query), [3], None).data == {"value": [3]}
