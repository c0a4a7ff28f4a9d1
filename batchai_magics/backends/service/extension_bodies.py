"""Bodies of our own server's additions, in both directions: packs of files, output, run records."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base import Chunk, CommandBytes, CommandEnd, RedactedSpan, Seal, Span, WriteTime
from batchai_magics.models.response_object import ResponseObject, unreadable
from batchai_magics.models.runs.labels import Labels
from batchai_magics.records.record_checks import check_submitted

MAX_FILES, MAX_BYTES = 500, 2 << 20  # of several; with the JSON lines, they stay below 4 MiB

_MAX_LINE_BYTES = 1 << 20  # of the output of a command, of which a line has 64 KiB at most


@dataclass(frozen=True)
class PackedFile:
    """A file of a pack; `is_intact`: its bytes have the digest that was sent with them."""

    path: str
    data: bytes
    is_intact: bool


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """The body with these files, by path."""
    pieces: list[bytes] = []
    for path, data in files.items():
        header = json.dumps([path, len(data), hashlib.sha256(data).hexdigest()], ensure_ascii=False)
        pieces += [header.encode(errors="surrogatepass") + b"\n", data]
    return b"".join(pieces)


def unpack_files(body: bytes) -> Iterator[PackedFile]:
    """Parses the result of `pack_files`; ValueError for anything else."""
    start = count = 0
    while start < len(body):
        count += 1
        if count > MAX_FILES:
            raise ValueError(f"a pack has at most {MAX_FILES} files")
        end = body.find(b"\n", start)
        path, size, digest = _parse_file_line(body[start:end] if end >= 0 else b"")
        start = end + 1 + size
        data = body[end + 1 : start]
        if len(data) != size:
            raise ValueError(f"{path} has {len(data)} bytes of {size}")
        yield PackedFile(path, data, hashlib.sha256(data).hexdigest() == digest)


def _parse_file_line(line: bytes) -> tuple[str, int, str]:
    match json.loads(line.decode(errors="surrogatepass")):
        case [str(path), int(size), str(digest)] if size >= 0:
            return path, size, digest
        case _:
            raise ValueError("a file of a pack has a path, a size and a digest")


def chunk_to_wire(chunk: Chunk) -> dict[str, Any]:
    """The JSON of a chunk, with bytes in base64; what is empty is left out."""
    wire: dict[str, Any] = {
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
        wire["hidden"] = [(span.start, span.end) for span in chunk.hidden]
    if chunk.generation:
        wire["generation"] = chunk.generation
    if chunk.before:
        wire["before"] = _text(chunk.before)
    if chunk.seal:
        wire["seal"] = (chunk.seal.size_bytes, chunk.seal.sha256, chunk.seal.lost_bytes)
    return wire


def chunk_from_wire(data: Mapping[str, Any]) -> Chunk:
    """Parses the result of `chunk_to_wire`; ServiceError for anything else."""
    answer = ResponseObject.of(data, "the piece of a file")
    try:
        return Chunk(
            data=_bytes(answer.text("data")),
            offset=answer.number("offset"),
            size=answer.number("size"),
            is_complete=bool(data.get("isComplete")),
            spans=tuple(Span(*span) for span in data.get("spans", ())),
            times=tuple(WriteTime(*written) for written in data.get("times", ())),
            hidden=tuple(RedactedSpan(*span) for span in data.get("hidden", ())),
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


def output_to_lines(output: Iterable[CommandBytes | CommandEnd]) -> Iterator[bytes]:
    """The lines of a command's output, each yielded immediately."""
    for part in output:
        wire: dict[str, object] = {}
        if isinstance(part, CommandEnd):
            wire = {"exitCode": part.exit_code}
        elif part.data:
            wire = {"data": _text(part.data), "isError": part.is_error}
        yield json.dumps(wire).encode() + b"\n"


def output_from_lines(pieces: Iterable[bytes]) -> Iterator[CommandBytes | CommandEnd]:
    """Parses the result of `output_to_lines`, split arbitrarily; ServiceError for an endless line."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES:
            raise unreadable("the output of a command", f"a line of more than {_MAX_LINE_BYTES >> 20} MiB")
        for line in lines:
            data = json.loads(line or b"{}")
            if "exitCode" in data:
                yield CommandEnd(int(data["exitCode"]))
            elif line:
                yield CommandBytes(_bytes(data.get("data", "")), bool(data.get("isError")))


RECORDS_KEY = "batchaiRecords"  # beside the `properties` of a job that is created


def submitted_records(body: Mapping[str, Any]) -> dict[str, str]:
    """The record files in the body of a request that creates a job.

    Raises:
        ValueError: They are not texts by name, or not those that come with a job.
    """
    files = body.get(RECORDS_KEY, {})
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise ValueError(f"{RECORDS_KEY} must be an object with texts")
    check_submitted(files)
    return files


def labels_to_wire(labels: Mapping[str, Labels]) -> dict[str, Any]:
    """The JSON of the labels of jobs."""
    return {"value": {key: job_labels.to_json() for key, job_labels in labels.items()}}


def labels_from_wire(data: Mapping[str, Any]) -> dict[str, Labels]:
    """Reads the JSON of `labels_to_wire`; ServiceError if it has another shape."""
    value = data.get("value")
    if not isinstance(value, Mapping):
        raise unreadable("the labels of runs", "there is no value")
    return {str(key): Labels.from_json(item) for key, item in value.items()}


def files_to_wire(files: Mapping[str, bytes]) -> dict[str, str]:
    """A few small files as part of a JSON body, by their paths."""
    return {path: _text(data) for path, data in files.items()}


def files_from_wire(data: object) -> dict[str, bytes]:
    """Reads the JSON of `files_to_wire`; ValueError if it has another shape."""
    if not isinstance(data, Mapping) or not all(isinstance(text, str) for text in data.values()):
        raise ValueError("files must be an object with the base64 text of each file by its path")
    return {str(path): _bytes(text) for path, text in data.items()}
