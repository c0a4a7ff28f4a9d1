"""The logs of jobs, read while they grow: ranged requests to the blobs that run history names.

A watched job costs at most `requests_per_s` requests a second, regardless of its number of processes, and
each byte is read once. All readers in this process share the cache.
"""

from __future__ import annotations

import threading
import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from batchai_magics.backends.azureml.connection import EXPIRED
from batchai_magics.backends.azureml.run_details import RankLog, RunDetails, other_logs, rank_logs
from batchai_magics.backends.azureml.ttl_cache import TtlCache
from batchai_magics.backends.base import Chunk, Span, WriteTime
from batchai_magics.backends.base.file_chunks import BEFORE_BYTES
from batchai_magics.errors import StorageError
from batchai_magics.models.job_execution import OUT

if TYPE_CHECKING:
    from batchai_magics.backends.azureml.connection import BlobRange, Connection
    from batchai_magics.backends.azureml.jobs import Jobs
    from batchai_magics.models.resource_ids import ResourceId


@dataclass(frozen=True)
class ReadIntervals:
    """How often the service is queried about a job, in seconds unless named otherwise."""

    requests_per_s: float = 0.6  # for a watched job's logs; its state takes the rest of one request a second
    log: tuple[float, float] = (1.0, 10.0)  # between two requests for one log, at least and at most
    listing: tuple[float, float] = (3.0, 30.0)  # between two lists of the logs
    unfinished_line: float = 3.0  # how long to wait for the end of a line
    telemetry: float = 5.0  # between two reads for a running job: its logs come first
    open_job: float = 4.0  # cache TTL
    ended_job: float = 60.0
    cluster: float = 10.0


INTERVALS = ReadIntervals()
_BURST = 3.0  # requests that may be sent at once after a pause
_PIECE_BYTES = 8 << 20  # of one request
_BACKOFF = 1.5  # of an interval, without a change
_LONE_PATHS = ("stdout-0.txt", "stdout-wk-0.txt")  # tutorials stream these, also of a single process
_MAX_JOBS = 256  # whose journals are kept
CACHE_BYTES = 4 << 20  # of the end of the common log, for other readers of the job
_MAX_HELD = 1 << 16  # bytes of an unfinished line


class JobLogs:
    """The logs of jobs, shared by all their readers."""

    def __init__(
        self,
        connection: Connection,
        jobs: Jobs,
        *,
        clock: Callable[[], float] = time.monotonic,
        intervals: ReadIntervals = INTERVALS,
    ) -> None:
        self._connection, self._jobs, self.clock, self.intervals = connection, jobs, clock, intervals
        self._watched = TtlCache[WatchedLogs](lambda _: inf, max_size=_MAX_JOBS)

    def watched(self, job: ResourceId) -> WatchedLogs:
        """The shared logs of a job; raises NotFoundError if the job does not exist."""
        run = self._jobs.run_of(job)  # changes when the job is deleted and created again
        new_logs = partial(WatchedLogs, self._connection, self._jobs, run, self.intervals, clock=self.clock)
        return self._watched.get(run, new_logs)


class RequestBudget:
    """A token bucket; requests sent without tokens are a debt of at most one burst."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._tokens, self._counted_at = burst, clock()

    @property
    def allows_request(self) -> bool:
        """Whether a request may be sent now."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._rate)
        self._counted_at = now
        return self._tokens >= 1

    def spend(self) -> None:
        """Counts a request."""
        self._tokens = max(self._tokens - 1, -self._burst)


class Schedule:
    """When something is due: soon after a change, ever later without one."""

    def __init__(self, shortest_s: float, longest_s: float) -> None:
        self._shortest_s, self._longest_s = shortest_s, longest_s
        self._delay_s = shortest_s
        self.due_at = 0.0
        self.changed_at: float | None = None  # the last change, or the first check

    def note(self, now: float, *, has_changed: bool) -> None:
        """Sets the next time."""
        delay_s = self._shortest_s if has_changed else min(self._longest_s, self._delay_s * _BACKOFF)
        self._delay_s = delay_s
        self.due_at = now + delay_s
        if has_changed or self.changed_at is None:
            self.changed_at = now

    def is_quiet(self, now: float, span_s: float) -> bool:
        """Whether nothing has changed for that long."""
        return self.changed_at is not None and now - self.changed_at >= span_s


