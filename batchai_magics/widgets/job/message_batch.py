"""The stream to one view: a cursor over what the page has, and the next batch of what it lacks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.log_numbers import POINT_BYTES, VALUE_BYTES
from batchai_magics.jobs.log_tail import LogTail
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.core.polled_model import PageData
from batchai_magics.widgets.core.view_stream import Batch
from batchai_magics.widgets.job.job_header import open_lines_of, status_of

LOG_BYTES = 1 << 15  # per message while following
REPLAY_BYTES = 1 << 17  # in the first message


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
        self._points = 0
        self._values: dict[str, int] = {}
        self._generation = 0
        self._positions: dict[str, _LogPosition] = {}
        self._sent_complete = False
        self._sent_status: PageData = {}
        self._sent_open_lines: list[PageData] = []
        self._sent_use = 0
        self._is_greeted = False
        self._log_limit = REPLAY_BYTES

    def rewind(
        self,
        points: int,
        logs: Mapping[str, int],
        *,
        values: Mapping[str, int] | None = None,
        generation: int = 0,
    ) -> None:
        """Sets what the view has: points and their generation, other values, bytes of each log file.

        At least one batch, the greeting, is sent afterwards.
        """
        self._points = points
        self._values = dict(values or {})
        self._generation = generation
        self._positions = {
            file: position for file, position in self._positions.items() if logs.get(file) == position.offset
        }
        self._sent_complete = False
        self._sent_status = {}
        self._sent_open_lines = []
        self._sent_use = 0
        self._is_greeted = False
        self._log_limit = REPLAY_BYTES

    def is_up_to_date(self, model: JobModel) -> bool:
        """Whether everything has been sent."""
        return (
            self._is_greeted
            and self._sent_complete == model.is_over
            and self._sent_use == model.use.version
            and self._has_all_numbers(model)
            and self._sent_status == status_of(model)
            and self._sent_open_lines == open_lines_of(model)
            and all(not self._is_stale(file, tail) for file, tail in model.tails.items())
        )

    def _has_all_numbers(self, model: JobModel) -> bool:
        return (
            self._generation == model.points.generation
            and self._points == len(model.points)
            and all(self._values.get(name, 0) == len(values) for name, values in model.points.others.items())
        )

    def next_batch(self, model: JobModel, limit_bytes: int) -> Batch | None:
        """Returns the next batch of about `limit_bytes` at most; None if the view is up to date."""
        if self.is_up_to_date(model) or limit_bytes < OVERHEAD_BYTES + POINT_BYTES:
            return None
        batch = Batch({"kind": "batch"})
        self._add_points(batch, model, limit_bytes)
        self._add_values(batch, model, limit_bytes)
        self._add_logs(batch, model, limit_bytes)
        self._add_status(batch, model)
        self.seq += 1
        self._is_greeted = True
        self._sent_complete = model.is_over
        batch.content.update(seq=self.seq, complete=model.is_over)
        return batch

    def _add_status(self, batch: Batch, model: JobModel) -> None:
        """Adds what is small, and sent as a whole: progress, unterminated lines and resource usage."""
        status, lines = status_of(model), open_lines_of(model)
        if status != self._sent_status:
            self._sent_status = batch.content["status"] = status
        if lines != self._sent_open_lines:
            self._sent_open_lines = batch.content["open"] = lines
        if self._sent_use != model.use.version:
            self._sent_use = model.use.version
            batch.content["use"] = True
            batch.buffers.append(model.use.to_json(model.records))

    def _add_points(self, batch: Batch, model: JobModel, limit_bytes: int) -> None:
        is_restarted = self._generation != model.points.generation
        if is_restarted:
            self._generation, self._points, self._values = model.points.generation, 0, {}
        count = max(0, min(len(model.points) - self._points, (limit_bytes - batch.size_bytes) // POINT_BYTES))
        if count or is_restarted:
            batch.content["points"] = {"first": self._points, "generation": self._generation}
            batch.buffers.extend(model.points.columns(self._points, count))
            self._points += count

    def _add_values(self, batch: Batch, model: JobModel, limit_bytes: int) -> None:
        parts = batch.content["values"] = []
        for name, values in model.points.others.items():
            first = self._values.get(name, 0)
            count = min(len(values) - first, (limit_bytes - batch.size_bytes) // VALUE_BYTES)
            if count > 0:
                parts.append({"name": name, "first": first})
                batch.buffers.extend(values.columns(first, count))
                self._values[name] = first + count

    def _add_logs(self, batch: Batch, model: JobModel, limit_bytes: int) -> None:
        parts = batch.content["logs"] = []
        for file, tail in model.tails.items():
            limit = min(self._log_limit, limit_bytes - batch.size_bytes)
            if limit > 0 and self._is_stale(file, tail):
                parts.append(self._part(file, tail, limit, batch.buffers))
        self._log_limit = LOG_BYTES

    def _is_stale(self, file: str, tail: LogTail) -> bool:
        position = self._positions.get(file)
        return position is None or position.offset < tail.end or position.generation != tail.generation

    def _part(self, file: str, tail: LogTail, limit: int, buffers: list[bytes]) -> PageData:
        position = self._positions.get(file)
        is_restarted = position is not None and position.generation != tail.generation
        if position is None or is_restarted:
            position = _LogPosition(0, 0, tail.generation)
        piece = tail.fragment(position.offset, limit, line=position.line)
        self._positions[file] = _LogPosition(piece.end, piece.line, tail.generation)
        buffers.append(piece.data)
        ranks = tail.ranks(piece)
        if ranks:
            buffers.append(ranks)
        return {
            "file": file,
            "offset": piece.offset,
            "size": tail.size,
            "skipped": piece.skipped_lines,
            "ranked": bool(ranks),
            "restarted": is_restarted,
        }
