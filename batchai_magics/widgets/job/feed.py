"""What is known of one job: taken from its events, read by all its views. Nothing is sent from here."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from batchai_magics.backends.base import Chunk
from batchai_magics.follow import (
    Event,
    LogBytes,
    LogFault,
    MetricsSeen,
    NodesChanged,
    QueueSeen,
    StateChanged,
    UseSeen,
)
from batchai_magics.follow.progress import read_progress
from batchai_magics.metrics.progress.progress_reader import Progress, ProgressReader
from batchai_magics.metrics.reading.metric_suggestions import MetricSuggester, Suggestion
from batchai_magics.metrics.runs.run_summary import warm_up_of
from batchai_magics.models.cluster import NodeStateCounts
from batchai_magics.models.execution import ERR, OUT
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import NodeState
from batchai_magics.widgets.core.feed import Feed
from batchai_magics.widgets.job.activity import activity
from batchai_magics.widgets.job.history import History
from batchai_magics.widgets.job.merged_log import MERGED, MergedLog, MergedTail
from batchai_magics.widgets.job.points import Points
from batchai_magics.widgets.job.tail import Tail
from batchai_magics.widgets.job.use import UseCurves

MAIN_LOG = OUT
MAIN_LOGS = (MERGED, MAIN_LOG, ERR, "execution.log")
PRINTED = (OUT, ERR)
HISTORY_LENGTH = 120  # node counts that are kept
WARM_UP_GROWTH = 1.3  # of the number of points, after which warm-up is looked for again
WARM_UP_POINTS = 5_000  # after which its end is taken as known until the job has ended
MOST_POINTS = 50_000  # of which it is looked for then


class JobFeed(Feed[Event]):
    """A job's latest state, node counts, log tails, records and chart points.

    `version` grows with everything but log, points and progress.
    """

    noun = "job"

    def __init__(self, *, processes: int = 0, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.processes = processes
        self._clock = clock
        self.job: JobResource | None = None
        self.counts: NodeStateCounts | None = None  # of its own nodes
        self._cluster: NodeStateCounts | None = None  # of all nodes of its cluster
        self._queue: QueueSeen | None = None
        self._progress = ProgressReader()
        self.merged = MergedLog()
        self._merged_tail = MergedTail()
        self.use = UseCurves()
        self.points = Points()
        self.records = History()
        self.tails: dict[str, Tail] = {}
        self.faults: list[str] = []  # what is wrong with finished logs
        self.history: deque[list[int]] = deque(maxlen=HISTORY_LENGTH)
        self.warm_up: int | None = None  # the steps that warm-up took
        self._warm_up_due = 8
        self._unread = MetricSuggester()

    def take(self, event: Event) -> None:
        """Takes the next event of the job."""
        if isinstance(event, LogBytes):
            self._take_log(event)
            return
        if isinstance(event, UseSeen):
            self.use.take(event.record)
            return
        if isinstance(event, MetricsSeen):
            self._take_numbers(event)
            return
        self._take_events(event)
        self.version += 1

    def _take_numbers(self, event: MetricsSeen) -> None:
        self.records.add(event.records)
        if isinstance(event.records, tuple):
            self.points.add(event.records)
        else:
            self.points.add_columns(event.records)
        self._find_warm_up()

    def _take_events(self, event: Event) -> None:
        if isinstance(event, LogFault):
            self.faults.append(f"{event.file.path} is not complete: {event.fault}")
        elif isinstance(event, StateChanged):
            self.job = event.job
            self._progress.started_at = (
                event.job.execution.started.timestamp() if event.job.execution else None
            )
        elif isinstance(event, QueueSeen):
            self._queue = event
        elif isinstance(event, NodesChanged):
            self.counts, self._cluster = event.counts, event.cluster
            self.history.append([int(self._clock() * 1000), *(event.counts.of(state) for state in NodeState)])

    def poll_ended(self) -> None:
        """All events of one look have been taken: stdout and stderr can be put in order."""
        self._merge(self.merged.advance())

    def end(self) -> None:
        """No event will come any more."""
        self._find_warm_up(is_last=True)
        self._merge(self.merged.finish())
        super().end()

    @property
    def has_ranks(self) -> bool:
        """Whether it is known which of several processes wrote which line."""
        return any(tail.is_shared for file, tail in self.tails.items() if file != MERGED)

    @property
    def progress(self) -> Progress | None:
        """How far the job is, as far as its output tells."""
        return self._progress.progress

    @property
    def activity(self) -> str:
        """What the job does while it has printed nothing, in a sentence; empty once it has."""
        has_printed = any(self.tails[file].size for file in PRINTED if file in self.tails)
        return (
            "" if has_printed or not self.job else activity(self.job, self._queue, self._cluster, self.tails)
        )

    @property
    def unread(self) -> Suggestion | None:
        """What would read the log's numbers, where nothing has."""
        return None if len(self.points) or self.points.others else self._unread.suggestion

    @property
    def files(self) -> list[str]:
        """The names of the log files, those first that are looked at most."""
        rest = sorted(file for file in self.tails if file not in MAIN_LOGS)
        return [file for file in MAIN_LOGS if file in self.tails] + rest

    def _merge(self, chunks: Iterable[Chunk]) -> None:
        """Takes what is new of the one log; it is shown as soon as stderr has anything."""
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
        if event.file.path not in self.tails:
            self.tails[event.file.path] = Tail()
            self.version += 1
        had_ranks = self.has_ranks
        self.tails[event.file.path].add(event.chunk, is_restarted=event.restarted)
        self.version += self.has_ranks != had_ranks
        if event.file.path in PRINTED:
            self._read_progress(event)
            self.merged.add(event.file.path, event.chunk, is_restarted=event.restarted)
        if event.restarted and event.file.path == MAIN_LOG:
            self._forget_numbers()
        if event.file.path == MAIN_LOG and self._unread.suggestion is None:
            self._unread.scan(event.chunk.data)
            self.version += self._unread.suggestion is not None

    def _read_progress(self, event: LogBytes) -> None:
        if event.restarted:
            self._progress = ProgressReader(self._progress.started_at)
        read_progress(self._progress, event.file.path, event.chunk, now=self._clock())

    def _forget_numbers(self) -> None:
        """The log that they come from starts again."""
        self.points.restart()
        self.records.clear()
        self.warm_up, self._warm_up_due = None, 8
        self.version += 1

    def _find_warm_up(self, *, is_last: bool = False) -> None:
        """Looks for the end of warm-up, ever more seldom as the points become many."""
        count = len(self.points)
        is_due = count <= MOST_POINTS if is_last else self._warm_up_due <= count <= WARM_UP_POINTS
        if not count or not is_due:
            return
        self._warm_up_due = int(count * WARM_UP_GROWTH)
        warm_up = warm_up_of(self.records)
        if warm_up != self.warm_up:
            self.warm_up = warm_up
            self.version += 1
