"""Several small files in one body, in both directions: for each, a line of JSON and its bytes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAX_FILES, MAX_BYTES = 500, 2 << 20  # of content; with the JSON lines, a pack stays below 4 MiB


@dataclass(frozen=True)
class PackedFile:
    """A file of a pack; `is_intact`: its bytes have the digest that was sent with them."""

    path: str
    data: bytes
    is_intact: bool


def to_bytes(files: Mapping[str, bytes]) -> bytes:
    """The body with these files, by path."""
    return b"".join(piece for path, data in files.items() for piece in (_line(path, data), data))


def from_bytes(body: bytes) -> Iterator[PackedFile]:
    """Parses the result of `to_bytes`; ValueError for anything else."""
    start = count = 0
    while start < len(body):
        count += 1
        if count > MAX_FILES:
            raise ValueError(f"a pack has at most {MAX_FILES} files")
        end = body.find(b"\n", start)
        path, size, digest = _parse_line(body[start:end] if end >= 0 else b"")
        start = end + 1 + size
        data = body[end + 1 : start]
        if len(data) != size:
            raise ValueError(f"{path} has {len(data)} bytes of {size}")
        yield PackedFile(path, data, hashlib.sha256(data).hexdigest() == digest)


def to_json(files: Mapping[str, bytes]) -> dict[str, str]:
    """A few small files as part of a JSON body, by their paths."""
    return {path: base64.b64encode(data).decode() for path, data in files.items()}


def from_json(data: object) -> dict[str, bytes]:
    """Reads what `to_json` gives; ValueError if it is malformed."""
    if not isinstance(data, Mapping) or not all(isinstance(text, str) for text in data.values()):
        raise ValueError("files must be an object with the base64 text of each file by its path")
    return {str(path): base64.b64decode(text, validate=True) for path, text in data.items()}


def _line(path: str, data: bytes) -> bytes:
    header = [path, len(data), hashlib.sha256(data).hexdigest()]
    return json.dumps(header, ensure_ascii=False).encode(errors="surrogatepass") + b"\n"


def _parse_line(line: bytes) -> tuple[str, int, str]:
    match json.loads(line.decode(errors="surrogatepass")):
        case [str(path), int(size), str(digest)] if size >= 0:
            return path, size, digest
        case _:
            raise ValueError("a file of a pack has a path, a size and a digest")
