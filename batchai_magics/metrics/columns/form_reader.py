"""Reads all lines of one form at once: their numbers stand at the same places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.columns.prefix_columns import seconds_of
from batchai_magics.metrics.formats.line_plan import LinePlan, Role
from batchai_magics.metrics.reading.timestamps import EARLIEST_S, EPOCH_UNITS, LATEST_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_NUMBER = re.compile(rb"([-+]?)(\d*|\d{1,3}(?:,\d{3})+)\.?(\d*)(?:[eE]([-+]?)(\d+))?")
_MAX_DIGITS = 15  # of a number that is exact as a float, like the power of ten that scales it
_MAX_POWER = 22
_POWERS = 10.0 ** np.arange(_MAX_POWER + 1)
_ZERO = ord("0")


@dataclass(frozen=True)
class FormColumns:
    """The numbers of some lines of a form, a row each; `values` has a column for each metric of the shape."""

    step: Array | None
    epoch: Array | None
    rank: Array | None
    time: Array | None
    values: Array


class FormReader:
    """Reads the lines of a form that has a plan."""

    def __init__(self, plan: LinePlan, form: bytes) -> None:
        self.plan, self.width = plan, len(form)
        self.is_whole_epoch = plan.form.epoch is not None and form[plan.form.epoch].isdigit()
        self.has_zone = plan.form.seconds is not None or (
            plan.timestamp is not None and plan.timestamp.has_zone
        )
        counts = (plan.form.step, plan.form.epoch, plan.form.rank)
        self._counts = [None if place is None else _Number(form, place) for place in counts]
        shape = plan.form.shape
        self._seconds = None if plan.form.seconds is None else _Number(form, plan.form.seconds)
        self._numbers = [
            _Number(form, place, factor, divisor)
            for (_, _, place), factor, divisor in zip(
                plan.form.numbers, shape.factors, shape.divisors or repeat(1.0), strict=False
            )
        ]

    @classmethod
    def of(cls, plan: LinePlan, form: bytes) -> FormReader | None:
        """The reader for a form; None if its lines must be read one by one."""
        names = [metric.name for metric, _, _ in plan.form.numbers]
        if plan.begin or plan.has_glog or plan.role is Role.OTHER or len({*names}) < len(names):
            return None
        places = [plan.form.step, plan.form.rank]
        counts = [form[place].replace(b",", b"") for place in places if place]
        if not all(count.isdigit() and len(count) <= _MAX_DIGITS for count in counts):
            return None
        return cls(plan, form)

    def fits(self, text: Array, starts: Array) -> Array:
        """Whether each line at these places is read like the form."""
        fits = np.ones(len(starts), np.bool_)
        for place, digits in self.plan.form.fixed:
            fits &= _is_text(text, starts + place.start, digits)
        for place, refused in self.plan.form.refused:
            if isinstance(refused, bytes):
                fits &= ~_is_text(text, starts + place.start, refused)
            elif place.stop - place.start == refused.stop - refused.start:
                fits &= ~_is_same(text, starts, place, refused)
        return fits

    def read(self, text: Array, starts: Array) -> FormColumns:
        """The numbers of the lines that start at some places of a text."""
        chars = windows(text, self.width)[starts]
        step, epoch, rank = (None if number is None else number.read(chars) for number in self._counts)
        time = None if self.plan.timestamp is None else seconds_of(chars, self.plan.timestamp)
        if self._seconds is not None:
            time = _epoch_seconds(self._seconds.read(chars))
        values = np.empty((len(starts), len(self._numbers)))
        for column, number in enumerate(self._numbers):
            values[:, column] = number.read(chars)
        return FormColumns(_integers(step), epoch, _integers(rank), time, values)


class _Number:
    """A number at a place of all lines of a form."""

    def __init__(self, form: bytes, place: slice, factor: float = 1.0, divisor: float = 1.0) -> None:
        self._place, self._factor, self._divisor = place, factor, divisor
        self._text = form[place]
        found = _NUMBER.fullmatch(self._text)
        self._sign = -1.0 if self._text[:1] == b"-" else 1.0
        self._digits, self._exponent, self._decimals, self._exponent_sign = list[int](), list[int](), 0, 1
        if found:
            begin, middle = place.start, place.start + found.start(4 if found[5] else 0) - 1
            end = middle if found[5] else place.stop
            self._digits = [at for at in range(begin, end) if form[at : at + 1].isdigit()]
            self._decimals = len(found[3])
            self._exponent = [place.start + at for at in range(*found.span(5))] if found[5] else []
            self._exponent_sign = -1 if found[4] == b"-" else 1

    def read(self, chars: Array) -> Array:
        """The number in each row of characters."""
        number = self._read(chars)
        return number if self._divisor == 1 else number / self._divisor

    def _read(self, chars: Array) -> Array:
        if not self._digits:
            return np.full(len(chars), float(self._text) * self._factor)
        if len(self._digits) > _MAX_DIGITS:
            return self._parsed(chars)
        number = _decimal(chars, self._digits)
        if self._exponent:
            powers = self._exponent_sign * _decimal(chars, self._exponent).astype(np.int64) - self._decimals
            if np.abs(powers).max(initial=0) > _MAX_POWER:
                return self._parsed(chars)
            number = np.where(powers < 0, number / _POWERS[np.abs(powers)], number * _POWERS[np.abs(powers)])
        elif self._decimals:
            number = number / _POWERS[self._decimals]
        if self._sign < 0:
            number = -number
        return number if self._factor == 1 else number * self._factor

    def _parsed(self, chars: Array) -> Array:
        """The numbers one by one: they have too many digits."""
        texts = np.ascontiguousarray(chars[:, self._place]).tobytes()
        width = self._place.stop - self._place.start
        parts = (texts[at : at + width].replace(b",", b"") for at in range(0, len(texts), width))
        return np.array([float(part) * self._factor for part in parts])


def _decimal(chars: Array, places: Sequence[int]) -> Array:
    """The whole numbers whose digits are in these columns."""
    number: Array = chars[:, places[0]].astype(np.float64) - _ZERO
    for place in places[1:]:
        number *= 10
        number += chars[:, place]
        number -= _ZERO
    return number


def _is_text(text: Array, places: Array, expected: bytes) -> Array:
    """Whether this text stands at each place."""
    is_text = np.ones(len(places), np.bool_)
    for at, char in enumerate(expected):
        is_text &= text[places + at] == char
    return is_text


def _is_same(text: Array, starts: Array, first: slice, second: slice) -> Array:
    """Whether the same text stands at two places of each line."""
    is_same = np.ones(len(starts), np.bool_)
    for at in range(first.stop - first.start):
        is_same &= text[starts + first.start + at] == text[starts + second.start + at]
    return is_same


def _epoch_seconds(numbers: Array) -> Array:
    """Seconds, ms, µs or ns since 1970 as seconds; NaN for what is no time."""
    seconds = np.full(len(numbers), np.nan)
    for unit in reversed(EPOCH_UNITS):
        is_time = (numbers >= EARLIEST_S * unit) & (numbers < LATEST_S * unit)
        seconds[is_time] = numbers[is_time] / unit
    return seconds


def _integers(numbers: Array | None) -> Array | None:
    return None if numbers is None else numbers.astype(np.int64)


def windows(text: Array, width: int) -> Array:
    """So many characters from each place of a text on, a row each."""
    return np.lib.stride_tricks.as_strided(
        text, (max(0, len(text) - width + 1), width), (1, 1), writeable=False
    )
