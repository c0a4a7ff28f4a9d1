"""A column of numbers; some may be missing."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from types import NoneType
from typing import Any

MISSING = -(1 << 63)
"""Stands for None in an array of integers."""

_MISSING = {"q": MISSING, "d": math.nan}  # by the type code of an array
_KINDS = {int: "q", float: "d"}
_MIXED = "O"  # no array holds integers beside floats, or of more than 64 bits


class Column(Sequence[Any]):
    """Integers, floats and None, in order. Each takes 8 bytes; if all are equal, they take none."""

    __slots__ = ("_count", "_has_none", "_kind", "_stored")

    def __init__(self, numbers: Sequence[float | None] = ()) -> None:
        self._kind = ""  # as long as there is nothing but None
        self._stored: Any = []  # a single number if all are equal
        self._count = 0
        self._has_none = False
        if numbers:
            self.extend(numbers)

    @classmethod
    def repeated(cls, number: float | None, count: int) -> Column:
        """A number, `count` times."""
        column = cls([number] if count else ())
        column._count = count
        return column

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        if self.is_constant:
            return repeat(self[0], self._count) if self._count else iter(())
        return map(self._known, self._stored) if self._has_none else iter(self._stored)

    def __contains__(self, number: object) -> bool:
        return (number is not None or self._has_none) and any(number == other for other in self)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.take(range(*index.indices(self._count)))
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._known(self._stored[0 if self.is_constant else index]) if self._kind else None

    @property
    def is_missing(self) -> bool:
        """Whether all are None."""
        return not self._kind

    @property
    def is_constant(self) -> bool:
        """Whether all are known to be equal."""
        return len(self._stored) < 2 and self._kind != _MIXED

    def fillna(self, missing: float) -> Sequence[Any]:
        """The numbers for numpy, with `missing` for None; a single one if all are equal."""
        if self.is_missing:
            return [missing]
        if self._has_none and _MISSING.get(self._kind) not in (missing,):  # `in` finds NaN, too
            return [missing if number is None else number for number in self]
        return self._stored  # type: ignore[no-any-return]  # an array or a list

    def at(self, indices: Sequence[int]) -> Sequence[Any]:
        """The numbers at these indices, as a sequence that is fast to read."""
        if self.is_constant:
            return [self[0]] * len(indices)
        if isinstance(indices, range):
            numbers = self._stored[indices.start : indices.stop : indices.step]
        else:
            numbers = [*map(self._stored.__getitem__, indices)]
        return [*map(self._known, numbers)] if self._has_none else numbers

    def take(self, indices: Sequence[int]) -> Column:
        """The numbers at these indices."""
        column = Column()
        if not indices:
            return column
        column._kind, column._has_none, column._count = self._kind, self._has_none, len(indices)
        if self.is_constant:
            column._stored = self._stored[:]
        elif isinstance(indices, range):
            column._stored = self._stored[indices.start : indices.stop : indices.step]
        else:
            numbers = [*map(self._stored.__getitem__, indices)]
            column._stored = numbers if self._kind == _MIXED else array(self._kind, numbers)
        return column

    def extend(self, numbers: Sequence[float | None]) -> None:
        """Append numbers."""
        kind, part, has_none = _packed(numbers)
        if kind and kind != self._kind:
            kind_of_all = _MIXED if self._kind else kind
            is_mixed = kind_of_all == _MIXED  # else, those before are all None
            self._stored = [*self] if is_mixed else array(kind, [_MISSING[kind]] * bool(self._count))
            self._kind = kind_of_all
        if self._kind == _MIXED:
            self._stored.extend(numbers)
        elif self._kind:
            self._append(part if kind else array(self._kind, [_MISSING[self._kind]]) * len(numbers))
        self._has_none |= has_none
        self._count += len(numbers)

    def _known(self, number: Any) -> Any:
        return None if self._has_none and (number == MISSING or number != number) else number

    def _append(self, part: array[Any]) -> None:
        first = self._stored or part[:1]
        if len(first) == 1 and part.tobytes() == first.tobytes() * len(part):
            self._stored = first
            return
        if self._count > len(self._stored):
            self._stored *= self._count
        self._stored.extend(part)


def _packed(numbers: Sequence[float | None]) -> tuple[str, Any, bool]:
    """The type code (empty if all are None), the numbers to store, and whether None is among them."""
    if isinstance(numbers, array):
        return numbers.typecode, numbers, False
    if isinstance(numbers, Column):
        stored = numbers._stored * (len(numbers) if numbers.is_constant else 1)
        return numbers._kind, stored, numbers._has_none
    if not numbers or (numbers[0] is None and numbers.count(None) == len(numbers)):
        return "", [], bool(numbers)
    try:
        return "q", array("q", numbers), False
    except (TypeError, OverflowError):  # not all are integers
        types = {*map(type, numbers)}
    has_none = NoneType in types
    kinds = {_KINDS.get(number_type, _MIXED) for number_type in types - {NoneType}}
    kind = _MIXED if len(kinds) > 1 else "".join(kinds)
    if kind in _MISSING and has_none:
        known: Iterable[Any] = [_MISSING[kind] if number is None else number for number in numbers]
    else:
        known = numbers
    try:
        return kind, array(kind, known) if kind in _MISSING else numbers, has_none
    except OverflowError:
        return _MIXED, numbers, has_none
