"""The stream to one view: what it has, and the next message of what it lacks. Pure: nothing is sent here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.job.facts import open_lines_of, standing_of
from batchai_magics.widgets.job.feed import JobFeed
from batchai_magics.widgets.job.points import POINT_BYTES, VALUE_BYTES
from batchai_magics.widgets.job.tail import Tail

LOG_BYTES = 1 << 15  # of one message while following
REPLAY_BYTES = 1 << 17  # of the first one


@dataclass(frozen=True)
class Batch:
    """A message: its content and its binary buffers."""

    content: dict[str, Any]
    buffers: list[bytes] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """About how much goes over the wire."""
        return OVERHEAD_BYTES + sum(map(len, self.buffers))


@dataclass
class _Place:
    """How far a view has come in one file."""

    offset: int
    line: int
    generation: int


class Cursor:
    """How far a view has come. What it lacks is made into batches, each with the next sequence number."""

    def __init__(self) -> None:
        self.seq = 0
        self._points = 0
        self._values: dict[str, int] = {}
        self._generation = 0
        self._places: dict[str, _Place] = {}
        self._told_complete = False
        self._told_standing: dict[str, Any] = {}
        self._told_open: list[dict[str, Any]] = []
        self._told_use = 0
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
        """The view has only this much: points, other values, bytes of each log file.

        `generation` is that of the points. At least a greeting is sent.
        """
        self._points = points
        self._values = dict(values or {})
        self._generation = generation
        self._places = {file: place for file, place in self._places.items() if logs.get(file) == place.offset}
        self._told_complete = False
        self._told_standing = {}
        self._told_open = []
        self._told_use = 0
        self._is_greeted = False
        self._log_limit = REPLAY_BYTES

    def has_all(self, feed: JobFeed) -> bool:
        """Whether nothing is left to be sent."""
        return (
            self._is_greeted
            and self._told_complete == feed.is_over
            and self._told_use == feed.use.version
            and self._has_numbers(feed)
            and self._told_standing == standing_of(feed)
            and self._told_open == open_lines_of(feed)
            and all(not self._lacks(file, tail) for file, tail in feed.tails.items())
        )

    def _has_numbers(self, feed: JobFeed) -> bool:
        return (
            self._generation == feed.points.generation
            and self._points == len(feed.points)
            and all(self._values.get(name, 0) == len(values) for name, values in feed.points.others.items())
        )

    def next_batch(self, feed: JobFeed, limit_bytes: int) -> Batch | None:
        """The next message, at most about `limit_bytes` long; None if the view has all."""
        if self.has_all(feed) or limit_bytes < OVERHEAD_BYTES + POINT_BYTES:
            return None
        batch = Batch({"kind": "batch"})
        self._add_points(batch, feed, limit_bytes)
        self._add_values(batch, feed, limit_bytes)
        self._add_logs(batch, feed, limit_bytes)
        self._add_standing(batch, feed)
        self._add_open_lines(batch, feed)
        self._add_use(batch, feed)
        self.seq += 1
        self._is_greeted = True
        self._told_complete = feed.is_over
        batch.content.update(seq=self.seq, complete=feed.is_over)
        return batch

    def _add_open_lines(self, batch: Batch, feed: JobFeed) -> None:
        lines = open_lines_of(feed)
        if lines != self._told_open:
            self._told_open = batch.content["open"] = lines

    def _add_standing(self, batch: Batch, feed: JobFeed) -> None:
        standing = standing_of(feed)
        if standing != self._told_standing:
            self._told_standing = batch.content["standing"] = standing

    def _add_use(self, batch: Batch, feed: JobFeed) -> None:
        """What its processes use: little, and whole whenever there is more of it."""
        if self._told_use != feed.use.version:
            self._told_use = feed.use.version
            batch.content["use"] = True
            batch.buffers.append(feed.use.packed(feed.records))

    def _add_points(self, batch: Batch, feed: JobFeed, limit_bytes: int) -> None:
        is_restarted = self._generation != feed.points.generation
        if is_restarted:
            self._generation, self._points, self._values = feed.points.generation, 0, {}
        count = max(0, min(len(feed.points) - self._points, (limit_bytes - batch.size_bytes) // POINT_BYTES))
        if count or is_restarted:
            batch.content["points"] = {"first": self._points, "generation": self._generation}
            batch.buffers.extend(feed.points.columns(self._points, count))
            self._points += count

    def _add_values(self, batch: Batch, feed: JobFeed, limit_bytes: int) -> None:
        parts = batch.content["values"] = []
        for name, values in feed.points.others.items():
            first = self._values.get(name, 0)
            count = min(len(values) - first, (limit_bytes - batch.size_bytes) // VALUE_BYTES)
            if count > 0:
                parts.append({"name": name, "first": first})
                batch.buffers.extend(values.columns(first, count))
                self._values[name] = first + count

    def _add_logs(self, batch: Batch, feed: JobFeed, limit_bytes: int) -> None:
        parts = batch.content["logs"] = []
        for file, tail in feed.tails.items():
            limit = min(self._log_limit, limit_bytes - batch.size_bytes)
            if limit > 0 and self._lacks(file, tail):
                parts.append(self._part(file, tail, limit, batch.buffers))
        self._log_limit = LOG_BYTES

    def _lacks(self, file: str, tail: Tail) -> bool:
        place = self._places.get(file)
        return place is None or place.offset < tail.end or place.generation != tail.generation

    def _part(self, file: str, tail: Tail, limit: int, buffers: list[bytes]) -> dict[str, Any]:
        place = self._places.get(file)
        is_restarted = place is not None and place.generation != tail.generation
        if place is None or is_restarted:
            place = _Place(0, 0, tail.generation)
        piece = tail.piece(place.offset, limit, line=place.line)
        self._places[file] = _Place(piece.end, piece.line, tail.generation)
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
