"""Lists in pages: how long one may be, and the link to the next."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from batchai_magics.backends.base import Page
from batchai_magics.errors import BatchAIError
from batchai_magics.server.batchai.paging import LONGEST, listed, page_of
from batchai_magics.server.call import Call


@pytest.mark.parametrize("size", [1, LONGEST])
def test_a_page_is_as_long_as_it_is_wanted_and_begins_where_the_last_one_ended(size: int) -> None:
    assert page_of(Call("GET", "/", {"maxresults": str(size), "$skiptoken": "7"})) == Page(size, "7")
    assert page_of(Call("GET", "/")) == Page(LONGEST, "")


@pytest.mark.parametrize("size", ["0", "-1", str(LONGEST + 1), "x", "²"])
def test_a_length_that_no_page_has_is_refused(size: str) -> None:
    with pytest.raises(BatchAIError, match=f"from 1 to {LONGEST}"):
        page_of(Call("GET", "/", {"maxresults": size}))


@pytest.mark.parametrize("token", ["x", "-1", "1.5", "²", "٣", "9" * 19])
def test_a_token_that_no_link_of_ours_has_is_refused(token: str) -> None:
    with pytest.raises(BatchAIError) as caught:
        page_of(Call("GET", "/", {"$skiptoken": token}))
    assert caught.value.code == "InvalidSkipToken"
    assert page_of(Call("GET", "/", {"$skiptoken": "9" * 18})).after == "9" * 18


def test_the_link_to_the_next_page_asks_for_it_as_this_one_was_asked_for() -> None:
    query = {"api-version": "2018-05-01", "maxresults": "2", "$skiptoken": "2"}
    data = listed(Call("GET", "/a b", query, origin="https://host:1"), [1, 2], "4").data
    link = urlsplit(data["nextLink"])
    assert (link.scheme, link.netloc) == ("https", "host:1")
    assert parse_qs(link.query) == {"api-version": ["2018-05-01"], "maxresults": ["2"], "$skiptoken": ["4"]}
    assert listed(Call("GET", "/", query), [3], None).data == {"value": [3]}
