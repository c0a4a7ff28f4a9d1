"""The live view of a job: the model of a job that is followed, and the stream of one view."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from batchai_magics.follow import Follower, StateChanged
from batchai_magics.jobs.job_handle import Job, processes_of
from batchai_magics.jobs.job_model import EventSource, JobModel
from batchai_magics.jobs.log_numbers import VALUE_BYTES
from batchai_magics.jobs.log_tail import LogTail
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.jobs.watch_records import stalled_s
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES, AckWindow, Schedule
from batchai_magics.widgets.core.view_stream import Batch, PageData, RunInBackground, ViewStream, reply_to
from batchai_magics.widgets.job.job_header import (
    counts_of,
    facts_of,
    open_lines_of,
    profile_fields,
    status_of,
)
from batchai_magics.widgets.job.page_requests import OpenJob, RequestHandler

LOG_BYTES = 1 << 15  # per message while following
REPLAY_BYTES = 1 << 17  # in the first message


def follow_job(job: Job, source: EventSource | None = None) -> JobModel:
    """The model of a job with its current state; it follows `source`, by default all of the job's events."""
    resource = job.show()
    model = JobModel(
        source or follower_of(job),
        processes=processes_of(job.backend, resource),
        patterns=job.patterns,
        preferences=metric_preferences(patterns=job.patterns),
    )
    model.take(StateChanged(resource))
    return model


def follower_of(job: Job) -> Follower:
    """A follower of all events of a job."""
    return Follower(job.backend, job.id, patterns=job.patterns, with_telemetry=True, stalled_s=stalled_s())


class JobStream(ViewStream):
    """The stream of one view of a job: header and tabs are its state, log and points its messages."""

    script = "job_view"
    _model: JobModel

    def __init__(
        self,
        job: Job,
        model: JobModel,
        *,
        work: RunInBackground,
        schedule: Schedule = lambda call: call(),
        open_job: OpenJob | None = None,
        is_read_only: bool = False,
    ) -> None:
        self._requests = RequestHandler(job, model, open_job, is_read_only=is_read_only)
        self._rights = {
            "can_again": open_job is not None and not is_read_only,
            "can_profile": job.backend.node_commands is not None and not is_read_only,
            "is_read_only": is_read_only,
        }
        self._ack_window = AckWindow(schedule)
        self._cursor = Cursor()
        self._hello: PageData | None = None
        self.is_hello_new = False  # a page has said hello, which has not been handled yet
        self.is_detached = False
        super().__init__(model, work=work, clock=time.monotonic)

    @property
    def is_gone(self) -> bool:
        """Whether nothing more is to be sent."""
        return self.is_removed or self.is_detached

    @property
    def is_unwatched(self) -> bool:
        """Never: the job is followed with or without a page."""
        return False

    @property
    def is_up_to_date(self) -> bool:
        """Whether the page has been sent everything, or no longer acknowledges messages."""
        with self._lock:
            is_waiting = bool(self._replies) or self._hello is not None
        if is_waiting or self._version != self._model.version:
            return False
        return self._cursor.is_up_to_date(self._model) or not self._ack_window.is_open

    def current_state(self) -> PageData:
        """What the header and the tabs show."""
        facts = facts_of(self._model)
        return {
            "facts": {**facts, **self._rights} if facts else facts,
            "counts": counts_of(self._model),
            "history": list(self._model.history),
            "files": self._model.files,
            "profile": profile_fields(self._model),
        }

    def next_message(self, limit_bytes: int) -> Batch | None:
        """The next batch of what the page lacks, unless the page has stopped to acknowledge messages."""
        with self._lock:
            hello, self._hello = self._hello, None
        if hello is not None:
            self._cursor.rewind(
                dict(hello.get("logs", {})),
                values=dict(hello.get("values", {})),
                generation=int(hello.get("generation", 0)),
            )
        batch = self._cursor.next_batch(self._model, limit_bytes) if self._ack_window.is_open else None
        self._ack_window.sent(self._cursor.seq)
        return batch

    def on_hello(self, content: PageData) -> None:
        """A page has said hello, and what it has already."""
        self._hello = dict(content.get("have") or {})
        self.is_hello_new = True
        self._ack_window.acknowledge()

    def on_message(self, content: PageData) -> None:
        """The page acknowledges messages."""
        if content.get("kind") == "alive":
            self._ack_window.acknowledge(int(content.get("seq", 0)))

    def respond(self, content: PageData) -> Batch:
        """The reply to a request: to detach the view, or about the job; may block."""
        if content.get("kind") == "detach":
            self.is_detached = True
            return reply_to(content, text="detached: the job keeps running")
        return self._requests.handle(content)

    def keep(self) -> None:
        """Tells the page to keep the view although its output is about to be frozen."""
        self.carrier.transmit(Batch({"kind": "keep"}))


@dataclass
class _LogPosition:
    """A view's position in a log file."""

    offset: int
    line: int
    generation: int


