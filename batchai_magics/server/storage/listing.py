"""Lists in XML, page by page: a marker says which name is the first of the next one. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from batchai_magics.server.call import Answer, Call
from batchai_magics.server.storage.errors import StorageRefusal

LONGEST = 5000


@dataclass(frozen=True)
class NamePage:
    """Some names, and the marker of those after them."""

    items: Sequence[str]
    next: str

    def of(self, names: Sequence[str]) -> NamePage:
        """The page with those of its names alone."""
        return replace(self, items=[name for name in self.items if name in names])


@dataclass(frozen=True)
class Entries:
    """The items of a list as XML, below one element."""

    element: str
    inner: Sequence[str]
    next: str


def page_of(call: Call, names: Sequence[str]) -> NamePage:
    """The page of names that a request asks for, in order."""
    size = call.number("maxresults", LONGEST, least=1, most=LONGEST)
    first = _name_of(call.query.get("marker", ""))
    rest = [name for name in sorted(names) if name >= first]
    marker = base64.urlsafe_b64encode(rest[size].encode()).decode() if len(rest) > size else ""
    return NamePage(rest[:size], marker)


def xml(call: Call, attributes: Mapping[str, str], entries: Entries, *more: Entries) -> Answer:
    """The answer that is a list, or several, which are of the same page."""
    said = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    asked = "".join(
        f"<{element}>{escape(call.query[name])}</{element}>"
        for name, element in (("marker", "Marker"), ("prefix", "Prefix"), ("maxresults", "MaxResults"))
        if call.query.get(name)
    )
    every = (entries, *more)
    lists = "".join(f"<{each.element}>{''.join(each.inner)}</{each.element}>" for each in every)
    body = (
        f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults{said}>{asked}'
        f"{lists}<NextMarker>{entries.next}</NextMarker></EnumerationResults>"
    )
    return Answer(200, body=body.encode(), headers={"Content-Type": "application/xml"})


def name_element(name: str) -> str:
    """A name as XML; one with signs that XML does not have is percent-encoded, as Azure does."""
    if all(sign.isprintable() or sign == "\t" for sign in name):
        return f"<Name>{escape(name)}</Name>"
    return f'<Name Encoded="true">{quote(name)}</Name>'


def _name_of(marker: str) -> str:
    try:
        return base64.b64decode(marker.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise StorageRefusal(400, "OutOfRangeQueryParameterValue", "The marker is none of a list.") from None
