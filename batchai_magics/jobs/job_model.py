"""The one model of a job, fed by the events of `follow` and read by everything that shows the job."""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from batchai_magics.backends.base import Backend, Chunk, FileRef, fault_text
from batchai_magics.errors import BatchAIError
from batchai_magics.follow import (
    MAX_DELAY_S,
    METRICS_FILES,
    Event,
    JobFailed,
    LogBytes,
    LogFault,
    MetricMismatched,
    MetricsAdded,
    NodesChanged,
    Standstill,
    StateChanged,
    UsageSampled,
)
from batchai_magics.follow.job_errors import paths_of
from batchai_magics.follow.log_follower import LogFollower
from batchai_magics.follow.metric_streams import MetricStreams
from batchai_magics.follow.wait_reason import QueueState
from batchai_magics.jobs.job_logs import chunks, has_progress, read_redacted, saving_text
from batchai_magics.jobs.log_numbers import LogNumbers
from batchai_magics.jobs.log_tail import LogTail, MergedLogTail, clean_lines
from batchai_magics.jobs.merged_log import MERGED, MergedLog
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics import LogMetrics, Record
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.reading.metric_suggestions import LogStart, Suggestion, notices_of
from batchai_magics.metrics.reading.progress_reader import (
    BAR_BYTES,
    EPOCH_BYTES,
    MAX_LINES,
    Progress,
    ProgressReader,
)
from batchai_magics.metrics.runs.log_records import in_time_order
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.metrics.runs.resource_usage import UsageCurves
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState, NodeState
from batchai_magics.records.job_error import JobError, raised_in, traceback_sign

if TYPE_CHECKING:
    from batchai_magics.records.rank_profile import RunProfile

MAIN_LOG = OUT
MAIN_LOGS = (MERGED, MAIN_LOG, ERR, "execution.log")
OUTPUT_FILES = (OUT, ERR)
READ_LINES = 200  # of stderr, in which a traceback is searched
MAX_NODE_HISTORY = 120  # rows of node counts
TAIL_BYTES = 1 << 15  # of each log
ACTIVITY_LINES = 20  # of each log; the last one is shown
_PREPARING = "job preparation started"
_STARTING = "starting "
_MOMENT = re.compile(r"^\S+Z ")


class EventSource(Protocol):
    """What a model follows, such as a `Follower`."""

    @property
    def is_over(self) -> bool:
        """Whether no event will follow."""

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""

    def poll(self) -> Sequence[Event]:
        """Returns the events since the last poll; does not block."""


