"""Reads files that a job, a user or a repository can replace, and their JSON. Standard library only.

Only regular files are opened, and never waited for: a pipe that nobody writes to would block whoever reads
it. Content is limited in size, JSON in depth too, and to text that can be encoded: whoever shows or sends
what is in a file could fail otherwise, and with it everybody else's files beside it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO, cast

MAX_BYTES = 4 << 20  # of a record
MAX_PLAN_BYTES = 256 << 20  # of a plan, which grows with its nodes
MAX_DEPTH = 64  # of JSON
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_REPLACED = (errno.ENXIO, errno.ELOOP, errno.ENODEV, errno.EISDIR)  # by a socket, a link, a device, a folder
_SURROGATE = r"\\u[dD]"


class NotRegularError(OSError):
    """What is read is a pipe, a link, a folder, a socket or a device, but not a regular file."""

    def __init__(self, path: Path | str, mode: int) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))
        self.mode = mode


def open_file(path: Path | str, *, may_be_link: bool = False) -> BinaryIO:
    """Opens a regular file for reading, without a buffer; NotRegularError for anything else."""
    if opened := getattr(path, "open_regular", None):  # on another machine, which opens it likewise
        return cast("BinaryIO", opened())
    mode = os.stat(path, follow_symlinks=may_be_link).st_mode  # noqa: PTH116 pathlib slows each rank
    if not stat.S_ISREG(mode):
        raise NotRegularError(path, mode)
    try:
        descriptor = os.open(path, _FLAGS | (0 if may_be_link else _NO_FOLLOW))
    except OSError as error:
        if error.errno in _REPLACED:
            raise NotRegularError(path, 0) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotRegularError(path, mode)
    return os.fdopen(descriptor, "rb", buffering=0)


def opener(path: str, flags: int) -> int:
    """For `open(…, opener=opener)`: opens a private file to write to; NotRegularError for anything else."""
    try:
        descriptor = os.open(path, flags | _FLAGS, 0o600)
    except OSError as error:
        if error.errno in _REPLACED:
            raise NotRegularError(path, 0) from None
        raise
    if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularError(path, mode)
    return descriptor


def read_file(path: Path | str, max_bytes: int = MAX_BYTES, *, may_be_link: bool = False) -> bytes:
    """The content of a regular file; ValueError if it is larger than `max_bytes`."""
    with open_file(path, may_be_link=may_be_link) as file:
        data = read_start(file, max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"it is larger than {max_bytes} bytes")
    return data


def read_start(file: BinaryIO, max_bytes: int) -> bytes:
    """The next bytes of an open file, at most so many."""
    pieces = []
    while max_bytes > 0 and (piece := file.read(min(max_bytes, 1 << 20))):
        pieces.append(piece)
        max_bytes -= len(piece)
    return b"".join(pieces)


def read_text(path: Path | str, max_bytes: int = MAX_BYTES, *, errors: str = "strict") -> str:
    """The text in a regular file, in UTF-8."""
    return read_file(path, max_bytes).decode("utf-8", errors)


def tail_of(path: Path | str, max_bytes: int = MAX_BYTES) -> str:
    """The end of the text in a regular file, such as the log of a program."""
    with open_file(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - max_bytes))
        return read_start(file, max_bytes).decode("utf-8", "replace")


def read_json(path: Path | str, max_bytes: int = MAX_BYTES) -> Any:
    """The JSON in a regular file; raises like `read_file` and `parse_json`."""
    return parse_json(read_file(path, max_bytes))


def parse_json(text: str | bytes) -> Any:
    """The value of JSON.

    Raises:
        ValueError: It is malformed or nested too deeply, or has a text that cannot be encoded.
    """
    given = text if isinstance(text, str) else text.decode()
    try:
        value = json.loads(given)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if given.count("[") + given.count("{") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise ValueError("it is nested too deeply")
    if re.search(_SURROGATE, given) or not (isinstance(text, bytes) or given.isascii()):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it has a text that cannot be encoded") from None
    return value


def _depth_exceeds(value: object, limit: int) -> bool:
    """Whether arrays and objects are nested more than `limit` deep."""
    level: list[object] = [value]
    for _ in range(limit + 1):
        level = [inner for each in level for inner in _contents(each)]
        if not level:
            return False
    return True


def _contents(value: object) -> list[object]:
    """What an array or object has; a number or text has nothing."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
