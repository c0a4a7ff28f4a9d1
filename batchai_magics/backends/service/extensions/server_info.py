"""The capabilities and facets of the backend behind our own server, as JSON in both directions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypedDict

from batchai_magics.backends.base import FACETS, Backend, Capabilities, Pace

ENSURE = "ensure"  # a facet of servers that create what a job needs in one request


@dataclass(frozen=True)
class ServerInfo:
    """What a server supports: the capabilities and facets of its backend."""

    capabilities: Capabilities
    facets: Collection[str]


class ServerInfoWire(TypedDict):
    """The JSON of what a server supports: the fields of its capabilities, and the names of its facets."""

    capabilities: Mapping[str, Any]
    facets: list[str]


def to_wire(backend: Backend, pace: Pace) -> ServerInfoWire:
    """The JSON of what a backend supports; `pace` is the server's own rate limit."""
    known = {**asdict(backend.capabilities), "pace": asdict(pace)}
    facets = [facet.attribute for facet in FACETS if getattr(backend, facet.attribute)]
    return {"capabilities": known, "facets": [*facets, ENSURE]}


def from_wire(data: Mapping[str, Any], name: str) -> ServerInfo | None:
    """Parses the result of `to_wire`, for a backend called `name`; None for anything else.

    Unknown entries of a newer server are ignored; entries missing from an older one have defaults.
    """
    entries, facets = data.get("capabilities"), data.get("facets")
    if not (isinstance(entries, Mapping) and isinstance(facets, list)):
        return None
    flags = {field.name for field in fields(Capabilities)} - {"name", "pace", "backend_options"}
    known = {flag: bool(entries[flag]) for flag in flags if flag in entries}
    options = entries.get("backend_options")
    names = tuple(map(str, options)) if isinstance(options, list) else ()
    capabilities = Capabilities(name=name, pace=_pace(entries.get("pace")), backend_options=names, **known)
    return ServerInfo(capabilities, tuple(map(str, facets)))


def _pace(data: object) -> Pace:
    entries = data if isinstance(data, Mapping) else {}
    names = {field.name for field in fields(Pace)}
    return Pace(**{name: float(value) for name, value in entries.items() if name in names})
