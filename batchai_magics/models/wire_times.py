"""Times and durations in the service's formats, and durations as they are displayed."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from batchai_magics.errors import quoted

_SPAN = re.compile(
    r"P(?=.)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_CLOCK = re.compile(
    r"(?:(?P<days>\d+)(?:\.| days?, ))?(?P<hours>\d{1,2}):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)"
)
_MOMENT = re.compile(
    r"(?P<second>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?(?P<zone>Z|[-+]\d\d:\d\d)?",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)
def duration(text: str) -> timedelta:
    """Parses a duration of the API (`P7D`), old files (`7.00:00:00`) or `az` (`7 days, 0:00:00`).

    Raises:
        ValueError: It is not one of these, or too long for a timedelta.
    """
    match = _SPAN.fullmatch(text) or _CLOCK.fullmatch(text)
    if not match:
        raise ValueError(f"{quoted(text)} is not a valid duration (such as PT30M, PT2H or P7D)")
    try:
        return timedelta(**{unit: float(value) for unit, value in match.groupdict().items() if value})
    except OverflowError:
        raise ValueError(f"{quoted(text)} is too long a duration") from None


def wire_time(moment: datetime) -> str:
    """Formats a time as the service does: UTC with up to three decimals of a second and `Z`."""
    text = moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3].rstrip("0").rstrip(".")
    return f"{text}Z"


def parse_time(text: str) -> datetime:
    """Parses a time to UTC: any number of decimals, with `Z`, an offset, or neither (UTC).

    Raises:
        ValueError: It is not a time.
    """
    match = _MOMENT.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{quoted(text)} is not a time")
    zone = (match["zone"] or "Z").upper().replace("Z", "+00:00")
    fraction = (match["fraction"] or "")[:6].ljust(6, "0")
    return datetime.fromisoformat(f"{match['second']}.{fraction}{zone}").astimezone(timezone.utc)


def elapsed_time(seconds: float) -> str:
    """A duration: `0:07`, `12:31`, `3:04:05`."""
    whole = max(0, int(seconds))
    minutes, hours = whole // 60, whole // 3600
    return f"{hours}:{minutes % 60:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
