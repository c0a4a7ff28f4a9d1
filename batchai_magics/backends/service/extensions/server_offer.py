"""What the backend behind our own server can do, as JSON, both ways: its capabilities and its facets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from batchai_magics.backends.base import FACETS, Backend, Capabilities, Pace

ENSURE = "ensure"  # among the facets of servers that create what a job needs in one request


@dataclass(frozen=True)
class ServerOffer:
    """What a server offers: the capabilities of what is behind it, and the facets that it has."""

    capabilities: Capabilities
    facets: Collection[str]


def to_wire(backend: Backend, pace: Pace) -> dict[str, Any]:
    """The JSON of what a backend can do; `pace` is how often the server itself may be asked."""
    known = {**asdict(backend.capabilities), "pace": asdict(pace)}
    facets = [facet.attribute for facet in FACETS if getattr(backend, facet.attribute)]
    return {"capabilities": known, "facets": [*facets, ENSURE]}


def from_wire(data: Mapping[str, Any], name: str) -> ServerOffer | None:
    """Reads what `to_wire` gives, for a backend called `name`; None for what is no such thing.

    What is not known here, of a newer server, is left out; what an older one does not say is the default.
    """
    given, facets = data.get("capabilities"), data.get("facets")
    if not (isinstance(given, Mapping) and isinstance(facets, list)):
        return None
    flags = {field.name for field in fields(Capabilities)} - {"name", "pace", "backend_options"}
    known = {flag: bool(given[flag]) for flag in flags if flag in given}
    options = given.get("backend_options")
    names = tuple(map(str, options)) if isinstance(options, list) else ()
    capabilities = Capabilities(name=name, pace=_pace(given.get("pace")), backend_options=names, **known)
    return ServerOffer(capabilities, tuple(map(str, facets)))


def _pace(given: object) -> Pace:
    said = given if isinstance(given, Mapping) else {}
    names = {field.name for field in fields(Pace)}
    return Pace(**{name: float(value) for name, value in said.items() if name in names})
