"""Parses the timestamps that programs and log collectors print.

Many omit the time zone (Open MPI, Airflow, DLLogger, CNTK, glog). They are taken as UTC, which cloud machines
and containers use, and a write time known from another source takes precedence over them.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from math import isnan
from operator import add
from typing import NamedTuple, Protocol

_CLOCK = rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{0,9}))?"
_ISO = re.compile(
    rb"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ]" + _CLOCK + rb"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_CTIME = re.compile(rb"(?P<month>[A-Z][a-z]{2}) (?P<day>[ \d]\d) " + _CLOCK + rb" (?P<year>\d{4})")
ISO_TIME, CTIME = (re.sub(rb"\?P<\w+>", b"?:", kind.pattern) for kind in (_ISO, _CTIME))
"""Expressions for the times that launchers and collectors of logs print, without groups."""

_SLASHES = re.compile(rb"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4}) " + _CLOCK)  # CNTK BrainScript
_KINDS = (_ISO, _CTIME, _SLASHES)
GLOG = re.compile(rb"[IW](?P<year>\d{4})?(?P<month>\d\d)(?P<day>\d\d) " + _CLOCK)
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
MIN_TIMESTAMP_BYTES = 19
"""The length of the shortest timestamp, except glog's."""

EARLIEST_S = 1e8  # 1973: smaller numbers count from program start
LATEST_S = 9e9  # 2255: later times are rejected; pandas could not represent them
EPOCH_UNITS = (1.0, 1e3, 1e6, 1e9)  # units per second: s, ms, µs, ns
DIGITS = b"0123456789"
DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
"""Translation table that turns a line into its shape (`bytes.translate`)."""

_SECONDS = {b"%02d" % second: float(second) for second in range(60)}
_NONE = timedelta()
_NUMBER = re.compile(r"\d{9,20}(?:\.\d{0,12})?")


class Timestamp(NamedTuple):
    """A printed time in seconds since the epoch; `has_zone` says that it included a time zone."""

    seconds: float
    has_zone: bool = True


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """Write times of a file: the bytes from each offset in `starts` (ascending) were written at its time.

    Those before the offset `begin` are not the file's, whose line goes on there: its last ones were written
    at the time `before`.
    """

    starts: Sequence[int] = ()
    times: Sequence[float] = ()
    begin: int = 0
    before: float | None = None

    def at(self, end: int) -> float | None:
        """When the line that ends at this offset was written; None if unknown.

        That is when the byte before its end was: a carriage return comes with the next redraw of a bar.
        """
        if end - 1 <= self.begin:
            return self.before
        index = bisect_left(self.starts, end - 1)
        return self.times[index - 1] if index else self.before


class WriteClock(Protocol):
    """A source of write times of lines."""

    def at(self, end: int) -> float | None:
        """When the line that ends at this offset was written; None if unknown."""


def wall_time(timestamp: Timestamp | None, clock_time: float | None) -> float | None:
    """The time of a line: its timestamp or the write time, whichever is more precise."""
    if timestamp is None or (clock_time is not None and not timestamp.has_zone):
        return clock_time
    return timestamp.seconds


def parse_timestamp(text: bytes) -> Timestamp | None:
    """Parse the first timestamp in a prefix or tag; None without one."""
    match = match_timestamp(text)
    return _timestamp(match, int(match["year"])) if match else None


def match_timestamp(text: bytes) -> re.Match[bytes] | None:
    """Find the first timestamp in a prefix or tag; group `fraction` is the fractional second."""
    return next(filter(None, (kind.search(text) for kind in _KINDS)), None)


def parse_glog_timestamp(text: bytes, year_for: Callable[[int], int | None]) -> Timestamp | None:
    """Parse the timestamp of a glog or absl line; `year_for` returns the year of a month, if it is known."""
    match = GLOG.match(text)
    if match is None:
        return None
    known = year_for(int(match["month"]))
    return _timestamp(match, int(match["year"] or known or 0))


