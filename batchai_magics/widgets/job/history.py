"""All records of a job that goes on: many are kept as columns, which the garbage collector never visits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from batchai_magics.metrics.record import Record

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.bulk.columns import Columns

MOST_LOOSE = 8000  # records that are kept one by one: more than are looked through again and again


class History(Collection[Record]):
    """Records in the order of their log."""

    def __init__(self) -> None:
        self._packed: list[Collection[Record]] = []
        self._loose: list[Record] = []  # behind the packed ones
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        for part in self._packed:
            yield from part
        yield from self._loose

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)

    def add(self, records: tuple[Record, ...] | Columns) -> None:
        """Takes the next ones."""
        self._count += len(records)
        if isinstance(records, tuple):
            self._loose.extend(records)
            if len(self._loose) >= MOST_LOOSE:
                self._pack()
        else:
            self._pack()
            self._packed.append(records)

    def clear(self) -> None:
        """Forgets all: the log starts again."""
        self._packed, self._loose, self._count = [], [], 0

    def _pack(self) -> None:
        from batchai_magics.metrics.reading.bulk.columns import Columns

        if self._loose:
            self._packed.append(Columns.of(self._loose))
            self._loose = []
