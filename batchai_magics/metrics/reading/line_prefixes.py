"""Parses the prefix of a line once for all prefixes that differ only in digits.

A *line prefix* is everything before the message: a tag, or decorations and a label, or both, as in `Sat Nov
21 00:19:42 2026[1,6]<stdout>:[3] `. Its *shape* is the prefix with every digit replaced by 0. The expressions
for tags and prefixes do not distinguish digits, so all prefixes of one shape have their rank and timestamp at
the same positions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import isnan
from operator import add
from typing import NamedTuple, cast

from batchai_magics.metrics.reading.line_splitter import strip_escapes
from batchai_magics.metrics.reading.prefix_patterns import LABEL, PREFIX, StreamKey, first_tag
from batchai_magics.metrics.reading.timestamps import Timestamp, match_timestamp, parse_timestamp

DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
"""Translation table that turns a prefix into its shape (`bytes.translate`)."""

MAX_PREFIX_BYTES = 200
"""The longest prefix that is parsed."""

_SECONDS = {b"%02d" % second: float(second) for second in range(60)}
_CACHE_SIZE = 4096
_MAX_SHAPES = 64
_TAG = re.compile(rb"\[(?:\d{1,18},)?\d{1,6}\]<std(?:out|err|diag)>:")
_CONTROLS = (b"\x1b", b"\0", b"\b")


class LinePrefix(NamedTuple):
    """The parsed prefix: stream of the tag, rank of the label, timestamp of the line."""

    key: StreamKey | None
    label: int | None
    timestamp: Timestamp | None

    def rank(self, stream_rank: int | None) -> int | None:
        """The rank of the message: from the tag, else the rank of the stream, else from the label."""
        if self.key is not None and self.key.rank is not None:
            return self.key.rank
        return self.label if stream_rank is None else stream_rank


# `Lead._make` and `Stamp._make` are pure Python and take twice as long.
_make_prefix = cast("Callable[[Iterable[object]], LinePrefix]", partial(tuple.__new__, LinePrefix))
_make_timestamp = cast("Callable[[Iterable[object]], Timestamp]", partial(tuple.__new__, Timestamp))


@dataclass(frozen=True, slots=True)
class TimestampSlices:
    """The slices of a timestamp within a prefix.

    `minute` is the text up to its seconds, `fraction` covers the digits of the fractional second, `after` is
    the text behind them. `fraction_scale` is 10 to the number of these digits; `has_zone` says that the
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
        return None if seconds is None else _make_timestamp((seconds, self.has_zone))

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
            place, scale = self.fraction, self.fraction_scale
            times = [time + int(prefix[place]) / scale for time, prefix in zip(times, prefixes, strict=True)]
        return [None if isnan(time) else time for time in times] if isnan(sum(times)) else [*times]


@dataclass(frozen=True, slots=True)
class PrefixShape:
    """Where the numbers stand in all prefixes that differ only in digits.

    `name` is the stream of the tag, None without a tag; `timestamps` are in order of precedence.
    """

    name: bytes | None
    tag_rank: slice | None
    label: slice | None
    timestamps: tuple[TimestampSlices, ...]

    def parse(self, prefix: bytes) -> LinePrefix:
        """Parse a prefix of this shape."""
        key = label = timestamp = None
        if self.name is not None:
            key = _stream_key(prefix[self.tag_rank] if self.tag_rank else b"", self.name)
        if self.label is not None:
            label = int(prefix[self.label])
        for place in self.timestamps:
            timestamp = place.parse(prefix)
            if timestamp is not None:
                break
        return _make_prefix((key, label, timestamp))


def parse_prefix(prefix: bytes) -> LinePrefix | None:
    """Parse the text before a message; None if it has more than tags, decorations and labels."""
    shape = prefix_shape(prefix.translate(DIGITS_TO_ZERO))
    return shape.parse(prefix) if shape else None


parse_prefix_cached = lru_cache(_CACHE_SIZE)(parse_prefix)
"""`parse_prefix` with a cache."""


