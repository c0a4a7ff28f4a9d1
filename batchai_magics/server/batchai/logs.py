"""What our own client alone asks for: a piece of a job's file, or the news of all its logs.

The published API has no words for which rank wrote what and when, nor for whether a file can still grow.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.models.ids import Kind
from batchai_magics.models.job import STDOUTERR
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.errors import refusal
from batchai_magics.server.service import Service

MOST_BYTES = 1 << 20  # of one file, in one answer


def read(service: Service, call: Call) -> Answer:
    """A piece of one file: `path`, `directoryId`, `offset` and `limit` say which."""
    service.check_subscription(call)
    body = call.json()
    file = FileRef(call.id(Kind.JOB), _text(body, "path"), _text(body, "directoryId", STDOUTERR))
    chunk = service.backend.read(file, _number(body, "offset", 0), _number(body, "limit", MOST_BYTES))
    return Answer(data=_wire(chunk))


def tail(service: Service, call: Call) -> Answer:
    """The new bytes of all logs; `positions` says how far each is known."""
    service.check_subscription(call)
    body = call.json()
    positions = body.get("positions") or {}
    if not isinstance(positions, Mapping):
        raise refusal(400, "InvalidRequestContent", "positions must be an object.")
    known = {str(path): _number(positions, path, 0) for path in positions}
    chunks = service.backend.tail(call.id(Kind.JOB), known, _number(body, "limit", MOST_BYTES))
    return Answer(data={"value": {path: _wire(chunk) for path, chunk in chunks.items()}})


def _wire(chunk: Chunk) -> dict[str, Any]:
    """A piece of a file as JSON; what is not known of it is left out."""
    known = {
        "spans": [[span.start, span.end, span.rank] for span in chunk.spans],
        "times": [[written.start, written.time] for written in chunk.times],
        "hidden": [[place.start, place.end] for place in chunk.hidden],
        "generation": chunk.generation,
        "before": base64.b64encode(chunk.before).decode(),
    }
    return {
        "offset": chunk.offset,
        "size": chunk.size,
        "isComplete": chunk.is_complete,
        "data": base64.b64encode(chunk.data).decode(),
        **{name: value for name, value in known.items() if value},
    }


def _text(body: Mapping[str, Any], name: str, default: str = "") -> str:
    value = body.get(name, default)
    if not isinstance(value, str) or not value:
        raise refusal(400, "InvalidRequestContent", f"{name} must be a text.")
    return value


def _number(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise refusal(400, "InvalidRequestContent", f"{name} must be a whole number of at least 0.")
    return min(value, MOST_BYTES) if name == "limit" else value
