"""Records what a job's view is sent, or would have been sent during an ended run, to replay it later."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from importlib.metadata import distributions
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.backends.base import Chunk
from batchai_magics.errors import BatchAIError
from batchai_magics.follow import Event, LogBytes, MetricsAdded, NodesChanged, StateChanged, UsageSampled
from batchai_magics.follow.metric_streams import METRICS_FILES, MetricStreams
from batchai_magics.jobs.job_model import EventSource, JobModel
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.resources import JobResource
from batchai_magics.models.secret_masking import SecretMask, is_secret_name, without_secrets
from batchai_magics.models.states import ExecutionState, NodeState
from batchai_magics.version import __version__
from batchai_magics.widgets.core.cell_output import EmbeddedOutput
from batchai_magics.widgets.core.flow_control import Budget
from batchai_magics.widgets.core.publisher import Publisher
from batchai_magics.widgets.core.view_stream import Batch, PageData
from batchai_magics.widgets.hosts.recording_file import RecordingFile
from batchai_magics.widgets.job.job_view import JobStream, follow_job, follower_of

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job

_PAGE = {"page": "recording", "turn": 1}
REPLIES = ("failure", "record")  # requests whose answers are recorded
MESSAGES_PER_S = 20
BYTES_PER_S = 4_000_000
REPORTED = ("ipykernel", "ipython", "jupyterlab", "notebook", "anywidget", "numpy", "mpi4py")  # packages
MAX_HELD_BYTES = 1 << 16  # of an unterminated line
MAX_LOG_BYTES = 64 << 20  # larger logs are not read again
MIN_STEP_S = 0.1  # between two moments
MAX_MOMENTS = 3000


def record(job: Job, path: Path, *, extra: Mapping[str, Any] = {}) -> Path:
    """Records a job until it has ended, or until an interrupt; the file then has what came before.

    `extra` is added to the header.
    """
    header = {"name": job.name, "batchai_magics": __version__, **extra}
    if is_replayable(job):
        _record_ended(job, path, header)
        return path
    mask = environment_mask()
    model = follow_job(job, MaskedSource(follower_of(job), mask))
    file = RecordingFile(path, header, mask=mask)
    with _discarding_on_error(file):
        budget = Budget(messages_per_s=MESSAGES_PER_S, bytes_per_s=BYTES_PER_S)
        with closing(Publisher(budget=budget)) as publisher:
            publisher.model(job.id.key, lambda: model)
            page = _RecordedPage(job, model, file)
            publisher.add(EmbeddedOutput(job.id.key, model, page.view))
            with suppress(KeyboardInterrupt):
                publisher.start()
                while not publisher.wait_for(lambda: page.is_closed or bool(file.failure), 3600):
                    pass
    return path


def _record_ended(job: Job, path: Path, header: PageData) -> None:
    """Records an ended run as a live view would have received it, by the times of its log and telemetry."""
    mask = environment_mask()
    moments = moments_of(job, MaskedSource(follower_of(job), mask))
    clock = _Clock()
    preferences = metric_preferences(patterns=job.patterns)
    model = JobModel(
        processes=job.process_count(), patterns=job.patterns, preferences=preferences, clock=clock
    )
    first = next(moments)
    clock.now = first.time
    file = RecordingFile(path, header, mask=mask, clock=clock)
    with _discarding_on_error(file):
        _take(model, first)
        page = _RecordedPage(job, model, file)
        for moment in moments:
            clock.now = moment.time
            _take(model, moment)
            _send_all(page.view)
        model.end()
        _send_all(page.view)
        page.close()


class _Clock:
    """The time that is being recorded, in seconds since 1970."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _take(model: JobModel, moment: Moment) -> None:
    for event in moment.events:
        model.take(event)
    model.poll_ended()


def _send_all(stream: JobStream) -> None:
    while stream.send_next(BYTES_PER_S):
        pass


@contextmanager
def _discarding_on_error(file: RecordingFile) -> Iterator[None]:
    """Closes the file at the end, or drops it after an error."""
    try:
        yield
    except BaseException:
        file.discard()
        raise
    file.close()


def environment_mask() -> SecretMask:
    """Masks what looks like a secret, and the values of this process' variables that hold one."""
    return SecretMask(value for name, value in os.environ.items() if is_secret_name(name))


class _RecordedPage:
    """Carries the view of a job to a file: what a page would be sent."""

    def __init__(self, job: Job, model: JobModel, file: RecordingFile) -> None:
        self.view = JobStream(job, model, work=lambda task: task())
        self.view.carrier = self
        self.is_closed = False
        self._model, self._file = model, file
        self.publish_state(self.view.state)
        self.view.receive({"kind": "ready", **_PAGE})

    @property
    def is_gone(self) -> bool:
        """Whether the job has ended and everything was recorded."""
        return self._model.is_over and self.view.is_up_to_date

    def transmit(self, message: Batch) -> None:
        """Records a message, which counts as acknowledged."""
        self._file.add_message(message)
        self.view.receive({"kind": "alive", **_PAGE, "seq": message.content.get("seq", 0)})

    def publish_state(self, state: PageData) -> None:
        """Records the state."""
        self._file.add_state(state)

    def close(self) -> None:
        """Records the replies to the requests that a view sends at the end."""
        for kind in REPLIES:
            with suppress(BatchAIError):
                self._file.add_reply(kind, self.view.respond({"kind": kind, "id": kind}))
        self.is_closed = True


