"""Output on its way to the job's files: in whole lines, with records of who wrote what, when, and secrets."""

from __future__ import annotations

import fcntl
import os
import struct
import time
import zlib
from collections import deque
from typing import TYPE_CHECKING

from batchai_magics.backends.node.ranks.log_seals import GrowingSeal, LogSeal
from batchai_magics.backends.node.ranks.printed_secrets import PLACE, find_spans, partial_match_length

if TYPE_CHECKING:
    from batchai_magics.launch.plan import LogFile


SPAN = struct.Struct("<QQq")  # start, end, rank: one record of a `.spans` file
STAMP = struct.Struct("<Qd")  # start, time: one of a `.times` file, of what stands from there on
STAMP_S = 0.1  # so exact they are
LONGEST_LINE = 16 << 20  # a longer one is cut, with a line end put in
LOCK_S, LOCK_PAUSE_S = 0.05, 0.001  # how long, and how often, the lock of a log is tried before others go on
IDLE_S = 0.2  # an unfinished line that can be shown is shown so long after it has begun


class Turns:
    """Whose turn it is among writers that take turns."""

    def __init__(self) -> None:
        self._last: object = None

    def pass_to(self, writer: object) -> bool:
        """Takes note of who writes; whether somebody else has written since it did."""
        is_other, self._last = self._last is not writer, writer
        return is_other


