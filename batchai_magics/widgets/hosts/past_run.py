"""The events of a run that has ended, with the times at which a live view would have received them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from batchai_magics.backends.base import Chunk
from batchai_magics.follow import Event, LogBytes, MetricsAdded, NodesChanged, StateChanged, UsageSampled
from batchai_magics.follow.metric_streams import METRICS_FILES, MetricStreams
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState, NodeState
from batchai_magics.widgets.core.feed import Source

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job

MAX_LOG_BYTES = 64 << 20  # larger logs are not read again
MIN_STEP_S = 0.1  # between two moments
MAX_MOMENTS = 3000


class Moment(NamedTuple):
    """Events of about the same time, in seconds since 1970."""

    time: float
    events: list[Event]


def is_known(job: Job) -> bool:
    """Whether a run has ended and its logs are small enough to be read again."""
    resource = job.show()
    if not resource.state.is_final or resource.execution is None or resource.execution.ended is None:
        return False
    return sum(file.size_bytes or 0 for file in job.files("stdouterr")) <= MAX_LOG_BYTES


def moments_of(job: Job, source: Source) -> Iterator[Moment]:
    """The moments of an ended run; `source` has all of its events, each in the order of its own kind."""
    resource = job.show()
    assert resource.execution
    assert resource.execution.ended
    start, end = resource.execution.started.timestamp(), resource.execution.ended.timestamp()
    timed = sorted(_timed(_all_events(source), start, end), key=lambda pair: pair[0])
    yield Moment(start, [StateChanged(_running(resource)), _nodes(resource, NodeState.RUNNING)])
    step_s = max(MIN_STEP_S, (end - start) / MAX_MOMENTS)
    streams = MetricStreams(job.patterns)
    found: list[Event] = []
    until = start + step_s
    for time, event in timed:
        if time > until and found:
            yield Moment(until, [*found, *_settled(job, streams)])
            found = []
        until = max(until, start + step_s * (1 + (time - start) // step_s))
        found += [event, *_metrics(job, streams, event)]
    last = streams.finish()
    ended: list[Event] = [MetricsAdded(job.id, last)] if last else []
    yield Moment(end, [*found, *ended, _nodes(resource, NodeState.IDLE), StateChanged(resource)])


def _all_events(source: Source) -> Iterator[Event]:
    while not source.is_over:
        yield from source.poll()


def _timed(events: Iterable[Event], start: float, end: float) -> Iterator[tuple[float, Event]]:
    """Each event with its time, between start and end of the run; numbers are read again from the log."""
    for event in events:
        if isinstance(event, LogBytes):
            for time, chunk in _parts_by_time(event.chunk, start):
                is_first = chunk.offset == event.chunk.offset
                single = replace(event, chunk=chunk, restarted=event.restarted and is_first)
                yield min(end, max(start, time)), single
        elif isinstance(event, UsageSampled):
            for sample in event.record.samples:
                usage = replace(event.record, samples=(sample,))
                yield min(end, max(start, sample.time)), replace(event, record=usage)
        elif not isinstance(event, StateChanged | NodesChanged | MetricsAdded):
            yield end, event


def _parts_by_time(chunk: Chunk, start: float) -> Iterator[tuple[float, Chunk]]:
    """The parts of a chunk that were written at the same time."""
    times = [(max(chunk.offset, each.start), each.time) for each in chunk.times if each.start < chunk.end]
    known = [(chunk.offset, start), *times]
    for (first, time), (last, _) in pairwise([*known, (chunk.end, 0.0)]):
        if last > first:
            yield time, part(chunk, first - chunk.offset, last - chunk.offset)


def part(chunk: Chunk, start: int, end: int) -> Chunk:
    """The bytes `start` to `end` of a chunk, with what is known of them."""
    first, last = chunk.offset + start, chunk.offset + end
    spans = tuple(
        replace(span, start=max(span.start, first), end=min(span.end, last))
        for span in chunk.spans
        if span.start < last and span.end > first
    )
    return replace(chunk, data=chunk.data[start:end], offset=first, spans=spans)


def _metrics(job: Job, streams: MetricStreams, event: Event) -> list[Event]:
    if not isinstance(event, LogBytes) or event.file.path not in METRICS_FILES:
        return []
    records = streams.feed(event.file.path, event.chunk)
    return [MetricsAdded(job.id, records, event.file)] if len(records) else []


def _settled(job: Job, streams: MetricStreams) -> list[Event]:
    records = streams.flush()
    return [MetricsAdded(job.id, records)] if records else []


def _running(job: JobResource) -> JobResource:
    """The job as it was while it ran."""
    assert job.execution
    execution = replace(job.execution, ended=None, exit_code=None, errors=())
    return replace(job, state=ExecutionState.RUNNING, execution=execution, ranks=())


def _nodes(job: JobResource, state: NodeState) -> NodesChanged:
    states = [state] * job.spec.node_count
    counts = NodeStateCounts.counting(states if state is NodeState.RUNNING else ())
    return NodesChanged(job.id, counts, NodeStateCounts.counting(states))