class Cursor:
    """A view's position in a job's model; produces the batches that it lacks, in sequence."""

    def __init__(self) -> None:
        self.seq = 0
        self._positions: dict[str, _LogPosition] = {}
        self.rewind({})

    def rewind(
        self, logs: Mapping[str, int], *, values: Mapping[str, int] | None = None, generation: int = 0
    ) -> None:
        """Sets what the view has: bytes of each log file, values of each metric and their generation.

        At least one batch, the greeting, is sent afterwards.
        """
        self._values = dict(values or {})
        self._generation = generation
        self._positions = {
            file: position for file, position in self._positions.items() if logs.get(file) == position.offset
        }
        self._sent_complete = False
        self._sent_status: PageData = {}
        self._sent_open_lines: list[PageData] = []
        self._sent_use = 0
        self._is_greeted = False
        self._log_limit = REPLAY_BYTES

    def is_up_to_date(self, model: JobModel) -> bool:
        """Whether everything has been sent."""
        return (
            self._is_greeted
            and self._sent_complete == model.is_over
            and self._sent_use == model.use.version
            and self._generation == model.numbers.generation
            and all(self._values.get(name, 0) == len(values) for name, values in model.numbers.series.items())
            and self._sent_status == status_of(model)
            and self._sent_open_lines == open_lines_of(model)
            and all(not self._is_stale(file, tail) for file, tail in model.tails.items())
        )

    def next_batch(self, model: JobModel, limit_bytes: int) -> Batch | None:
        """Returns the next batch of about `limit_bytes` at most; None if the view is up to date."""
        if self.is_up_to_date(model) or limit_bytes < OVERHEAD_BYTES + VALUE_BYTES:
            return None
        batch = Batch({"kind": "batch"})
        self._add_values(batch, model, limit_bytes)
        self._add_logs(batch, model, limit_bytes)
        self._add_status(batch, model)
        self.seq += 1
        self._is_greeted = True
        self._sent_complete = model.is_over
        batch.content.update(seq=self.seq, complete=model.is_over)
        return batch

    def _add_status(self, batch: Batch, model: JobModel) -> None:
        """Adds progress, unterminated lines and resource usage, each as a whole if it has changed."""
        status, lines = status_of(model), open_lines_of(model)
        if status != self._sent_status:
            self._sent_status = batch.content["status"] = status
        if lines != self._sent_open_lines:
            self._sent_open_lines = batch.content["open"] = lines
        if self._sent_use != model.use.version:
            self._sent_use = model.use.version
            batch.content["use"] = True
            slow = model.numbers.stragglers if model.use.has_several_ranks else ()
            batch.buffers.append(model.use.to_json(slow))

    def _add_values(self, batch: Batch, model: JobModel, limit_bytes: int) -> None:
        """Adds values of each metric; values of one line share their positions."""
        if self._generation != model.numbers.generation:
            self._generation, self._values = model.numbers.generation, {}
        batch.content["generation"] = self._generation
        parts = batch.content["values"] = []
        positions: tuple[bytes, ...] = ()
        missing = {
            name: values
            for name, values in model.numbers.series.items()
            if len(values) > self._values.get(name, 0)
        }
        share = (limit_bytes - batch.size_bytes) // (VALUE_BYTES * max(1, len(missing)))
        for name, values in missing.items():
            first = self._values.get(name, 0)
            count = min(max(1, share), len(values) - first)
            if batch.size_bytes + count * VALUE_BYTES > limit_bytes:
                break
            steps, ranks, numbers, epochs, times = values.columns(first, count)
            is_same = positions == (steps, ranks, epochs, times)
            positions = (steps, ranks, epochs, times)
            parts.append({"name": name, "first": first, "is_at_same": is_same})
            batch.buffers.extend([numbers] if is_same else [steps, ranks, numbers, epochs, times])
            self._values[name] = first + count

    def _add_logs(self, batch: Batch, model: JobModel, limit_bytes: int) -> None:
        """Adds a part of each log that the view lacks, with its ranks."""
        parts = batch.content["logs"] = []
        for file, tail in model.tails.items():
            limit = min(self._log_limit, limit_bytes - batch.size_bytes)
            if limit <= 0 or not self._is_stale(file, tail):
                continue
            position = self._positions.get(file)
            is_restarted = position is not None and position.generation != tail.generation
            if position is None or is_restarted:
                position = _LogPosition(0, 0, tail.generation)
            fragment = tail.fragment(position.offset, limit, line=position.line)
            self._positions[file] = _LogPosition(fragment.end, fragment.line, tail.generation)
            ranks = tail.ranks(fragment)
            batch.buffers.extend([fragment.data, ranks] if ranks else [fragment.data])
            parts.append(
                {
                    "file": file,
                    "offset": fragment.offset,
                    "size": tail.size,
                    "skipped": fragment.skipped_lines,
                    "ranked": bool(ranks),
                    "restarted": is_restarted,
                }
            )
        self._log_limit = LOG_BYTES

    def _is_stale(self, file: str, tail: LogTail) -> bool:
        position = self._positions.get(file)
        return position is None or position.offset < tail.end or position.generation != tail.generation
