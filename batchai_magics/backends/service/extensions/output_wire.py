"""File chunks and the output of commands on nodes, as JSON in both directions."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

from batchai_magics.backends.base import Chunk, CommandBytes, CommandEnd, RedactedSpan, Seal, Span, WriteTime
from batchai_magics.models.response_object import ResponseObject, unreadable


class _Annotations(TypedDict, total=False):
    spans: list[tuple[int, int, int]]  # start, end, rank
    times: list[tuple[int, float]]  # start, seconds since 1970
    hidden: list[tuple[int, int]]  # start, end
    generation: str
    before: str  # base64
    seal: tuple[int, str, int]  # bytes, SHA-256, lost bytes


class ChunkWire(_Annotations):
    """The JSON of a chunk; what is empty is left out."""

    offset: int
    size: int
    isComplete: bool
    data: str  # base64


def to_wire(chunk: Chunk) -> ChunkWire:
    """The JSON of a chunk."""
    wire: ChunkWire = {
        "offset": chunk.offset,
        "size": chunk.size,
        "isComplete": chunk.is_complete,
        "data": _text(chunk.data),
    }
    if chunk.spans:
        wire["spans"] = [(span.start, span.end, span.rank) for span in chunk.spans]
    if chunk.times:
        wire["times"] = [(written.start, written.time) for written in chunk.times]
    if chunk.hidden:
        wire["hidden"] = [(place.start, place.end) for place in chunk.hidden]
    if chunk.generation:
        wire["generation"] = chunk.generation
    if chunk.before:
        wire["before"] = _text(chunk.before)
    if chunk.seal:
        wire["seal"] = (chunk.seal.size_bytes, chunk.seal.sha256, chunk.seal.lost_bytes)
    return wire


def from_wire(data: Mapping[str, Any]) -> Chunk:
    """Parses the result of `to_wire`; ServiceError for anything else."""
    answer = ResponseObject.of(data, "the piece of a file")
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


def to_lines(output: Iterable[CommandBytes | CommandEnd]) -> Iterator[bytes]:
    """The lines of a command's output, each yielded immediately."""
    for part in output:
        yield json.dumps(_wire(part)).encode() + b"\n"


def from_lines(pieces: Iterable[bytes]) -> Iterator[CommandBytes | CommandEnd]:
    """Parses the result of `to_lines`, split arbitrarily."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield from _part(line)


def _wire(part: CommandBytes | CommandEnd) -> dict[str, object]:
    if isinstance(part, CommandEnd):
        return {"exitCode": part.exit_code}
    if not part.data:
        return {}
    return {"data": base64.b64encode(part.data).decode(), "isError": part.is_error}


def _part(line: bytes) -> Iterator[CommandBytes | CommandEnd]:
    data = json.loads(line or b"{}")
    if "exitCode" in data:
        yield CommandEnd(int(data["exitCode"]))
    elif line:
        yield CommandBytes(base64.b64decode(data.get("data", "")), bool(data.get("isError")))