def json_timestamp(value: object) -> Timestamp | None:
    """The time in a JSON field: seconds, ms, µs or ns since the epoch, or ISO 8601 text."""
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            return json_timestamp(float(value))
        return parse_timestamp(value[:64].encode()) if len(value) >= MIN_TIMESTAMP_BYTES else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    for unit in EPOCH_UNITS:
        if EARLIEST_S * unit <= value < LATEST_S * unit:
            return Timestamp(value / unit)
    return None


def _timestamp(match: re.Match[bytes], year: int) -> Timestamp | None:
    groups = match.groupdict()
    name, zone = groups["month"], groups.get("zone")
    fraction_s = float(b"0.%b" % (groups["fraction"] or b"0"))
    try:
        month = int(name) if name.isdigit() else _MONTHS.index(name) + 1
        day, hour, minute, second = (int(groups[part]) for part in ("day", "hour", "minute", "second"))
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:])) if zone and zone != b"Z" else _NONE
        tzinfo = timezone(-offset if zone and zone.startswith(b"-") else offset)
        time = datetime(year, month, day, hour, minute, second, tzinfo=tzinfo)
    except (ValueError, OverflowError):  # not a valid date
        return None
    seconds = time.timestamp() + fraction_s
    return Timestamp(seconds, zone is not None) if 0 <= seconds < LATEST_S else None


@dataclass(frozen=True, slots=True)
class TimestampSlices:
    """The slices of a timestamp within a prefix.

    `minute` is the text up to its seconds, `fraction` covers the digits of the fractional second, `after` is
    the text after them. `fraction_scale` is 10 to the number of these digits; `has_zone` says that the
    timestamp includes a time zone.
    """

    minute: slice
    second: slice
    fraction: slice
    after: slice
    fraction_scale: int
    has_zone: bool

    def parse(self, prefix: bytes) -> Timestamp | None:
        """The timestamp, or None if it is not a valid date."""
        (seconds,) = self.seconds_of([prefix])
        return None if seconds is None else Timestamp(seconds, self.has_zone)

    def seconds_of(self, prefixes: Sequence[bytes]) -> list[float | None]:
        """The seconds since the epoch in many prefixes, None for what is not a valid date."""
        minutes = [prefix[self.minute] for prefix in prefixes]
        if self.after.start < self.after.stop:
            minutes = [minute + prefix[self.after] for minute, prefix in zip(minutes, prefixes, strict=True)]
        size = self.minute.stop - self.minute.start
        starts = {minute: minute_start_s(minute[:size], minute[size:]) for minute in {*minutes}}
        begins = map(starts.__getitem__, minutes)
        seconds = [_SECONDS.get(prefix[self.second], math.nan) for prefix in prefixes]
        times = [*map(add, begins, seconds)]
        if self.fraction_scale > 1:
            digits, scale = self.fraction, self.fraction_scale
            times = [time + int(prefix[digits]) / scale for time, prefix in zip(times, prefixes, strict=True)]
        return [None if isnan(time) else time for time in times] if isnan(sum(times)) else [*times]


def timestamp_slices(zeroed: bytes, begin: int, end: int) -> TimestampSlices | None:
    """Find the first timestamp in a part of a prefix whose digits are all zeros; None without one."""
    match = match_timestamp(zeroed[begin:end])
    if match is None:
        return None
    second = match.start("second")
    first, last = match.span("fraction" if match["fraction"] is not None else "second")
    return TimestampSlices(
        minute=slice(begin + match.start(), begin + second),
        second=slice(begin + second, begin + second + 2),
        fraction=slice(begin + first, begin + last),
        after=slice(begin + last, begin + match.end()),
        fraction_scale=10 ** len(match["fraction"] or b""),
        has_zone=match.groupdict().get("zone") is not None,
    )


@lru_cache(4096)
def minute_start_s(before: bytes, after: bytes) -> float:
    """When a minute began, in seconds since the epoch; NaN if it is not a valid date."""
    timestamp = parse_timestamp(before + b"00" + after)
    return timestamp.seconds if timestamp else math.nan
