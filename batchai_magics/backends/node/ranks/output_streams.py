"""Writes output to the job's files in whole lines; records the rank, time and secrets of its bytes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from batchai_magics.backends.node.ranks.signed_records import GrowingSeal, LogSeal
from batchai_magics.untrusted_files import opener

if TYPE_CHECKING:
    from batchai_magics.launch.plan import LogPaths


SECRET = struct.Struct("<QQ")  # a record of a `hidden` file: start, end
MIN_LENGTH = 6  # bytes; shorter values would match too much harmless output

_LOGIN = r"://(?P<login>[^\s/:@]*:(?P<password>[^\s/@]+))@"
_LINE_END = rb"[\r\n]+"


def logins(environ: Mapping[str, str]) -> Iterator[str]:
    """The passwords in the URLs of an environment, such as a proxy's, alone and as `user:password`."""
    for value in environ.values():
        if "@" in value and (match := re.search(_LOGIN, value)):
            yield from (match["password"], match["login"])


def search_patterns(values: Iterable[str]) -> tuple[bytes, ...]:
    """The patterns of values: each of their lines, also as encoded by JSON, Python, URLs and base64."""
    if not (present := list(values)):
        return ()
    from batchai_magics.models.secret_masking import encodings  # not imported by jobs without secrets

    forms = [form for value in present for form in encodings(value)]
    lines = [line.strip() for form in forms for line in re.split(_LINE_END, form)]
    return tuple(sorted({line for line in lines if len(line) >= MIN_LENGTH}))


