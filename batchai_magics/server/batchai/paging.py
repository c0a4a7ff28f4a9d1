"""Lists in pages: `maxresults` says how long one is, `nextLink` where the next one is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from batchai_magics.backends.base import Page
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.errors import refusal

LONGEST = 1000
_TOKEN = "$skiptoken"


def page_of(call: Call) -> Page:
    """The page that a request asks for."""
    size = call.number("maxresults", LONGEST, least=1, most=LONGEST)
    return Page(size, check_token(call.query.get(_TOKEN, "")))


def check_token(token: str) -> str:
    """The token itself, if it is one that a `nextLink` of ours may have."""
    if token and not (token.isascii() and token.isdigit() and len(token) < 19):
        raise refusal(400, "InvalidSkipToken", f"The $skiptoken {token!r} is none of this service.")
    return token


def listed(call: Call, items: Sequence[Any], token: str | None) -> Answer:
    """A page of a list; `token` begins the next one, None after the last."""
    data: dict[str, Any] = {"value": list(items)}
    if token:
        query = {**call.query, _TOKEN: token}
        data["nextLink"] = call.link(call.path, urlencode(query, safe="$"))
    return Answer(data=data)
