"""What a block of lines gives: the numbers of the lines of each plan, and single records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

from batchai_magics.metrics.measurement import Record, measurement
from batchai_magics.metrics.reading.line_plan import MetricName

_POSITIONS = ("steps", "epochs", "ranks", "ends", "times")


class LineGroup:
    """The numbers of lines of one plan, in file order: a column for each metric.

    `rows` are the numbers of the lines within their block; `times` and the positions may be None.
    """

    __slots__ = ("ends", "epochs", "metrics", "ranks", "rows", "steps", "times", "values")

    rows: Sequence[int]
    steps: list[int | None]
    epochs: list[float | None]
    ranks: list[int | None]
    ends: list[int]
    times: list[float | None]
    values: list[Sequence[float]]

    def __init__(self, metrics: tuple[MetricName, ...]) -> None:
        self.metrics = metrics

    @classmethod
    def empty(cls, metrics: tuple[MetricName, ...]) -> LineGroup:
        """No lines, to which some are added one by one."""
        group = cls(metrics)
        for name in ("rows", *_POSITIONS):
            setattr(group, name, [])
        group.values = [[] for _ in metrics]
        return group

    def take(self, places: Sequence[int]) -> LineGroup:
        """Some of the lines, in this order."""
        if len(places) == len(self.rows):
            return self
        taken = LineGroup(self.metrics)
        for name in ("rows", *_POSITIONS):
            column = getattr(self, name)
            setattr(taken, name, [column[place] for place in places])
        taken.values = [[column[place] for place in places] for column in self.values]
        return taken

    def lines(self) -> Iterator[tuple[int, list[Record]]]:
        """The number and the records of each line."""
        positions = zip(self.rows, self.steps, self.epochs, self.ranks, self.ends, self.times, strict=True)
        for (row, step, epoch, rank, end, time), values in zip(
            positions, zip(*self.values, strict=True), strict=True
        ):
            yield (
                row,
                [
                    measurement((name, value, unit, step, epoch, rank, end, time, phase))
                    for (name, unit, phase), value in zip(self.metrics, values, strict=True)
                ],
            )


class Readings:
    """The records of a block of lines."""

    def __init__(self) -> None:
        self.groups: list[LineGroup] = []
        self.single: list[tuple[int, list[Record]]] = []

    def add(self, row: int, records: list[Record]) -> None:
        """Add the records that come with a line, in front of its own."""
        if records:
            self.single.append((row, records))

    def records(self) -> list[Record]:
        """All records in file order."""
        lines = [*self.single, *(line for group in self.groups for line in group.lines())]
        if len(self.groups) + bool(self.single) > 1:
            lines.sort(key=itemgetter(0))
        return [record for _, records in lines for record in records]