class LogWriter:
    """A log file with its records. What the disk has no room for waits, in order, until it has.

    So does what comes while a process of another node keeps the log locked: stopped, it may do so for ever.
    Where one of `secrets` is printed is noted, to be hidden by who shows the file. `stuck_since` is when what
    is next was refused, by the monotonic clock; None while all is written. Writers that share `turns`
    note the time of each change from one to the other, so that their logs can be read as one.
    """

    def __init__(self, log: LogFile, secrets: tuple[bytes, ...] = (), turns: Turns | None = None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._name = log.path.rpartition("/")[2]
        self._file = os.open(log.path, flags, 0o600)
        self.is_shared = bool(log.spans)
        self._spans = os.open(log.spans, flags, 0o600) if log.spans else -1
        self._times = os.open(log.times, flags, 0o600) if log.times else -1
        self.secrets = secrets if log.hidden else ()
        self._hidden = os.open(log.hidden, flags, 0o600) if self.secrets else -1
        self._stamped_s = 0.0
        self._turns = turns or Turns()
        self._seen = GrowingSeal(log.path)
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._parts: deque[tuple[int, memoryview]] = deque()
        self.stuck_since: float | None = None
        self.problem: OSError | None = None
        self.lost = 0  # bytes that processes wrote, and that nobody waits for any more

    def write(self, rank: int, data: bytes) -> None:
        """Appends what a rank has written; nobody else's comes into the middle of it."""
        self._waiting.append((rank, data))
        if self.stuck_since is None:
            self.flush()

    def flush(self) -> None:
        """Writes what waits, as far as there is room."""
        while self._parts or self._waiting:
            try:
                if not self._parts:
                    self._lock()
                    self._begin(*self._waiting[0])
                    self._waiting.popleft()
                file, data = self._parts[0]
                count = os.write(file, data)
            except OSError as error:
                self.problem = error
                if self.stuck_since is None:
                    self.stuck_since = time.monotonic()
                return
            self.stuck_since = None
            if file == self._file:
                self._seen.add(data[:count])
            self._advance(data[count:])

    @property
    def seal(self) -> LogSeal:
        """The log as it is now; what still waits counts as lost."""
        waiting = sum(len(data) for _, data in self._waiting)
        begun = sum(len(data) for file, data in self._parts if file == self._file)
        return self._seen.seal(self.lost + waiting + begun)

    def close(self) -> None:
        """Lets go of the files; what still waits is lost."""
        for file in (self._file, self._spans, self._times, self._hidden):
            if file >= 0:
                os.close(file)

    def _begin(self, rank: int, data: bytes) -> None:
        """Makes ready what belongs together: what has to be known before the data, the data, its span."""
        start = os.lseek(self._file, 0, os.SEEK_END)
        if self._seen.is_cut_at(start):
            self._forget_records()
        self._mark_secrets(start, data)
        if self._times >= 0:
            self._stamp(start)
        self._parts.append((self._file, memoryview(data)))
        if self.is_shared:
            span = SPAN.pack(start, start + len(data), rank)
            self._parts.append((self._spans, memoryview(span)))

    def _lock(self) -> None:
        """Has a shared log for this writer alone; OSError when another has it for longer than a moment."""
        deadline_s = time.monotonic() + LOCK_S
        while self.is_shared:
            try:
                return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= deadline_s:
                    text = f"another process has {self._name} locked"
                    raise BlockingIOError(error.errno, text) from None
            time.sleep(LOCK_PAUSE_S)

    def _mark_secrets(self, start: int, data: bytes) -> None:
        marks = [PLACE.pack(start + first, start + end) for first, end in find_spans(data, self.secrets)]
        if marks:
            self._parts.append((self._hidden, memoryview(b"".join(marks))))

    def _stamp(self, start: int) -> None:
        now_s = time.time()
        if self._turns.pass_to(self) or abs(now_s - self._stamped_s) >= STAMP_S:
            self._stamped_s = now_s
            self._parts.append((self._times, memoryview(STAMP.pack(start, now_s))))

    def _forget_records(self) -> None:
        """The log was cut: what is known of who wrote what, and when, is of bytes that are gone."""
        self._stamped_s = 0.0
        for file in (self._spans, self._times, self._hidden):
            if file >= 0:
                os.ftruncate(file, 0)

    def _advance(self, rest: memoryview) -> None:
        file, _ = self._parts.popleft()
        if rest:
            self._parts.appendleft((file, rest))
        elif not self._parts and self.is_shared:
            fcntl.flock(self._file, fcntl.LOCK_UN)


class Stream:
    """One output stream of a process, cut into whole lines for its file, and for its `own` one, if any."""

    def __init__(self, writer: LogWriter, rank: int, own: LogWriter | None = None) -> None:
        self.writer = writer
        self._own = own
        self._rank = rank
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._due_s: float | None = None
        self.checksum = 0  # of all that came, by which equal output is told

    def feed(self, data: bytes) -> None:
        """Takes what the process wrote; passes on whole lines and keeps the rest."""
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
        if self._pending_size > LONGEST_LINE:
            self.finish()

    @property
    def is_stuck(self) -> bool:
        """Whether the disk has no room for what it has passed on."""
        own = self._own.stuck_since if self._own else None
        return self.writer.stuck_since is not None or own is not None

    @property
    def due_s(self) -> float | None:
        """When an unfinished line is to be shown, by the monotonic clock; None when there is none to show.

        It does not wait for a pause: a bar that is drawn again and again has none.
        """
        return self._due_s

    def show(self) -> None:
        """Shows a progress line, and a lone process's unfinished line too."""
        rest = b"".join(self._pending)
        held = 0 if self.writer.is_shared else partial_match_length(rest, self.writer.secrets)
        cut = rest.rfind(b"\r") + 1 if self.writer.is_shared else len(rest) - held
        self._pending = [rest[:cut]]
        self._flush()
        if cut < len(rest):
            self._pending, self._pending_size = [rest[cut:]], len(rest) - cut

    def lose(self, count: int) -> None:
        """So many bytes more will not be waited for, besides those of an unfinished line."""
        count += sum(map(len, self._pending))
        self._pending, self._pending_size = [], 0
        for writer in filter(None, (self.writer, self._own)):
            writer.lost += count

    def finish(self) -> None:
        """No more will come: an unfinished line is ended where another rank's would be glued to it."""
        is_open = self._pending and not self._pending[-1].endswith((b"\n", b"\r"))
        self._flush(b"\n" if self.writer.is_shared and is_open else b"")

    def _flush(self, end: bytes = b"") -> None:
        data = b"".join(self._pending)
        self._pending, self._pending_size, self._due_s = [], 0, None
        if data and self._own:
            self._own.write(self._rank, data)
        if data:
            self.writer.write(self._rank, data + end)
