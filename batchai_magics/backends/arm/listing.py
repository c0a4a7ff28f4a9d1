"""Lists of the far side, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from batchai_magics.backends.arm.connection import Connection
from batchai_magics.backends.arm.paths import Question

_TOKEN = "$skiptoken"


@dataclass(frozen=True)
class JsonPage:
    """Some items as JSON, and the token of those after them; empty after the last."""

    items: Sequence[Mapping[str, Any]]
    next: str = ""


def items(connection: Connection, question: Question, after: str = "") -> Iterator[Mapping[str, Any]]:
    """All items of a list."""
    for page in pages(connection, question, after):
        yield from page.items


def pages(
    connection: Connection, question: Question, after: str = "", size: int | None = None
) -> Iterator[JsonPage]:
    """The pages of a list from a token on, each asked for when it is needed."""
    sized = {"maxresults": str(size)} if size else {}
    while True:
        begun = {_TOKEN: after} if after else {}
        asked = replace(question, query={**question.query, **sized, **begun})
        page = _page(connection.ask(asked))
        yield page
        if not page.next or page.next == after:
            return
        after = page.next


def _page(data: Mapping[str, Any]) -> JsonPage:
    """A page as it was told. Of the link to the next one only its token counts: it may name any host."""
    link = urlsplit(str(data.get("nextLink") or ""))
    query = {name.lower(): value for name, value in parse_qsl(link.query)}
    return JsonPage(
        [item for item in data.get("value") or () if isinstance(item, Mapping)], query.get(_TOKEN, "")
    )