class WatchedLogs:
    """The logs of the run of one job. Thread-safe: readers of one job wait for each other.

    `has_ended` is whether the job is known to have ended: its files do not grow any more.
    """

    def __init__(
        self,
        connection: Connection,
        jobs: Jobs,
        run: str,
        intervals: ReadIntervals,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._connection, self._jobs, self.run, self._clock = connection, jobs, run, clock
        self._intervals = intervals
        self._lock = threading.RLock()
        self._budget = RequestBudget(intervals.requests_per_s, _BURST, clock)
        self._listing = Schedule(*intervals.listing)
        self._details = RunDetails("NotStarted")
        self._logs: list[RankLog] = []
        self._journals = {OUT: LogJournal()}
        self._schedules: dict[str, Schedule] = {}
        self._drained: set[str] = set()
        self.has_ended = self._is_listed_since_end = self._is_complete = False

    def tail(self, positions: Mapping[str, int], limit: int) -> Mapping[str, Chunk]:
        """The new bytes of the common log, of mpirun's log and of logs that the job's commands write."""
        with self._lock:
            self._advance(positions.get(OUT, 0), limit)
            chunks = {}
            for path, journal in self._journals.items():
                position = positions.get(path, 0)
                chunk = self._chunk(path, 0 if position > journal.end else position, limit)
                if chunk.data or chunk.offset != position:
                    chunks[path] = chunk
            return chunks

    def read(self, path: str, offset: int, limit: int) -> Chunk:
        """Some bytes of a file in the directory `stdouterr`."""
        with self._lock:
            if path != OUT:
                self.details()
                start, data = 0, b""
                for name in self.names_of(path):
                    blob = self._range(name, max(0, offset - start), max(1, limit - len(data)))
                    if blob is None:
                        continue
                    if offset + len(data) < start + blob.size and len(data) < limit:
                        data += blob.data[: limit - len(data)]
                    start += blob.size
                return Chunk(data, min(offset, start), start, self._is_complete or self.has_ended)
            self._advance(offset, limit)
            return self._chunk(OUT, offset, limit)

    def details(self) -> RunDetails:
        """The details of the run: current once the job has ended, else as last read for its logs.

        Run history may learn of the end later than the job.
        """
        with self._lock:
            is_due = self._listing.due_at <= self._clock()
            is_current = self._is_listed_since_end and (self._details.ended is not None or not is_due)
            if (self.has_ended or is_due) and not is_current:
                self._list()
            return self._details

    @property
    def allows_request(self) -> bool:
        """Whether a file of a running job may be read now."""
        return self._budget.allows_request

    def blob(self, name: str, limit: int = 1, *, offset: int = 0) -> BlobRange | None:
        """A range of a file of the service, by default its beginning; None if the file does not exist."""
        with self._lock:
            return self._range(name, offset, limit) if name in self.details().log_files else None

    def _advance(self, position: int, limit: int) -> None:
        """Reads further into the journal, as far as the budget allows; logs of ended jobs to their end."""
        while not self._is_complete and self._journals[OUT].end <= position + limit:
            if not (self._drain_next() if self.has_ended else self._read_next()):
                return

    def _read_next(self) -> bool:
        """Sends the next due request; False if none is due or the budget is used up."""
        now = self._clock()
        if not self._budget.allows_request:
            return False
        if self._listing.due_at <= now:
            return self._list()
        due = [log for log in self._logs if self._schedules[log.name].due_at <= now]
        if not due:
            return False
        self._fetch(min(due, key=lambda log: self._schedules[log.name].due_at))
        return True

    def _drain_next(self) -> bool:
        """Reads the next bytes of a log that was not read to its end since the job ended; returns True."""
        if not self._is_listed_since_end:
            return self._list()
        unread = next((log for log in self._logs if log.name not in self._drained), None)
        if unread:
            self._fetch(unread)
        else:
            for journal in self._journals.values():
                journal.finish()
            self._is_complete = True
        return True

    def _list(self) -> bool:
        """Requests the list of logs from run history; returns True."""
        self._budget.spend()
        had_ended = self.has_ended
        details = self._jobs.details(self.run)
        self.has_ended |= details.is_final
        self._is_listed_since_end = had_ended or details.is_final
        self._details = details
        logs = [*rank_logs(details.log_files), *other_logs(details.log_files)]
        self._listing.note(self._clock(), has_changed=logs != self._logs)
        self._logs = logs
        for log in logs:
            self._schedules.setdefault(log.name, Schedule(*self._intervals.log))
            self._journals.setdefault(log.tailed_path, LogJournal())
        return True

    def _fetch(self, log: RankLog) -> None:
        """Reads the next bytes of a log into the journal."""
        path = log.tailed_path
        offset = self._journals[path].received(log.name)
        blob = self._range(log.name, offset, _PIECE_BYTES)
        size = blob.size if blob else 0
        if size < offset:  # another file has its name now
            self._journals[path] = LogJournal()
            self._drained.clear()
            return
        data = blob.data if blob else b""
        written = blob.modified.timestamp() if blob and blob.modified and not self.has_ended else 0.0
        self._journals[path].add(log, data, written)
        now, schedule = self._clock(), self._schedules[log.name]
        schedule.note(now, has_changed=bool(data))
        if schedule.is_quiet(now, self._intervals.unfinished_line):
            self._journals[path].release(log.name)
        if self.has_ended and offset + len(data) >= size:
            self._drained.add(log.name)

    def _range(self, name: str, offset: int, limit: int) -> BlobRange | None:
        """A range of a log file; an expired address is renewed once."""
        self._budget.spend()
        try:
            return self._connection.read_blob(self._details.log_files[name], offset, limit)
        except StorageError as error:
            if error.code != EXPIRED:
                raise
        self._list()
        url = self._details.log_files.get(name)
        return self._connection.read_blob(url, offset, limit) if url else None

    def _chunk(self, path: str, offset: int, limit: int) -> Chunk:
        """Bytes of a tailed log from its journal."""
        journal = self._journals[path]
        end = max(offset, min(journal.end, offset + limit))
        segments = journal.segments(offset, end)
        before = journal.cached(max(0, offset - BEFORE_BYTES), offset)
        return Chunk(
            self._data(journal, segments, offset, end),
            offset,
            journal.end,
            self._is_complete,
            spans=tuple(_spans(segments)) if path == OUT else (),
            times=tuple(WriteTime(segment.start, segment.time) for segment in segments if segment.time),
            generation=journal.generation,
            before=before or b"",
        )

    def _data(self, journal: LogJournal, segments: Sequence[LogSegment], start: int, end: int) -> bytes:
        """The bytes of these segments; those that are not cached are read again, one request for each log."""
        cached = journal.cached(start, end)
        if cached is not None:
            return cached
        segments_by_log: dict[str, list[LogSegment]] = {}
        for segment in segments:
            segments_by_log.setdefault(segment.log.name, []).append(segment)
        data = bytearray(end - start)
        for name, parts in segments_by_log.items():
            first, length = parts[0].source, sum(part.end - part.start for part in parts)
            blob = self._range(name, first, length)
            if blob is None or len(blob.data) < length:
                raise StorageError(
                    f"{name} of the run {self.run} has become shorter: it was deleted or replaced"
                )
            read = blob.data
            for part in parts:
                at = part.source - first
                data[part.start - start : part.end - start] = read[at : at + part.end - part.start]
        return bytes(data)

    def names_of(self, path: str) -> list[str]:
        """The service's names of the files that a path in the directory `stdouterr` consists of."""
        names = [log.name for log in self._logs if path in (log.path, log.tailed_path)]
        if not names and path in _LONE_PATHS:
            names = [log.name for log in self._logs if log.tailed_path == OUT and not log.label]
        return names or [name for name in self._details.log_files if name == path]


def _spans(segments: Sequence[LogSegment]) -> Iterator[Span]:
    """Which rank wrote which bytes; adjacent segments of one rank are one span."""
    open_span: Span | None = None
    for segment in segments:
        if open_span and open_span.rank == segment.log.rank:
            open_span = Span(open_span.start, segment.end, segment.log.rank)
            continue
        if open_span:
            yield open_span
        open_span = Span(segment.start, segment.end, segment.log.rank)
    if open_span:
        yield open_span


@dataclass(frozen=True)
class LogSegment:
    """Bytes of one process in the common log."""

    start: int  # their offset in the common log
    end: int  # the offset after them
    log: RankLog  # the process's own log
    source: int  # their offset in that log
    time: float = 0.0  # when they were written, in seconds since 1970; 0 if unknown

    def clipped(self, start: int, end: int) -> LogSegment:
        """The part between two offsets of the common log."""
        first = max(self.start, start)
        return replace(self, start=first, end=min(self.end, end), source=self.source + first - self.start)


class LogJournal:
    """The segments of a common log of `end` bytes. Lines of several processes are never interleaved.

    `generation` identifies this composition: another reader may have read the logs in another order.
    """

    def __init__(self) -> None:
        self.generation = uuid.uuid4().hex
        self.end = 0
        self._segments: list[LogSegment] = []
        self._taken: dict[str, int] = {}
        self._held: dict[str, tuple[RankLog, bytes, float]] = {}
        self._cache = bytearray()

    def received(self, name: str) -> int:
        """The number of bytes read from a process's log, including an unfinished line that is held back."""
        _, held, _ = self._held.get(name, (None, b"", 0.0))
        return self._taken.get(name, 0) + len(held)

    def add(self, log: RankLog, data: bytes, time: float = 0.0) -> None:
        """Appends the next bytes of a process's log; among several processes, only whole lines."""
        _, held, _ = self._held.pop(log.name, (log, b"", 0.0))
        data = held + data
        cut = len(data)
        if log.label and cut <= _MAX_HELD:
            cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if cut < len(data):
            self._held[log.name] = log, data[cut:], time
        self._append(log, data[:cut], time)

    def release(self, name: str) -> None:
        """Appends the unfinished line of a process's log, whose end has not come in time."""
        if name in self._held:
            self._append(*self._held.pop(name))

    def finish(self) -> None:
        """Appends the unfinished lines of all logs, which do not grow any more."""
        held, self._held = self._held, {}
        for log, data, written in held.values():
            self._append(log, data, written)

    def segments(self, start: int, end: int) -> Sequence[LogSegment]:
        """The segments between two offsets of the common log, clipped to them."""
        if start >= end:
            return ()
        first = max(0, bisect_right(self._segments, start, key=lambda segment: segment.start) - 1)
        last = bisect_right(self._segments, end - 1, key=lambda segment: segment.start)
        return [segment.clipped(start, end) for segment in self._segments[first:last] if segment.end > start]

    def cached(self, start: int, end: int) -> bytes | None:
        """The bytes between two offsets; None where they must be read again."""
        first = self.end - len(self._cache)
        return bytes(self._cache[start - first : end - first]) if start >= first or start >= end else None

    def _append(self, log: RankLog, data: bytes, time: float) -> None:
        if not data:
            return
        source = self._taken.get(log.name, 0)
        self._segments.append(LogSegment(self.end, self.end + len(data), log, source, time))
        self._taken[log.name] = source + len(data)
        self.end += len(data)
        self._cache += data
        del self._cache[:-CACHE_BYTES]