class MaskedSource:
    """The events of a source, with asterisks for what looks like a secret in its logs.

    An unterminated line is held back until its end is known, so that no secret is cut in two.
    """

    def __init__(self, source: EventSource, mask: SecretMask) -> None:
        self._source = source
        self._mask = mask
        self._open_lines: dict[str, LogBytes] = {}

    @property
    def is_over(self) -> bool:
        """Whether the source has ended."""
        return self._source.is_over

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""
        return self._source.is_behind

    def poll(self) -> Sequence[Event]:
        """Returns the events since the last poll; does not block."""
        events = [self._complete_lines(event) for event in self._source.poll()]
        if self.is_over:
            events += [self._masked(event) for event in self._open_lines.values()]
            self._open_lines.clear()
        return events

    def _complete_lines(self, event: Event) -> Event:
        if not isinstance(event, LogBytes):
            return event
        path = event.file.path
        open_line = self._open_lines.pop(path, None)
        if open_line and open_line.chunk.end == event.chunk.offset and not event.restarted:
            first, second = open_line.chunk, event.chunk
            joined = replace(
                second,
                data=first.data + second.data,
                offset=first.offset,
                spans=first.spans + second.spans,
                times=first.times + second.times,
            )
            event = replace(open_line, chunk=joined)
        data = event.chunk.data
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - cut > MAX_HELD_BYTES:
            cut = len(data)
        if cut < len(data):
            self._open_lines[path] = replace(event, chunk=event.chunk.part(cut, len(data)), restarted=False)
        return self._masked(replace(event, chunk=event.chunk.part(0, cut)))

    def _masked(self, event: LogBytes) -> LogBytes:
        return replace(event, chunk=replace(event.chunk, data=self._mask.blank(event.chunk.data)))


def settings_report() -> PageData:
    """Versions and settings, for the header of a bug report."""
    packages = {
        package.metadata["Name"]: package.version
        for package in distributions()
        if package.metadata["Name"] in REPORTED
    }
    variables = {name: value for name, value in sorted(os.environ.items()) if name.startswith("BATCHAI_")}
    settings = without_secrets(variables, environment_mask())
    return {
        "report": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": sys.version.split()[0],
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": packages,
        "settings": settings,
    }


class Moment(NamedTuple):
    """Events of about the same time, in seconds since 1970."""

    time: float
    events: list[Event]


def is_replayable(job: Job) -> bool:
    """Whether a run has ended and its logs are small enough to be read again."""
    resource = job.show()
    if not resource.state.is_final or resource.execution is None or resource.execution.ended is None:
        return False
    return sum(file.size_bytes or 0 for file in job.files("stdouterr")) <= MAX_LOG_BYTES


def moments_of(job: Job, source: EventSource) -> Iterator[Moment]:
    """The moments of an ended run; `source` has all of its events, each in the order of its own kind."""
    resource = job.show()
    assert resource.execution
    assert resource.execution.ended
    start, end = resource.execution.started.timestamp(), resource.execution.ended.timestamp()
    all_events: list[Event] = []
    while not source.is_over:
        all_events += source.poll()
    events_by_time = sorted(_with_times(all_events, start, end), key=lambda pair: pair[0])
    execution = replace(resource.execution, ended=None, exit_code=None, errors=())
    running = replace(resource, state=ExecutionState.RUNNING, execution=execution, ranks=())
    yield Moment(start, [StateChanged(running), _nodes(resource, NodeState.RUNNING)])
    step_s = max(MIN_STEP_S, (end - start) / MAX_MOMENTS)
    streams = MetricStreams(job.patterns)
    events: list[Event] = []
    until = start + step_s
    for time_s, event in events_by_time:
        if time_s > until and events:
            if records := streams.flush():
                events.append(MetricsAdded(job.id, records))
            yield Moment(until, events)
            events = []
        until = max(until, start + step_s * (1 + (time_s - start) // step_s))
        events.append(event)
        if isinstance(event, LogBytes) and event.file.path in METRICS_FILES:
            added = streams.feed(event.file.path, event.chunk)
            if len(added):
                events.append(MetricsAdded(job.id, added, event.file))
    last = streams.finish()
    ended: list[Event] = [MetricsAdded(job.id, last)] if last else []
    yield Moment(end, [*events, *ended, _nodes(resource, NodeState.IDLE), StateChanged(resource)])


def _with_times(events: Iterable[Event], start: float, end: float) -> Iterator[tuple[float, Event]]:
    """The events with their times, between start and end of the run; without metrics and states."""
    for event in events:
        if isinstance(event, LogBytes):
            for time_s, chunk in _parts_by_time(event.chunk, start):
                is_first = chunk.offset == event.chunk.offset
                part = replace(event, chunk=chunk, restarted=event.restarted and is_first)
                yield min(end, max(start, time_s)), part
        elif isinstance(event, UsageSampled):
            for sample in event.record.samples:
                usage = replace(event.record, samples=(sample,))
                yield min(end, max(start, sample.time)), replace(event, record=usage)
        elif not isinstance(event, StateChanged | NodesChanged | MetricsAdded):
            yield end, event


def _parts_by_time(chunk: Chunk, start: float) -> Iterator[tuple[float, Chunk]]:
    """The parts of a chunk that were written at the same time, each with that time."""
    times = [(max(chunk.offset, t.start), t.time) for t in chunk.times if t.start < chunk.end]
    for (first, time_s), (last, _) in pairwise([(chunk.offset, start), *times, (chunk.end, 0.0)]):
        if last > first:
            yield time_s, chunk.part(first - chunk.offset, last - chunk.offset)


def _nodes(job: JobResource, state: NodeState) -> NodesChanged:
    states = [state] * job.spec.node_count
    counts = NodeStateCounts.counting(states if state is NodeState.RUNNING else ())
    return NodesChanged(job.id, counts, NodeStateCounts.counting(states))