def find_spans(data: bytes, patterns: Sequence[bytes]) -> list[tuple[int, int]]:
    """The spans (start, end) of all matches in `data`, sorted; adjacent ones are merged."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(span for form in patterns for span in _matches(form, data)):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _matches(form: bytes, data: bytes) -> Iterable[tuple[int, int]]:
    start = data.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = data.find(form, start + 1)


def partial_match_length(data: bytes, patterns: Sequence[bytes]) -> int:
    """How many bytes at the end of `data` may be the start of a match."""
    return max((_partial_length(data, form) for form in patterns), default=0)


def _partial_length(data: bytes, form: bytes) -> int:
    longest = min(len(form) - 1, len(data))
    return next((size for size in range(longest, 0, -1) if data.endswith(form[:size])), 0)


SPAN = struct.Struct("<QQq")  # a record of a `.spans` file: start, end, rank
TIME = struct.Struct("<Qd")  # a record of a `.times` file: start, time of the bytes from there on
TIME_RESOLUTION_S = 0.1  # resolution of write times
MAX_LINE = 16 << 20  # longer lines are split
LOCK_TIMEOUT_S, LOCK_POLL_S = 0.05, 0.001  # timeout and polling interval for the lock of a log
PROBE_BYTES = 4096  # written to find out whether a disk is full
IDLE_S = 0.2  # a displayable unfinished line is written this long after it began


class LastWriter:
    """The last of several writers whose output is to be merged in order."""

    def __init__(self) -> None:
        self._last: object = None

    def switch_to(self, writer: object) -> bool:
        """Sets the current writer; returns whether the last one was another."""
        has_changed, self._last = self._last is not writer, writer
        return has_changed


class LogWriter:
    """A log file with its records. Data that does not fit on the disk is queued, in order.

    Data is also queued while a process of another node holds the log's lock, since that process may be
    suspended. The spans of printed `secrets` are recorded, so that readers can redact them. `stuck_since` is
    when the next write was refused, on the monotonic clock; None while everything is written. Writers that
    share a `last_writer` record the time of each switch between them, so that their logs can be merged.
    """

    def __init__(
        self,
        log: LogPaths,
        secrets: tuple[bytes, ...] = (),
        last_writer: LastWriter | None = None,
        *,
        write: Callable[[int, bytes | memoryview], int] = os.write,
    ) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._write = write
        self._folder, _, self._name = log.path.rpartition("/")
        self._file = opener(log.path, flags)
        self.is_shared = bool(log.spans)
        self._spans = opener(log.spans, flags) if log.spans else -1
        self._times = opener(log.times, flags) if log.times else -1
        self.secrets = secrets if log.hidden else ()
        if self.secrets:
            with contextlib.suppress(FileExistsError):
                os.mkdir(log.hidden.rpartition("/")[0], mode=0o700)  # noqa: PTH102 pathlib slows each rank
        self._hidden = opener(log.hidden, flags) if self.secrets else -1
        self._recorded_s = 0.0
        self._last_writer = last_writer or LastWriter()
        self._growing_seal = GrowingSeal(log.path)
        self._queue: deque[tuple[int, bytes]] = deque()
        self._parts: deque[tuple[int, memoryview]] = deque()
        self.stuck_since: float | None = None
        self.problem: OSError | None = None
        self.lost = 0  # bytes written by processes that are given up

    def write(self, rank: int, data: bytes) -> None:
        """Appends data of a rank, which is never interleaved with other data."""
        self._queue.append((rank, data))
        if self.stuck_since is None:
            self.flush()

    def flush(self) -> None:
        """Writes queued data, as far as there is room."""
        while self._parts or self._queue:
            try:
                if not self._parts:
                    self._lock()
                    self._enqueue(*self._queue[0])
                    self._queue.popleft()
                file, data = self._parts[0]
                count = self._write(file, data)
            except OSError as error:
                self.problem = error
                if self.stuck_since is None:
                    self.stuck_since = time.monotonic()
                return
            self.stuck_since = None
            if file == self._file:
                self._growing_seal.add(data[:count])
            remaining = data[count:]
            self._parts.popleft()
            if remaining:
                self._parts.appendleft((file, remaining))
            elif not self._parts and self.is_shared:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    @property
    def failure(self) -> OSError | None:
        """Why queued data is not written: if the log is locked on a full disk, the disk."""
        if not isinstance(self.problem, BlockingIOError):
            return self.problem
        import tempfile  # few jobs need it

        try:
            with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:
                self._write(file.fileno(), bytes(PROBE_BYTES))
                os.fsync(file.fileno())
        except OSError as error:
            return error
        return self.problem

    @property
    def seal(self) -> LogSeal:
        """The seal of the log; queued data counts as lost."""
        queued = sum(len(data) for _, data in self._queue)
        started = sum(len(data) for file, data in self._parts if file == self._file)
        return self._growing_seal.seal(self.lost + queued + started)

    def close(self) -> None:
        """Closes the files; queued data is lost."""
        for file in (self._file, self._spans, self._times, self._hidden):
            if file >= 0:
                os.close(file)

    def _enqueue(self, rank: int, data: bytes) -> None:
        """Queues the parts of one write: the records that come before the data, the data, and its span."""
        start = os.lseek(self._file, 0, os.SEEK_END)
        if self._growing_seal.check_truncated(start):
            self._recorded_s = 0.0
            for file in (self._spans, self._times, self._hidden):
                if file >= 0:
                    os.ftruncate(file, 0)
        marks = [SECRET.pack(start + first, start + end) for first, end in find_spans(data, self.secrets)]
        if marks:
            self._parts.append((self._hidden, memoryview(b"".join(marks))))
        if self._times >= 0:
            now_s = time.time()
            if self._last_writer.switch_to(self) or abs(now_s - self._recorded_s) >= TIME_RESOLUTION_S:
                self._recorded_s = now_s
                self._parts.append((self._times, memoryview(TIME.pack(start, now_s))))
        self._parts.append((self._file, memoryview(data)))
        if self.is_shared:
            span = SPAN.pack(start, start + len(data), rank)
            self._parts.append((self._spans, memoryview(span)))

    def _lock(self) -> None:
        """Locks a shared log; OSError if another process holds the lock for too long."""
        deadline_s = time.monotonic() + LOCK_TIMEOUT_S
        while self.is_shared:
            try:
                return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= deadline_s:
                    text = f"another process has {self._name} locked"
                    raise BlockingIOError(error.errno, text) from None
            time.sleep(LOCK_POLL_S)


class ProcessStream:
    """An output stream of a process, split into whole lines for its log, and for its `own_log`, if any."""

    def __init__(self, writer: LogWriter, rank: int, own_log: LogWriter | None = None) -> None:
        self.writer = writer
        self._own_log = own_log
        self._rank = rank
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._due_s: float | None = None
        self.checksum = 0  # of all data, to detect equal output

    def feed(self, data: bytes) -> None:
        """Takes the process's output; passes on whole lines and buffers the rest."""
        self.checksum = zlib.crc32(data, self.checksum)
        cut = data.rfind(b"\n") + 1
        if cut:
            self._pending.append(data[:cut])
            self._flush()
        if cut < len(data):
            self._pending.append(data[cut:])
            self._pending_size += len(data) - cut
            if self._due_s is None and (not self.writer.is_shared or b"\r" in data[cut:]):
                self._due_s = time.monotonic() + IDLE_S
        if self._pending_size > MAX_LINE:
            self.finish()

    @property
    def is_stuck(self) -> bool:
        """Whether the disk has no room for the data passed on."""
        own_stuck_since = self._own_log.stuck_since if self._own_log else None
        return self.writer.stuck_since is not None or own_stuck_since is not None

    @property
    def due_s(self) -> float | None:
        """When an unfinished line is to be written, on the monotonic clock; None without one.

        It does not wait for a pause: a continuously redrawn progress bar never pauses.
        """
        return self._due_s

    def write_unfinished(self) -> None:
        """Writes a progress line, and the unfinished line of a single process."""
        line = b"".join(self._pending)
        kept_back = 0 if self.writer.is_shared else partial_match_length(line, self.writer.secrets)
        cut = line.rfind(b"\r") + 1 if self.writer.is_shared else len(line) - kept_back
        self._pending = [line[:cut]]
        self._flush()
        if cut < len(line):
            self._pending, self._pending_size = [line[cut:]], len(line) - cut

    def discard(self, count: int) -> None:
        """Counts bytes that will not be read, and an unfinished line, as lost."""
        count += sum(map(len, self._pending))
        self._pending, self._pending_size = [], 0
        for writer in filter(None, (self.writer, self._own_log)):
            writer.lost += count

    def finish(self) -> None:
        """Ends the stream; in a shared log, a newline is added to an unfinished line."""
        is_open = self._pending and not self._pending[-1].endswith((b"\n", b"\r"))
        self._flush(b"\n" if self.writer.is_shared and is_open else b"")

    def _flush(self, end: bytes = b"") -> None:
        data = b"".join(self._pending)
        self._pending, self._pending_size, self._due_s = [], 0, None
        if data and self._own_log:
            self._own_log.write(self._rank, data)
        if data:
            self.writer.write(self._rank, data + end)
