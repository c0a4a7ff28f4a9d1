"""What a command on a node writes, as lines of JSON, both ways; an empty object is a sign of life."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator

from batchai_magics.backends.base import CommandBytes, CommandEnd


def to_lines(output: Iterable[CommandBytes | CommandEnd]) -> Iterator[bytes]:
    """The lines of a command's output, each as soon as there is something."""
    for part in output:
        yield json.dumps(_wire(part)).encode() + b"\n"


def from_lines(pieces: Iterable[bytes]) -> Iterator[CommandBytes | CommandEnd]:
    """Reads what `to_lines` gives, cut anywhere."""
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
