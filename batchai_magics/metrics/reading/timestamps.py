"""Parses the timestamps that programs and log collectors print.

Many omit the time zone (Open MPI, Airflow, DLLogger, CNTK, glog). They are taken as UTC, which cloud machines
and containers use, and a write time known from another source takes precedence over them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import NamedTuple, Protocol

_CLOCK = rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{0,9}))?"
_ISO = re.compile(
    rb"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ]" + _CLOCK + rb"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_CTIME = re.compile(rb"(?P<month>[A-Z][a-z]{2}) (?P<day>[ \d]\d) " + _CLOCK + rb" (?P<year>\d{4})")
_SLASHES = re.compile(rb"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4}) " + _CLOCK)  # CNTK BrainScript
_KINDS = (_ISO, _CTIME, _SLASHES)
GLOG = re.compile(rb"[IW](?P<year>\d{4})?(?P<month>\d\d)(?P<day>\d\d) " + _CLOCK)
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
MIN_TIMESTAMP_BYTES = 19
"""The shortest timestamp, except glog's."""

EARLIEST_S = 1e8  # 1973: smaller numbers count from program start
LATEST_S = 9e9  # 2255: later times are rejected; pandas could not represent them
EPOCH_UNITS = (1.0, 1e3, 1e6, 1e9)  # units per second: s, ms, µs, ns
_NUMBER = re.compile(r"\d{9,20}(?:\.\d{0,12})?")


class Timestamp(NamedTuple):
    """A printed time in seconds since the epoch; `has_zone` says that it included a time zone."""

    seconds: float
    has_zone: bool = True


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """Write times of a file: the bytes from each offset in `starts` (ascending) were written at its time."""

    starts: Sequence[int] = ()
    times: Sequence[float] = ()

    def at(self, end: int) -> float | None:
        """When the byte before this offset was written; None if unknown."""
        place = bisect_left(self.starts, end)
        return self.times[place - 1] if place else None


class WriteClock(Protocol):
    """A source of write times for byte offsets."""

    def at(self, end: int) -> float | None:
        """When the byte before this offset was written; None if unknown."""


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


def parse_glog_timestamp(text: bytes, year: int | None) -> Timestamp | None:
    """Parse the timestamp of a glog or absl line; `year` is the year in the file's header, if any."""
    match = GLOG.match(text)
    if match is None or (match["year"] is None and year is None):
        return None
    return _timestamp(match, int(match["year"] or year or 0))


def glog_month(text: bytes) -> int:
    """The month of a glog line, 0 for other text."""
    match = GLOG.match(text)
    return int(match["month"]) if match else 0


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
        time = datetime(year, month, day, hour, minute, second, tzinfo=_zone(zone))
    except (ValueError, OverflowError):  # not a valid date
        return None
    seconds = time.timestamp() + fraction_s
    return Timestamp(seconds, zone is not None) if 0 <= seconds < LATEST_S else None


def _zone(text: bytes | None) -> timezone:
    if text is None or text == b"Z":
        return timezone.utc
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-offset if text[:1] == b"-" else offset)
