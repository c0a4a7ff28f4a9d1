"""A column of numbers, some of which may be missing."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from types import NoneType
from typing import Any

MISSING = -(1 << 63)
"""What stands for None among integers in an array."""

_KINDS = {int: "q", float: "d"}
_MISSING = {"q": MISSING, "d": math.nan}
_MIXED = "O"  # no array holds integers beside floats, or of more than 64 bits


class Column(Sequence[Any]):
    """Integers or floats in order, None among them. Each takes 8 bytes; if all are equal, they take none."""

    __slots__ = ("_count", "_has_none", "_kind", "_stored")

    def __init__(self, numbers: Sequence[float | None] = ()) -> None:
        self._kind = ""  # as long as there is nothing but None
        self._stored: Any = []  # a single number if all are equal
        self._count = 0
        self._has_none = False
        self.extend(numbers)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        if self.is_constant:
            return repeat(self[0], self._count) if self._count else iter(())
        return map(self._known, self._stored) if self._has_none else iter(self._stored)

    def __contains__(self, number: object) -> bool:
        return (number is not None or self._has_none) and any(number == each for each in self)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self.take(range(*place.indices(self._count)))
        if not -self._count <= place < self._count:
            raise IndexError(place)
        return self._known(self._stored[0 if self.is_constant else place]) if self._kind else None

    @property
    def is_missing(self) -> bool:
        """Whether all are None."""
        return not self._kind

    @property
    def is_constant(self) -> bool:
        """Whether all are known to be equal."""
        return len(self._stored) < 2 and self._kind != _MIXED

    def filled(self, missing: float) -> Sequence[Any]:
        """The numbers for numpy, with `missing` for None; a single one if all are equal."""
        if self._has_none:
            return [missing if number is None else number for number in self]
        return self._stored  # type: ignore[no-any-return]  # an array or a list

    def take(self, places: Sequence[int]) -> Column:
        """The numbers at these places."""
        taken = Column()
        taken._kind, taken._has_none, taken._count = self._kind, self._has_none, len(places)
        if self.is_constant:
            taken._stored = self._stored[:]
        elif isinstance(places, range):
            taken._stored = self._stored[places.start : places.stop : places.step]
        else:
            taken._stored = self._packed(map(self._stored.__getitem__, places))
        return taken

    def extend(self, numbers: Sequence[float | None]) -> None:
        """Add numbers behind the others."""
        types = {*map(type, numbers)}
        kinds = {*self._kind, *(_KINDS.get(kind, _MIXED) for kind in types - {NoneType})}
        self._has_none |= NoneType in types
        if kinds:
            self._convert(kinds.pop() if len(kinds) == 1 else _MIXED)
        try:
            self._append(numbers, has_none=NoneType in types)
        except OverflowError:
            self._convert(_MIXED)
            self._append(numbers, has_none=False)

    def _known(self, number: Any) -> Any:
        return None if self._has_none and (number == MISSING or number != number) else number

    def _convert(self, kind: str) -> None:
        """Store the numbers as another kind."""
        if kind == self._kind:
            return
        numbers, self._kind, self._count = [*self], kind, 0
        self._stored = self._packed(())
        self._append(numbers, has_none=self._has_none)

    def _append(self, numbers: Sequence[float | None], *, has_none: bool) -> None:
        if self._kind:
            missing = _MISSING.get(self._kind)
            part = self._packed(
                [missing if each is None else each for each in numbers] if has_none else numbers
            )
            first = self._stored or part[:1]
            if self._kind != _MIXED and len(first) == 1 and part.tobytes() == first.tobytes() * len(part):
                self._stored = first
            else:
                if self._count > len(self._stored):
                    self._stored *= self._count
                self._stored.extend(part)
        self._count += len(numbers)

    def _packed(self, numbers: Iterable[Any]) -> Any:
        return [*numbers] if self._kind == _MIXED else array(self._kind, numbers)
