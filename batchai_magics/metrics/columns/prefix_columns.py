"""What stands before messages, all of a buffer at once: rows of one shape are read together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.columns.record_columns import NO_RANK
from batchai_magics.metrics.reading.line_prefixes import (
    DIGITS_TO_ZERO,
    MAX_PREFIX_BYTES,
    PrefixShape,
    TimestampSlices,
    parse_timestamp_cached,
    prefix_shape,
)
from batchai_magics.metrics.reading.timestamps import LATEST_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_ISO = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_MONTH_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_MOST_SHAPES = 64  # of one width in a block; more are left to the parser
_ZERO = ord("0")


@dataclass(frozen=True)
class Leads:
    """Some leads, a row each; only rows with `is_lead` hold. Ranks may be NO_RANK, `seconds` NaN.

    `is_exact` says that a time is told with its zone.
    """

    is_lead: Array
    has_tag: Array
    tag_rank: Array
    label: Array
    seconds: Array
    is_exact: Array


def read_leads(text: Array, begin: Array, end: Array, *, has_times: bool = True) -> Leads:
    """What stands in a text between these places says; the time only on request."""
    count = len(begin)
    leads = Leads(
        is_lead=begin == end,
        has_tag=np.zeros(count, np.bool_),
        tag_rank=np.full(count, NO_RANK),
        label=np.full(count, NO_RANK),
        seconds=np.full(count, np.nan),
        is_exact=np.zeros(count, np.bool_),
    )
    for rows, chars, shape in _by_shape(text, begin, end - begin):
        leads.is_lead[rows] = True
        leads.has_tag[rows] = shape.name is not None
        if shape.tag_rank:
            leads.tag_rank[rows] = _numbers(chars[:, shape.tag_rank])
        if shape.label:
            leads.label[rows] = _numbers(chars[:, shape.label])
        if shape.timestamps and has_times:
            leads.seconds[rows], leads.is_exact[rows] = _first_seconds(chars, shape.timestamps)
    return leads


def is_equal(text: Array, first: Array, second: Array, width: Array) -> Array:
    """Whether the same characters stand at two places of a text, in so great a width, row by row."""
    result = np.zeros(len(first), np.bool_)
    for each in np.flatnonzero(np.bincount(width)).tolist():
        rows = np.flatnonzero(width == each)
        result[rows] = _chars(text, first[rows], each) == _chars(text, second[rows], each)
    return result


def _chars(text: Array, begin: Array, width: int) -> Array:
    """So many characters from each place on, as one value."""
    return _as_words(_windows(text, width)[begin])


def _windows(text: Array, width: int) -> Array:
    return np.lib.stride_tricks.as_strided(text, (len(text) - width + 1, width), (1, 1), writeable=False)


def _by_shape(text: Array, begin: Array, width: Array) -> Iterator[tuple[Array, Array, PrefixShape]]:
    """The rows of each shape, with their characters: a row each."""
    is_possible = (width > 0) & (width <= MAX_PREFIX_BYTES)
    for each in np.flatnonzero(np.bincount(width[is_possible])).tolist():
        rows = np.flatnonzero(width == each)
        chars = _windows(text, each)[begin[rows]]
        zeroed = np.frombuffer(chars.tobytes().translate(DIGITS_TO_ZERO), f"S{each}")
        for _ in range(_MOST_SHAPES):
            if not len(rows):
                break
            shape, is_other = prefix_shape(zeroed[0].tobytes()), zeroed != zeroed[0]
            if shape and not is_other.any():
                yield rows, chars, shape
                break
            if shape:
                yield rows[~is_other], chars[~is_other], shape
            rows, chars, zeroed = rows[is_other], chars[is_other], zeroed[is_other]


def _as_words(chars: Array) -> Array:
    """Each row as one value."""
    return np.ascontiguousarray(chars).view(f"S{chars.shape[1]}").ravel()


def _numbers(digits: Array) -> Array:
    numbers: Array = (digits - _ZERO) @ 10 ** np.arange(digits.shape[1])[::-1]
    return numbers


def _first_seconds(chars: Array, stamps: tuple[TimestampSlices, ...]) -> tuple[Array, Array]:
    """The times of the first stamps that tell one, and whether these tell the zone."""
    seconds, is_exact = np.full(len(chars), np.nan), np.zeros(len(chars), np.bool_)
    for place in stamps:
        is_open = np.isnan(seconds)
        if not is_open.any():
            break
        seconds = np.where(is_open, seconds_of(chars, place), seconds)
        is_exact[is_open & ~np.isnan(seconds)] = place.has_zone
    return seconds, is_exact


def seconds_of(chars: Array, place: TimestampSlices) -> Array:
    """The times at a place of each row of characters, NaN where none is."""
    before, behind, digits = chars[:, place.before], chars[:, place.after], chars[:, place.fraction]
    fractions: Array = _numbers(digits) / place.fraction_scale
    if _is_iso(before[:1].tobytes(), behind[:1].tobytes()):
        return fractions + iso_seconds(before)
    return fractions + _whole_seconds(np.concatenate((before, behind), axis=1))


def _is_iso(before: bytes, behind: bytes) -> bool:
    return behind in (b"", b"Z") and _ISO.fullmatch(before) is not None


def iso_seconds(chars: Array) -> Array:
    """The seconds since 1970 of `2026-03-02 10:25:36`, a row each; NaN for what is no date."""
    year, month, day = (_numbers(chars[:, begin:end]) for begin, end in ((0, 4), (5, 7), (8, 10)))
    hour, minute, second = (_numbers(chars[:, begin : begin + 2]) for begin in (11, 14, 17))
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last_day = _MONTH_DAYS[np.minimum(month, 12)] + (is_leap & (month == 2))
    is_date = (year > 0) & (month > 0) & (month < 13) & (day > 0) & (day <= last_day)
    is_time = (hour < 24) & (minute < 60) & (second < 60)
    months = (year - 1970) * 12 + np.where(is_date, month, 1) - 1
    days = months.astype("M8[M]").astype("M8[D]").astype(np.int64) + day - 1
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    is_known = is_date & is_time & (seconds >= 0) & (seconds < LATEST_S)
    return np.where(is_known, seconds.astype(np.float64), np.nan)


def _whole_seconds(stamps: Array) -> Array:
    """The times of stamps, of which neighbours are often the same."""
    words = _as_words(stamps)
    starts = np.flatnonzero(np.concatenate(([True], words[1:] != words[:-1])))
    times = [parse_timestamp_cached(stamps[start].tobytes()) for start in starts.tolist()]
    seconds = np.array([np.nan if time is None else time.seconds for time in times])
    return np.repeat(seconds, np.diff(np.append(starts, len(words))))