@lru_cache(_CACHE_SIZE)
def prefix_shape(zeroed: bytes) -> PrefixShape | None:
    """The shape of a prefix whose digits are all zeros; None if it is not a valid prefix."""
    name, tag_rank, timestamps, begin = None, None, [], 0
    if b"<std" in zeroed:
        tag = first_tag(zeroed)
        if tag is None:
            return None
        name, tag_rank, begin = tag.name, tag.rank, tag.end
        timestamps = [timestamp_slices(zeroed, tag.begin, tag.end), timestamp_slices(zeroed, 0, tag.begin)]
    message = zeroed[begin:]
    if len(zeroed) > MAX_PREFIX_BYTES or not PREFIX.fullmatch(message):
        return None
    label = LABEL.search(message)
    prefix = PREFIX.match(message)
    timestamps.insert(0, timestamp_slices(zeroed, begin, begin + prefix.end() if prefix else begin))
    places = tuple(filter(None, timestamps))
    return PrefixShape(name, tag_rank, _label_slice(label, begin), places)


def timestamp_slices(zeroed: bytes, begin: int, end: int) -> TimestampSlices | None:
    """Where the first timestamp stands in a part of a prefix, whose digits are all zeros."""
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


def _label_slice(label: re.Match[bytes] | None, begin: int) -> slice | None:
    if label is None:
        return None
    first, last = label.span("bracket" if label["bracket"] else "number")
    return slice(begin + first, begin + last)


@lru_cache(_CACHE_SIZE)
def minute_start_s(before: bytes, after: bytes) -> float:
    """When a minute began, in seconds since the epoch; NaN if it is not a valid date."""
    found = parse_timestamp(before + b"00" + after)
    return found.seconds if found else math.nan


@lru_cache(_CACHE_SIZE)
def _stream_key(digits: bytes, name: bytes) -> StreamKey:
    return StreamKey(int(digits) if digits else None, name)


class TagShapes:
    """The shapes of the tags that start a file's lines, learned while reading."""

    def __init__(self) -> None:
        self._shapes: tuple[bytes, ...] = ()
        self._behind_newline = re.compile(rb"(?!)")

    def matches_all(self, lines: bytes, count: int) -> bool:
        """Whether each of these `count` complete lines, which contain as many tags, starts with a tag."""
        zeroed = lines.translate(DIGITS_TO_ZERO)
        is_known = len(self._behind_newline.findall(zeroed)) + zeroed.startswith(self._shapes) == count
        return is_known or self._learn(zeroed)

    def _learn(self, zeroed: bytes) -> bool:
        """Learn the tag shapes of these lines; return whether every line starts with a tag."""
        shapes = {text_through_tag(line) for line in zeroed.splitlines()}
        if not all(shape and prefix_shape(shape) for shape in shapes):
            return False
        self._shapes = tuple(sorted({*shapes, *self._shapes[:_MAX_SHAPES]}))
        self._behind_newline = re.compile(rb"\n(?:" + b"|".join(map(re.escape, self._shapes)) + rb")")
        return True


def text_through_tag(line: bytes, start: int = 0) -> bytes:
    """The line up to the end of its first tag; empty without one."""
    name = line.find(b"<std", start)
    return line[start : line.find(b">:", name) + 2] if name >= 0 else b""


def clean_lines(lines: bytes, tags: TagShapes, *, is_tagged: bool) -> bytes | None:
    """The cleaned lines if they can be parsed as one block; None if they must be parsed one by one."""
    if is_tagged:
        count, tag_count = lines.count(b"\n"), lines.count(b"<std")
        if tag_count > count:
            lines = _drop_repeated_tags(lines)
            tag_count = lines.count(b"<std")
        if tag_count != count or not tags.matches_all(lines, count):
            return None
    if any(control in lines for control in _CONTROLS):
        clean = strip_escapes(lines)
        return clean if clean.count(b"<std") == lines.count(b"<std") else None
    return lines


def _drop_repeated_tags(lines: bytes) -> bytes:
    """Remove the tag at the end of each line that also starts with it."""
    each = lines.split(b"\n")
    tags = [line[: line.find(b">:") + 2] for line in each]
    repeated = {tag: tag if _TAG.fullmatch(tag) else b"" for tag in set(tags)}
    return b"\n".join(map(bytes.removesuffix, each, map(repeated.__getitem__, tags)))
