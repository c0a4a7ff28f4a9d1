"""Watches a run from beside it: reads logs, evaluates stop conditions, exports, notices a standstill.

Its `main` is a child of the program that runs the attempt.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.outbox import (
    Outbox,
    Sender,
    failure_notification,
    running_notification,
    traceback_notification,
    watch_request,
)
from batchai_magics.backends.folders.rank_files import logged_in, read_telemetry
from batchai_magics.backends.folders.run_end import StopIfRequest
from batchai_magics.backends.folders.run_measures import RunMeasures, unreadable_files
from batchai_magics.backends.node import output_records, stack_dumps
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.node.watch_process import STOP, end_signal, stack_lines_from
from batchai_magics.launch.plan import TRAINER_LOG, LogPaths, Plan, ProcessExit
from batchai_magics.log_lines import LogBlock
from batchai_magics.metrics.measurement import Measurement, Record
from batchai_magics.metrics.reading.event_files import EventFileWriter
from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.runs.log_records import PrintedNumbers, records_in
from batchai_magics.metrics.runs.metric_traits import MetricPreferences
from batchai_magics.metrics.runs.positions import MetricPoints
from batchai_magics.metrics.runs.resource_usage import is_idle
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.metrics.runs.stop_evaluation import StopEvaluation
from batchai_magics.models.prices import NodeTime, Price
from batchai_magics.models.runs.labels import Parameter
from batchai_magics.models.runs.notifications import Notification, NotificationKind
from batchai_magics.models.runs.scalar_export import (
    ExportedRun,
    ExportKind,
    ExportTarget,
    ScalarPoint,
    ScalarWriter,
)
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.records import record_files
from batchai_magics.records.job_error import TRACEBACK
from batchai_magics.records.mlflow_runs import MlflowRun
from batchai_magics.records.rank_stacks import RankStacks, duration_text, standstill_finding
from batchai_magics.untrusted_files import open_file

BLOCK_BYTES = 1 << 20
POLL_S = 0.5  # poll interval
FAILURE_POLL_S, MAX_CPU_SHARE = 2.0, 0.01  # how often exits are read, and what that may cost of a core
TRACEBACK_S = 60.0  # how long a run goes on after a traceback until its user is notified
TERMINATED_CODE = 143  # of a process that was ended because of another one
MAX_ATTEMPT_S = 35.0  # longer than any attempt to deliver a notification

StackCollector = Callable[[str], Iterable[str]]  # takes the run's guid; gives the lines of `stack_dumps`
HEADLINE_INTERVAL_S = 5.0  # between two writes of the headline
MAX_RECENT = 1024  # records that are kept of each metric
MAX_POINTS = 200_000  # that wait for a target of an export which does not respond
FLUSH_S = {ExportKind.TENSORBOARD: 1.0, ExportKind.MLFLOW: 3.0}
EXPORT_RETRY_S = 20.0


class RunWatch:
    """Reads the logs of a run incrementally, and does what its user asked for."""

    def __init__(
        self,
        job: JobLayout,
        env: Mapping[str, str] = os.environ,
        *,
        by: str = "",
        times: Sequence[NodeTime] = (),
        collect: StackCollector = stack_dumps.stack_lines,
    ) -> None:
        plan, started = Plan.read(str(job.plan)), time.time()
        folder = Path(plan.output.stdout.path).parent
        stop = StopIfRequest.read(job.stop_if) if job.stop_if.exists() else StopIfRequest((), {})
        request = watch_request(job) or WatchRequest(job.root.name, "")
        self._stopping = StopEvaluation.of(stop.conditions, stop.patterns, time.monotonic())
        times = times or [NodeTime(len(plan.nodes), started)]
        price = Price(request.node_price) if request.node_price else None
        self._measures = RunMeasures(self._stopping, job.telemetry, price, times)
        self._logs = [_Log(log, {**request.patterns, **stop.patterns}) for log in plan.output]
        self._trainer_log = _Log(LogPaths(str(folder / TRAINER_LOG)), {})
        self._numbers, self._has_ranks = PrintedNumbers(), len(plan.processes) > 1
        self._points = MetricPoints(started)
        tags = dict.fromkeys(request.tags, "true")
        run = ExportedRun(request.name, job.root.name, request.experiment, started, request.parameters, tags)
        logged = job.records / record_files.PARAMETERS
        self._exports = [
            LiveExport(target, run, folder, logged=logged, env=env) for target in request.targets
        ]
        self._headline = HeadlineFile(job.records / record_files.HEADLINE, request.headline)
        self._notifier = _Notifier(job, by)
        self._standstill = _Standstill(request.stalled_s)
        self._stderr, self._traceback = plan.output.stderr.path, _Traceback()
        self._job, self._sample = job, partial(_stacks, job.root.name, collect)
        self._failures = _Failures(plan) if self._notifier.is_used else None
        self._is_stopped, self._unreadable = False, list[str]()

    def check(self, now_s: float, *, is_last: bool = False) -> str:
        """Why the job is to be stopped, according to its logs so far; empty if it is not."""
        for log in self._logs:
            for records, data in log.read():
                self._take(self._numbers.new_printed(records), now_s)
                self._measures.take(records, data, log.path)
                if log.path == self._stderr:
                    self._traceback.take(data, now_s)
        for records, data in self._trainer_log.read():
            self._unreadable += unreadable_files(data)
            new = self._numbers.new_logged(records)
            self._take(new if self._has_ranks else list(map(_without_rank, new)), now_s)
            self._measures.take(records, data, self._trainer_log.path)
        size_bytes = sum(log.size_bytes for log in (*self._logs, self._trainer_log))
        self._measures.measure(size_bytes, now_s)
        if number := self._standstill.count_at(size_bytes, now_s):
            self._notifier.send_standstill(self._standstill.reason, self._standstill_finding, number=number)
        if self._failures and not self._is_stopped and not is_last and self._traceback.is_new_at(now_s):
            self._notifier.send_traceback()
        failed = (
            self._failures.first(now_s, is_last=is_last) if self._failures and not self._is_stopped else None
        )
        if failed:
            self._failures = None
            self._headline.write()
            self._notifier.send_failure(failed)
        for export in self._exports:
            export.flush()
        return "" if self._is_stopped else self._stopping.reason(now_s)

    def follow(self, over: threading.Event) -> str:
        """Polls until the job is to be stopped, and returns the reason once; empty when it is over."""
        while True:
            is_last = over.is_set()
            reason = self.check(time.monotonic(), is_last=is_last)
            if is_last:
                return ""
            if reason:
                self._is_stopped = True
                self._headline.write()  # which the notification has
                self._notifier.send(NotificationKind.STOPPING, reason)
                return reason
            over.wait(POLL_S)

    def finish(self) -> list[str]:
        """Completes exports and files when the run is over; returns what could not be done, in sentences."""
        self._headline.write()
        self._notifier.close()
        notes = [note for export in self._exports if (note := export.close())]
        return notes if self._is_stopped else [*self._stopping.unmet(self._unreadable), *notes]

    def _standstill_finding(self) -> str | None:
        """Where the ranks of the silent run are, empty if that is not known; None if it works."""
        read, limit_s = partial(read_telemetry, self._job.telemetry), self._standstill.limit_s
        is_still = is_idle(read, silent_s=limit_s, now=time.time())
        finding = standstill_finding(self._sample, is_idle=is_still)
        if finding is None:
            self._standstill.check_again()
        return finding

    def _take(self, records: Sequence[Record], now_s: float) -> None:
        self._stopping.add(records, now_s)
        points = list(self._points.of(records))
        self._headline.add(records, points)
        for export in self._exports:
            export.add(points)


def _stacks(guid: str, collect: StackCollector) -> RankStacks:
    """The stacks of a run's ranks; none if they cannot be collected."""
    try:
        return RankStacks.of_lines("", collect(guid))
    except (OSError, ValueError):
        return RankStacks("", ())


