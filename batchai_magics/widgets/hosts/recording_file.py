"""The file of a recording: gzip of JSON lines, written whole or not at all.

The first line is the header. Each other line has `t`, the seconds since the start, and a `state` (parts by
name), or the `content` of a message with its `buffers` (base64), or a `content` that answers later
requests of the kind `reply`.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from batchai_magics.errors import StorageError, UsageError
from batchai_magics.models.secret_masking import SecretMask
from batchai_magics.untrusted_files import open_file, parse_json, read_file
from batchai_magics.widgets.core.view_stream import Batch, PageData

FORMAT = "batchai-recording"
VERSION = 2
MAX_BYTES = 32 << 20  # of JSON; after that, only states are recorded
MAX_FILE_BYTES = 256 << 20
_HEADER_BYTES = 1 << 16

Clock = Callable[[], float]


class RecordingFile:
    """Writes a recording under a temporary name beside `path`; `close` renames it."""

    def __init__(self, path: Path, header: PageData, *, mask: SecretMask, clock: Clock = time.time) -> None:
        self.path = path
        self.size_bytes = 0
        self.failure: OSError | None = None  # such as of a full disk; nothing is written after it
        self._mask = mask
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()  # the publisher's thread writes, and the one that closes it
        try:
            handle, self._part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
            self._raw = os.fdopen(handle, "wb")
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror}") from error
        self._file = gzip.GzipFile(fileobj=self._raw, mode="wb", filename="", mtime=0)
        self._write({"format": FORMAT, "version": VERSION, "started": int(self._started * 1000), **header})

    def add_state(self, state: PageData) -> None:
        """Records parts of the state."""
        self._add({"state": self._mask.data(state)})

    def add_message(self, message: Batch) -> None:
        """Records a message, unless the file is too large."""
        if self.size_bytes > MAX_BYTES:
            return
        buffers = [base64.b64encode(data).decode() for data in message.buffers]
        self._add({"content": self._mask.data(message.content), "buffers": buffers})

    def add_reply(self, kind: str, reply: Batch) -> None:
        """Records the answer to later requests of a kind."""
        self._add({"reply": kind, "content": self._mask.data(reply.content)})

    def close(self) -> None:
        """Completes the file and renames it to `path`."""
        try:
            if self.failure:
                raise self.failure
            with self._lock:
                self._file.close()
            self._raw.close()
            Path(self._part).replace(self.path)
        except OSError as error:
            self.discard()
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error

    def discard(self) -> None:
        """Drops what was written."""
        with self._lock, contextlib.suppress(OSError):  # the rest cannot be written either
            self._file.close()
        with contextlib.suppress(OSError):
            self._raw.close()
        Path(self._part).unlink(missing_ok=True)

    def _add(self, entry: PageData) -> None:
        self._write({"t": round(self._clock() - self._started, 2), **entry})

    def _write(self, entry: PageData) -> None:
        line = json.dumps(entry, separators=(",", ":"), default=float).encode() + b"\n"
        with self._lock:
            if self._file.closed or self.failure:
                return
            self.size_bytes += len(line)
            try:
                self._file.write(line)
            except OSError as error:
                self.failure = error


def read_recording(path: Path) -> bytes:
    """The content of a recording; raises like `check_recording`."""
    try:
        return read_file(path, MAX_FILE_BYTES, may_be_link=True)
    except ValueError as error:
        raise UsageError(f"{path} is not a recording: {error}") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def check_recording(path: Path) -> PageData:
    """The header of a recording.

    Raises:
        StorageError: The file cannot be read.
        UsageError: It is no recording, or one of another version.
    """
    try:
        with open_file(path, may_be_link=True) as stream, gzip.open(stream) as file:
            header = parse_json(file.readline(_HEADER_BYTES))
    except (gzip.BadGzipFile, zlib.error, EOFError, ValueError):
        header = None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise UsageError(f"{path} is not a recording of a job")
    if header.get("version") != VERSION:
        raise UsageError(
            f"{path} is a recording of version {header.get('version')}, not {VERSION}",
            hint="open it with the version of batchai_magics that made it",
        )
    if not isinstance(header.get("name"), str):
        raise UsageError(f"{path} is a damaged recording: its header has no name of a job")
    return header