class JobModel:
    """A job's latest state, node counts, log tails, and the numbers of its logs.

    It polls `source` for its events, or is given them. `version` increases with every change except of log,
    numbers and progress, and with each new metric. `is_over`: no event will follow. `problem` explains why
    updates have stopped.
    """

    noun = "job"
    max_interval_s = MAX_DELAY_S  # between two polls

    def __init__(
        self,
        source: EventSource | None = None,
        *,
        processes: int = 0,
        patterns: Mapping[str, str] = MappingProxyType({}),
        preferences: MetricPreferences = NO_PREFERENCES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self.problem, self.is_over, self.version = "", False, 0
        self.processes = processes
        self.patterns = patterns
        self.preferences = preferences
        self._clock = clock
        self.job: JobResource | None = None
        self.counts: NodeStateCounts | None = None  # of the job's own nodes
        self._queue = QueueState()
        self._progress = ProgressReader()
        self.merged = MergedLog()
        self._merged_tail = MergedLogTail()
        self.use = UsageCurves()
        self.numbers = LogNumbers()
        self.tails: dict[str, LogTail] = {}
        self.faults: list[str] = []  # defects of finished logs
        self.metric_notices: list[str] = []  # matches of `--metric` that are not numbers
        self.history: deque[list[int]] = deque(maxlen=MAX_NODE_HISTORY)
        self.error: JobError | None = None  # why it failed
        self.standstill = ""  # that the job prints nothing, and where its ranks are
        self.profile: RunProfile | None = None  # the latest that a view has asked for …
        self.profile_fault, self.is_profiling = "", False  # … why it failed; whether one is being taken
        self._start = LogStart()  # of its output
        self.is_whole = True  # its logs have been read from their beginnings: best values are known

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""
        return self._source is not None and self._source.is_behind and not self.is_over

    def poll(self) -> bool:
        """Applies the events since the last poll, and returns whether there were any; does not block."""
        source = self._source
        events = source.poll() if source else ()
        for event in events:
            self.take(event)
        self.poll_ended()
        if source and source.is_over:
            self.end()
        return bool(events)

    def take(self, event: Event) -> None:
        """Applies the next event of the job."""
        if isinstance(event, LogBytes):
            self._take_log(event)
            return
        if isinstance(event, UsageSampled):
            self.use.take(event.record)
            return
        if isinstance(event, MetricsAdded):
            self.version += self.numbers.add(event.records, event.file.path if event.file else "")
            return
        self._take_state(event)
        self.version += 1

    def _take_state(self, event: Event) -> None:
        self._queue.take(event)
        if isinstance(event, MetricMismatched):
            self.metric_notices.append(event.notice)
        elif isinstance(event, LogFault):
            text = fault_text(event.file.path, event.fault)
            self.faults += [text] * (text not in self.faults)
        elif isinstance(event, JobFailed):
            self.error = event.error
        elif isinstance(event, Standstill):
            self.standstill = event.sentence
        elif isinstance(event, StateChanged):
            self.job, self.standstill = event.job, ""
            self._progress.started_at = (
                event.job.execution.started.timestamp() if event.job.execution else None
            )
        elif isinstance(event, NodesChanged):
            self.counts = event.counts
            self.history.append([int(self._clock() * 1000), *(event.counts.of(state) for state in NodeState)])

    def poll_ended(self) -> None:
        """All events of a poll have been applied: stdout and stderr can be merged."""
        self.version += self.numbers.refresh()
        self._find_unread()
        self._merge(self.merged.advance())

    def end(self) -> None:
        """Marks the model as complete."""
        self.version += self.numbers.refresh(is_last=True)
        self._find_unread(is_last=True)
        self._merge(self.merged.finish())
        self.is_over = True
        self.version += 1

    def report_problem(self, problem: str) -> None:
        """Sets the message that explains why updates have stopped; an empty text clears it."""
        self.version += problem != self.problem
        self.problem = problem

    def note_profile(
        self, profile: RunProfile | None = None, *, fault: str = "", is_profiling: bool = False
    ) -> None:
        """Notes that a profile of the ranks is being taken, its result, or why it failed."""
        self.is_profiling = is_profiling
        if not is_profiling:
            self.profile, self.profile_fault = profile, fault
        self.version += 1

    @property
    def hang_signs(self) -> tuple[str, ...]:
        """That the running job has printed a traceback; empty once it has ended."""
        tail = self.tails.get(ERR)
        if tail is None or self.job is None or not self.job.is_running:
            return ()
        raised = raised_in(tail.lines(READ_LINES))
        return (traceback_sign(raised, paths_of(self.job)),) if raised else ()

    @property
    def has_ranks(self) -> bool:
        """Whether lines can be attributed to one of several ranks."""
        return any(tail.is_shared for file, tail in self.tails.items() if file != MERGED)

    @property
    def progress(self) -> Progress | None:
        """The job's progress, if its output reports it."""
        return self._progress.progress

    @property
    def activity(self) -> str:
        """What the job is doing before its first output; empty afterwards."""
        has_printed = any(self.tails[file].size for file in OUTPUT_FILES if file in self.tails)
        return (
            "" if has_printed or not self.job else describe_activity(self.job, self.wait_reason, self.tails)
        )

    @property
    def wait_reason(self) -> str:
        """Why the job is queued, without a period; empty if that is not known, or it is not."""
        return self._queue.reason(self.job) if self.job else ""

    @property
    def unread(self) -> Suggestion | None:
        """An option that would read numbers of the log that were not read."""
        if self._start.is_due:
            self._search_unread(is_last=self.job is not None and self.job.state.is_final)
        return self._start.suggestion

    @property
    def notices(self) -> tuple[str, ...]:
        """Which numbers of the log were not read, and what would read them."""
        return (*self.metric_notices, *([str(self.unread)] if self.unread else []))

    @property
    def metrics(self) -> RunMetrics:
        """All metrics of the log so far."""
        return RunMetrics(self.numbers.table, self.preferences)

    @property
    def files(self) -> list[str]:
        """The names of the log files, the most important first."""
        rest = sorted(file for file in self.tails if file not in MAIN_LOGS)
        return [file for file in MAIN_LOGS if file in self.tails] + rest

    def _merge(self, chunks: Iterable[Chunk]) -> None:
        """Adds to the merged log, which is shown as soon as stderr has content."""
        for chunk in chunks:
            self._merged_tail.add(chunk)
        if self.merged.is_wanted == (MERGED in self.tails):
            return
        if self.merged.is_wanted:
            self.tails = {MERGED: self._merged_tail, **self.tails}
        else:
            del self.tails[MERGED]
        self.version += 1

    def _take_log(self, event: LogBytes) -> None:
        if self.standstill:
            self.standstill = ""
            self.version += 1
        if event.file.path not in self.tails:
            self.tails[event.file.path] = LogTail()
            self.version += 1
            self.is_whole &= event.chunk.offset == 0
        had_ranks = self.has_ranks
        self.tails[event.file.path].add(event.chunk, is_restarted=event.restarted)
        self.version += self.has_ranks != had_ranks
        self.version += event.file.path == ERR and b"Traceback (most" in event.chunk.data
        if event.file.path in OUTPUT_FILES:
            if event.restarted:
                self._progress = ProgressReader(self._progress.started_at)
            read_progress(self._progress, event.file.path, event.chunk, now=self._clock())
            self.merged.add(event.file.path, event.chunk, is_restarted=event.restarted)
        if event.restarted and event.file.path == MAIN_LOG:
            # drops all numbers: their log was truncated
            self.numbers.restart()
            self._start = LogStart()
            self.metric_notices.clear()
            self.version += 1
        if event.file.path in OUTPUT_FILES:
            data = event.chunk.data
            self._start.add(data if self.is_whole else data.partition(b"\n")[2], event.file.path)

    def _find_unread(self, *, is_last: bool = False) -> None:
        """Searches the start of the output for numbers that were not read, less often as it grows."""
        known = self._start.suggestion
        if is_last:
            self._search_unread(is_last=True)
        self.version += self.unread != known

    def _search_unread(self, *, is_last: bool) -> None:
        submitted = self.job.spec.batchai_patterns if self.job else None
        patterns = {**(submitted or {}), **self.patterns}
        self._start.search(self.numbers.table.names, patterns, is_whole=is_last and self.is_whole)


def read_model(
    backend: Backend,
    job: JobResource,
    patterns: Mapping[str, str] = MappingProxyType({}),
    *,
    preferences: MetricPreferences = NO_PREFERENCES,
    tail_bytes: int = TAIL_BYTES,
) -> JobModel:
    """The model of a job as it is now, from the ends of its stdout, stderr and trainer's files.

    Of each log, `tail_bytes` are read; more of a job that may tell its progress. A job that was deleted
    meanwhile has no logs.
    """
    model, events = JobModel(patterns=patterns, preferences=preferences), list[Event]()
    model.take(StateChanged(job))
    logs = LogFollower(
        backend,
        job.id,
        {**(job.spec.batchai_patterns or {}), **patterns},
        [FileRef(job.id, name) for name in METRICS_FILES],
        tail_bytes=max(tail_bytes, EPOCH_BYTES) if has_progress(job) else tail_bytes,
    )
    with contextlib.suppress(BatchAIError):
        events.extend(logs.read())
    now = time.time()
    for event in sorted([*events, *logs.finish()], key=lambda event: _last_write(event, now)):
        model.take(event)
    return model


def _last_write(event: Event, now: float) -> float:
    """When the newest byte of a log was written: the latest progress counts."""
    times = event.chunk.times if isinstance(event, LogBytes) else ()
    return times[-1].time if times else now


def progress_of(backend: Backend, job: JobResource) -> Progress | None:
    """The progress of a running or failed job; None for any other, and where its logs report none."""
    return read_model(backend, job).progress if has_progress(job) else None


def read_progress(reader: ProgressReader, file: str, chunk: Chunk, *, now: float) -> bool:
    """Parse the newest bytes of a log; return whether they contained progress. `now` is the default time."""
    at = chunk.times[-1].time if chunk.times else now
    if len(chunk.spans) <= 1:
        return reader.feed(chunk.data, at=at, stream=file, rank=chunk.spans[0].rank if chunk.spans else None)
    # the last output of each relevant rank, in the order of writing
    newest: list[tuple[int, bytes]] = []
    size = 0
    for span in reversed(chunk.spans):
        if not reader.wants(span.rank):
            continue
        data = chunk.data[max(0, span.start - chunk.offset) : span.end - chunk.offset]
        newest.append((span.rank, data))
        size += len(data)
        if size >= BAR_BYTES or len(newest) >= MAX_LINES:
            break
    results = [
        reader.feed(data, at=at, stream=f"{file}#{rank}", rank=rank) for rank, data in reversed(newest)
    ]
    return any(results)


def log_metrics(
    backend: Backend, job: ResourceId, patterns: Mapping[str, str], *, is_over: bool = False
) -> LogMetrics:
    """The records of a job's output and of its trainer's files in the order of writing, with their ranks.

    Without write times, those of stdout come first. `patterns` are regular expressions by metric, in addition
    to the known formats; `is_over` tells that the job had ended before, so that nothing follows.

    Raises:
        FileChangedError: The file was replaced while it was read.
    """
    streams, start = MetricStreams(patterns), LogStart()
    parts: list[Collection[Record]] = []
    streams.has_trainer_files = read_redacted(backend, FileRef(job, TRAINER_LOG), 0, 0).size > 0
    for file in METRICS_FILES if streams.has_trainer_files else (OUT, ERR):
        numbers = MeasurementTable()
        for chunk in chunks(backend, FileRef(job, file)):
            start.add(chunk.redacted.data, file)
            numbers.extend(streams.feed(file, chunk.redacted))
        parts.append(numbers)
    table = in_time_order([*parts, streams.finish()])
    notices = notices_of(streams.mismatches, table, start, patterns, is_whole=is_over)
    return LogMetrics(table, notices=notices)


def describe_wait(job: JobResource, reason: str) -> str:
    """Describes what a queued job waits for."""
    name = job.spec.cluster.id.rstrip("/").rpartition("/")[2]
    if job.waiting and job.spec.predecessors:
        return f"Waiting: {reason}."  # for another job, not for nodes
    requested = f"{job.spec.node_count} node{'s' * (job.spec.node_count != 1)} of {name}"
    return f"Waiting for {requested}: {reason}." if reason else f"Waiting for {requested} …"


def describe_start(tails: Mapping[str, LogTail]) -> str:
    """Describes the start of a job before its first output, from the logs of execution and preparation."""
    sentences = [_MOMENT.sub("", line) for line in _lines(tails, "execution")]
    sentence = sentences[-1] if sentences else ""
    if sentence == _PREPARING:
        output = _last_line(tails, "stdout-job_prep") or _last_line(tails, "stderr-job_prep")
        return f"Preparing the nodes: {output}" if output else "Preparing the nodes …"
    if any(line.startswith(_STARTING) for line in sentences):
        return "Started; no output yet …"
    return f"Starting: {sentence}" if sentence else "Starting …"


def describe_activity(job: JobResource, wait_reason: str, tails: Mapping[str, LogTail]) -> str:
    """Describes what the job is doing; empty if it has ended."""
    if job.state is ExecutionState.QUEUED:
        return describe_wait(job, wait_reason)
    if job.state is ExecutionState.TERMINATING:
        return f"{saving_text(job).capitalize()} …"
    return "" if job.state.is_final else describe_start(tails)


def _last_line(tails: Mapping[str, LogTail], name: str) -> str:
    """The last line of the logs whose names start with `name`, as a terminal shows it."""
    return next(reversed(_lines(tails, name)), "")


def _lines(tails: Mapping[str, LogTail], name: str) -> list[str]:
    """The last lines of those logs that are not blank."""
    files = [tail for file, tail in sorted(tails.items()) if file.startswith(name)]
    lines = clean_lines(tuple(line for tail in files for line in tail.lines(ACTIVITY_LINES)))
    return [line.strip() for line in lines if line.strip()]
