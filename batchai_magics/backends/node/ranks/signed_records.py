"""Small files with a checksum: the exit records of ranks, and the seals of a job's logs."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import zlib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from batchai_magics.launch.plan import ProcessExit, from_json_types
from batchai_magics.untrusted_files import open_file, parse_json, read_file

if TYPE_CHECKING:
    import hashlib


class SignedRecord:
    """A file for one value, blank until it is written; its disk space is reserved in advance.

    A value that needs more than `room` bytes gets a multiple of it.
    """

    def __init__(self, path: str, *, room: int) -> None:
        self._room = room
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._put(b"")

    def write(self, value: object) -> bool:
        """Overwrites the record in place with a JSON value; returns whether there was room."""
        body = json.dumps(value).encode()
        return self._put(_digest(body) + b" " + body)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def _put(self, text: bytes) -> bool:
        data = text.ljust(-(-max(1, len(text)) // self._room) * self._room)
        try:
            return os.pwrite(self._file, data, 0) == len(data)
        except OSError:
            return False


def read(file: Path) -> object:
    """The value in a record; None if it is blank or incomplete."""
    digest, _, body = read_file(file).strip().partition(b" ")
    return parse_json(body) if body and digest == _digest(body) else None


def _digest(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body)


ROOM = 512  # size of a record in bytes


def exit_record(folder: str, rank: int) -> SignedRecord:
    """The record for the `ProcessExit` of a process, opened before its start."""
    path = os.path.join(folder, str(rank))  # noqa: PTH118 pathlib slows the start of a lone rank
    return SignedRecord(path, room=ROOM)


def exits_in(folder: Path) -> list[ProcessExit]:
    """The complete records in a folder: one for each process that has ended."""
    exits: list[ProcessExit] = []
    for file in folder.iterdir():
        with contextlib.suppress(OSError, ValueError):  # incomplete, or another program has replaced it
            exits.append(from_json_types(ProcessExit, read(file), file.name))
    return exits


SEAL_ROOM = 1 << 12


class LogSeal(NamedTuple):
    """The size and digest of a complete log."""

    size: int
    sha256: str
    lost: int = 0  # bytes that could not be written


def seal_record(path: Path) -> SignedRecord:
    """The record for the seals of all logs of a job, by file name; opened before its processes start."""
    return SignedRecord(str(path), room=SEAL_ROOM)


def seals_in(path: Path) -> dict[str, LogSeal] | None:
    """The seals of a job's logs by file name; empty if their end was not observed, None without a record."""
    try:
        seals = read(path)
        if isinstance(seals, dict):
            return {
                name: LogSeal(int(size), str(sha256), *map(int, lost))
                for name, (size, sha256, *lost) in seals.items()
            }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):  # another program has replaced it
        return {}
    return {}


SMALL_LOG_BYTES = 1 << 17


class GrowingSeal:
    """The seal of a log being written; its digest is computed on the way unless others write to it.

    A small log is buffered, and hashed at its end without OpenSSL, whose loading would take longer.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._head = bytearray()  # what comes before the digest
        self._digest: hashlib._Hash | None = None
        self._size = 0
        self._is_sole_writer = True

    def check_truncated(self, start: int) -> bool:
        """Compares the log's end with the written size; returns whether the log was truncated."""
        self._is_sole_writer &= start == self._size
        is_truncated, self._size = start < self._size, start
        return is_truncated

    def add(self, data: memoryview | bytes) -> None:
        """Adds appended bytes to the size and digest."""
        self._size += len(data)
        if not self._is_sole_writer:
            return
        if self._digest is None and len(self._head) + len(data) <= SMALL_LOG_BYTES:
            self._head += data
            return
        if self._digest is None:
            import hashlib  # loads OpenSSL

            self._digest = hashlib.sha256(self._head)
            self._head.clear()
        self._digest.update(data)

    def seal(self, lost: int) -> LogSeal:
        """The seal of the complete log, which is read again if others have written to it."""
        if not self._is_sole_writer:
            with contextlib.suppress(OSError):  # it was deleted or replaced: what was written is lost
                return seal_of(Path(self._path))._replace(lost=lost)
        digest = self._digest or _small_sha256(self._head)
        return LogSeal(self._size, digest.hexdigest(), lost)


def _small_sha256(data: bytearray) -> hashlib._Hash:
    """The digest by Python's own implementation, as in `random`: slower than OpenSSL's, but loaded faster."""
    try:
        module = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:  # Python was built without it
        module = import_module("hashlib")
    digest: hashlib._Hash = module.sha256(data)
    return digest


def seals_of_logs(folder: Path) -> dict[str, LogSeal]:
    """The seals of all logs in a folder, by file name; nothing may write to them any more."""
    logs = [file for file in folder.glob("std*.txt") if file.is_file() and not file.is_symlink()]
    return {file.name: seal_of(file) for file in logs}


def seal_of(file: Path) -> LogSeal:
    """The seal of a log, read completely."""
    growing = GrowingSeal(str(file))
    with open_file(file) as stream:
        while data := stream.read(1 << 20):
            growing.add(data)
    return growing.seal(lost=0)
