"""A piece of a job's file as JSON, both ways; what is not known of it is left out."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from batchai_magics.backends.base import Chunk, RedactedSpan, Seal, Span, WriteTime
from batchai_magics.models.answer import Answer, unreadable


def to_wire(chunk: Chunk) -> dict[str, Any]:
    """The JSON of a piece."""
    seal = chunk.seal
    known = {
        "spans": [[span.start, span.end, span.rank] for span in chunk.spans],
        "times": [[written.start, written.time] for written in chunk.times],
        "hidden": [[place.start, place.end] for place in chunk.hidden],
        "generation": chunk.generation,
        "before": _text(chunk.before),
        "seal": [seal.size_bytes, seal.sha256, seal.lost_bytes] if seal else [],
    }
    return {
        "offset": chunk.offset,
        "size": chunk.size,
        "isComplete": chunk.is_complete,
        "data": _text(chunk.data),
        **{name: value for name, value in known.items() if value},
    }


def from_wire(data: Mapping[str, Any]) -> Chunk:
    """Reads what `to_wire` gives; a ServiceError that names what cannot be read."""
    answer = Answer.of(data, "the piece of a file")
    try:
        return Chunk(
            data=_bytes(answer.text("data")),
            offset=answer.number("offset"),
            size=answer.number("size"),
            is_complete=bool(data.get("isComplete")),
            spans=tuple(Span(*span) for span in data.get("spans", ())),
            times=tuple(WriteTime(*written) for written in data.get("times", ())),
            hidden=tuple(RedactedSpan(*place) for place in data.get("hidden", ())),
            generation=answer.text("generation", ""),
            before=_bytes(answer.text("before", "")),
            seal=Seal(*data["seal"]) if data.get("seal") else None,
        )
    except (TypeError, binascii.Error) as error:
        raise unreadable(answer.path, str(error)) from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
