"""When a line was printed, as far as the line says so itself.

Many stamps tell no time zone: Open MPI's, Airflow's, DLLogger's, CNTK's, glog's. They are taken as UTC, which
is what machines in the cloud and containers run on, and give way to a time that is known in another way.
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
_SLASHES = re.compile(rb"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4}) " + _CLOCK)  # CNTK's BrainScript
_KINDS = (_ISO, _CTIME, _SLASHES)
_GLOG = re.compile(rb"[IW](?P<year>\d{4})?(?P<month>\d\d)(?P<day>\d\d) " + _CLOCK)
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
SHORTEST_BYTES = 19
"""No stamp but glog's is shorter."""

_EARLIEST_S = 1e8  # 1973: smaller numbers count from the start of the program
_LATEST_S = 9e9  # 2255: later times are none, and pandas could not hold them
_UNITS = (1.0, 1e3, 1e6, 1e9)  # a second in s, ms, µs, ns
_NUMBER = re.compile(r"\d{9,20}(?:\.\d{0,12})?")


class Stamp(NamedTuple):
    """A time that a line tells, in seconds since 1970; `is_exact` says that it told the zone too."""

    seconds: float
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Clock:
    """When the bytes of a file were written: those from each of `starts` on, which ascend, at its time."""

    starts: Sequence[int] = ()
    times: Sequence[float] = ()

    def at(self, end: int) -> float | None:
        """When the byte before this offset was written."""
        place = bisect_left(self.starts, end)
        return self.times[place - 1] if place else None


class HasTimes(Protocol):
    """What knows when bytes were written."""

    def at(self, end: int) -> float | None:
        """When the byte before this offset was written."""


def wall_time(stamp: Stamp | None, clock_time: float | None) -> float | None:
    """The time of a line by its stamp or by the clock, whichever is more exact."""
    if stamp is None or (clock_time is not None and not stamp.is_exact):
        return clock_time
    return stamp.seconds


def stamp_in(text: bytes) -> Stamp | None:
    """The first stamp in a prefix or a tag, None without one."""
    match = find_stamp(text)
    return _stamp(match, int(match["year"])) if match else None


def find_stamp(text: bytes) -> re.Match[bytes] | None:
    """Where the first stamp in a prefix or a tag stands; group `fraction` is that of its second."""
    return next(filter(None, (kind.search(text) for kind in _KINDS)), None)


def stamp_of_glog(text: bytes, year: int | None) -> Stamp | None:
    """The stamp at the start of glog's and absl's lines, whose year the file's first line may have told."""
    match = _GLOG.match(text)
    if match is None or (match["year"] is None and year is None):
        return None
    return _stamp(match, int(match["year"] or year or 0))


def month_of_glog(text: bytes) -> int:
    """The month of a line of glog's, 0 for other text."""
    match = _GLOG.match(text)
    return int(match["month"]) if match else 0


def moment(value: object) -> Stamp | None:
    """The time in a field of JSON: seconds since 1970 or a thousandth part of them, or an ISO 8601 text."""
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            return moment(float(value))
        return stamp_in(value[:64].encode()) if len(value) >= SHORTEST_BYTES else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    for unit in _UNITS:
        if _EARLIEST_S * unit <= value < _LATEST_S * unit:
            return Stamp(value / unit)
    return None


def _stamp(match: re.Match[bytes], year: int) -> Stamp | None:
    groups = match.groupdict()
    name, zone = groups["month"], groups.get("zone")
    fraction_s = float(b"0.%b" % (groups["fraction"] or b"0"))
    try:
        month = int(name) if name.isdigit() else _MONTHS.index(name) + 1
        day, hour, minute, second = (int(groups[part]) for part in ("day", "hour", "minute", "second"))
        time = datetime(year, month, day, hour, minute, second, tzinfo=_zone(zone))
    except (ValueError, OverflowError):  # no day of any calendar
        return None
    seconds = time.timestamp() + fraction_s
    return Stamp(seconds, zone is not None) if 0 <= seconds < _LATEST_S else None


def _zone(text: bytes | None) -> timezone:
    if text is None or text == b"Z":
        return timezone.utc
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-offset if text[:1] == b"-" else offset)