def _without_rank(record: Record) -> Record:
    """The record as one that a job of a single process prints."""
    return record._replace(rank=None) if isinstance(record, Measurement) else record


class _Standstill:
    """Notices that a run has printed nothing for a while, once until it prints again."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s or math.inf
        self._size_bytes, self._since_s = -1, 0.0
        self._count, self._is_reported = 0, False
        self.reason = f"it has printed nothing for {duration_text(self.limit_s)}"

    def count_at(self, size_bytes: int, now_s: float) -> int:
        """Takes the size of all logs at a time; the number of a new standstill, else 0."""
        if size_bytes != self._size_bytes:
            self._size_bytes, self._since_s, self._is_reported = size_bytes, now_s, False
        elif not self._is_reported and now_s - self._since_s >= self.limit_s:
            self._is_reported, self._count = True, self._count + 1
            return self._count
        return 0

    def check_again(self) -> None:
        """Treats the run as working; it is checked again after the same time."""
        self._since_s, self._is_reported = self._since_s + self.limit_s, False


class _Traceback:
    """Notices that a run has printed a traceback and goes on, once."""

    def __init__(self) -> None:
        self._rest, self._printed_s, self._is_reported = b"", math.inf, False

    def take(self, data: bytes, now_s: float) -> None:
        """Takes new bytes of stderr."""
        if self._printed_s == math.inf and TRACEBACK.encode() in self._rest + data:
            self._printed_s = now_s
        self._rest = data[-len(TRACEBACK) :]

    def is_new_at(self, now_s: float) -> bool:
        """Whether the run has gone on for a while; only once."""
        is_new = not self._is_reported and now_s - self._printed_s >= TRACEBACK_S
        self._is_reported |= is_new
        return is_new


class _Failures:
    """Looks for the first failure among several processes while the others go on."""

    def __init__(self, plan: Plan) -> None:
        self._folder = Path(plan.exits)  # which each attempt empties
        self._due_s = 0.0 if len(plan.processes) > 1 else math.inf

    def first(self, now_s: float, *, is_last: bool) -> ProcessExit | None:
        """The first process that has failed; None, or if it is not time to look."""
        if self._due_s == math.inf or (now_s < self._due_s and not is_last):
            return None
        began = time.thread_time()
        ends = [end for end in exits_in(self._folder) if end.exit_code not in (None, 0, TERMINATED_CODE)]
        self._due_s = now_s + max(FAILURE_POLL_S, (time.thread_time() - began) / MAX_CPU_SHARE)
        return min(ends, key=lambda end: end.ended or math.inf, default=None)


class _Notifier:
    """Sends notifications about a run in progress from threads; the rest is sent at its end."""

    def __init__(self, job: JobLayout, by: str) -> None:
        self._job, self._box, self._by = job, Outbox.of_run(job), by
        self._over, self._threads = threading.Event(), list[threading.Thread]()

    @property
    def is_used(self) -> bool:
        """Whether the run has channels."""
        return self._box.is_used

    def send(self, kind: NotificationKind, reason: str, *, number: int = 1) -> None:
        """Keeps a notification, and sends it without waiting for it."""
        if self.is_used:
            self._put(running_notification(self._job, kind, number, reason))

    def send_standstill(self, reason: str, finding: Callable[[], str | None], *, number: int) -> None:
        """Notifies that the run makes no progress and where its ranks are, if `finding` confirms it."""
        if not self.is_used:
            return

        def send() -> None:
            if (ranks_text := finding()) is not None:
                text = ". ".join(filter(None, (reason, ranks_text.rstrip("."))))
                self.send(NotificationKind.STALLED, text, number=number)

        self._start(send)

    def send_failure(self, rank: ProcessExit) -> None:
        """Tells that the first of several processes has failed."""
        self._put(failure_notification(self._job, rank))

    def send_traceback(self) -> None:
        """Tells that the run goes on although stderr has a traceback."""
        if notification := traceback_notification(self._job):
            self._put(notification)

    def close(self) -> None:
        """Ends the retries; an attempt that has begun is completed, so that nothing is sent twice."""
        self._over.set()
        deadline_s = time.monotonic() + MAX_ATTEMPT_S
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return
            alive[0].join(left_s)  # which may start another one

    def _put(self, notification: Notification) -> None:
        self._box.put(notification)
        self._start(Sender(self._box, self._by, self._over).send)

    def _start(self, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads = [*(other for other in self._threads if other.is_alive()), thread]
        thread.start()


class _Log:
    """The read position in a log."""

    def __init__(self, log: LogPaths, patterns: Mapping[str, str]) -> None:
        self._log, self._patterns = log, patterns
        self._parser, self._offset = Parser(patterns), 0

    @property
    def path(self) -> str:
        """Its path."""
        return self._log.path

    @property
    def size_bytes(self) -> int:
        """How much of it was read."""
        return self._offset

    def read(self) -> Iterator[tuple[list[Record], bytes]]:
        """Yields the new records and their bytes, block by block; a truncated log is read from its start."""
        while True:
            data, size = _read(Path(self._log.path), self._offset)
            if size < self._offset:
                self._parser, self._offset = Parser(self._patterns), 0
                continue
            start, end, spans = self._offset, self._offset + len(data), Path(self._log.spans)
            if self._log.spans:
                end = output_records.recorded_end(spans, start, end)
            if start == end:
                return
            self._offset = end
            writers = output_records.writers(spans, start, end) if self._log.spans else ()
            times = output_records.times(Path(self._log.times), start, end) if self._log.times else ()
            block = LogBlock(data[: end - start], start, writers, times)
            yield list(records_in(block, self._parser)), block.data


def _read(file: Path, offset: int) -> tuple[bytes, int]:
    """The next bytes of a file, newly opened, and its size; OSError if it is not a regular file."""
    try:
        with open_file(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            return os.pread(stream.fileno(), BLOCK_BYTES, offset), size
    except FileNotFoundError:
        return b"", 0


class HeadlineFile:
    """Keeps the last records of each metric, and writes the headline as lists have it, over all ranks.

    Args:
        file: The file.
        chosen: The metric that the user has chosen; empty without one.
    """

    def __init__(self, file: Path, chosen: str) -> None:
        self._file, self._due_s = file, 0.0
        self._preferences = MetricPreferences(chosen)
        self._recent: dict[str, deque[tuple[int, Record]]] = defaultdict(lambda: deque(maxlen=MAX_RECENT))
        self._numbers = count()  # of records, in the order in which they came
        self._steps: dict[str, int] = {}

    def add(self, records: Iterable[Record], points: Sequence[ScalarPoint]) -> None:
        """Adds records, and the points that were made of them."""
        for record in records:
            name = getattr(record, "name", "") or type(record).__name__
            self._recent[name].append((next(self._numbers), record))
        self._steps.update((point.name, point.step) for point in points)
        if points and time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + HEADLINE_INTERVAL_S
            self.write()

    def write(self) -> None:
        """Writes the file, if any metric is known; a full disk is no error."""
        recent = sorted(chain.from_iterable(self._recent.values()), key=lambda item: item[0])
        metric = RunMetrics((record for _, record in recent), self._preferences).headline
        summary = metric.summary if metric else None
        if summary is None:
            return
        value = summary.headline_value
        headline = {
            "name": summary.name,
            "value": value if math.isfinite(value) else str(value),
            "step": self._steps.get(summary.name, int(summary.last_step or 0)),
        }
        try:
            private_files.write(self._file, json.dumps(headline))
        except OSError:
            self._due_s = math.inf  # it is not worth another attempt


class LiveExport:
    """One target of a run; a target that fails is tried again, and never fails the run."""

    def __init__(
        self,
        target: ExportTarget,
        run: ExportedRun,
        folder: Path,
        *,
        logged: Path,
        env: Mapping[str, str],
    ) -> None:
        """`folder` has the logs, `logged` is the file with the parameters that the run logs."""
        self._target, self._writer = target, _writer(target, run, folder, env)
        self._logged, self._parameters = logged, dict[str, Parameter]()
        self._points: list[ScalarPoint] = []
        self._dropped, self._problem, self._due_s = 0, "", 0.0

    def add(self, points: Iterable[ScalarPoint]) -> None:
        """Adds points; the oldest ones are dropped if too many wait."""
        self._points += points
        surplus = len(self._points) - MAX_POINTS
        if surplus > 0:
            del self._points[:surplus]
            self._dropped += surplus

    def flush(self, *, is_last: bool = False) -> None:
        """Writes what waits, if it is due."""
        now_s = time.monotonic()
        if not self._points or (now_s < self._due_s and not is_last):
            return
        if (logged := logged_in(self._logged)) != self._parameters:
            self._parameters = logged
            self._writer.add_parameters({name: str(value) for name, value in logged.items()})
        try:
            self._writer.write(self._points)
        except OSError as error:
            self._problem, self._due_s = error.strerror or str(error), now_s + EXPORT_RETRY_S
            return
        self._points, self._problem = [], ""
        self._due_s = time.monotonic() + FLUSH_S[self._target.kind]

    def close(self) -> str:
        """Writes the rest; returns why the export is incomplete, empty if it is not."""
        self.flush(is_last=True)
        if self._target.kind is ExportKind.TENSORBOARD:
            self._writer.finish("", 0.0)
        lost = self._dropped + len(self._points)
        reason = self._problem or "the target did not respond for too long"
        return f"export to {self._target}: {lost} numbers are missing: {reason}" if lost else ""


def _writer(target: ExportTarget, run: ExportedRun, folder: Path, env: Mapping[str, str]) -> ScalarWriter:
    if target.kind is ExportKind.MLFLOW:
        return MlflowRun(target.location, run, env)
    return EventFileWriter(folder / Path(target.location).expanduser(), run)


def main() -> None:
    """Watches the run of the folder that the first argument names until the parent signals its end.

    The second argument has the times of its nodes, as JSON; the others are commands that run `stack_dumps`.
    Prints the reason if the run is to be stopped, and at the end what could not be done.
    """
    root, times, *commands = sys.argv[1:]
    over = end_signal()

    def collect(guid: str) -> Iterable[str]:
        return stack_lines_from(map(shlex.split, commands)) if commands else stack_dumps.stack_lines(guid)

    node_times = [NodeTime(*fields) for fields in json.loads(times)]
    watched = RunWatch(JobLayout(Path(root)), by=socket.gethostname(), times=node_times, collect=collect)
    if reason := watched.follow(over):
        print(f"{STOP}{json.dumps(reason)}", flush=True)  # in ASCII: any locale can print it
        os.kill(os.getppid(), signal.SIGCHLD)  # for which it waits among other events
        watched.follow(over)
    print(*watched.finish(), sep="\n", flush=True)


if __name__ == "__main__":
    main()
