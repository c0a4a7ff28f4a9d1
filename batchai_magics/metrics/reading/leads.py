"""What stands before the message on a line: understood once for all lines that differ in digits alone.

A *lead* is a tag, or prefixes and a label, or both: `Sat Nov 21 00:19:42 2026[1,6]<stdout>:[3] `. Its *shape*
is the lead with each digit a zero. None of the expressions for tags and prefixes tells digits apart, so that
all leads of a shape have their rank and their time at the same places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple, cast

from batchai_magics.metrics.reading.prefixes import LABEL, PREFIX, StreamKey, first_tag
from batchai_magics.metrics.reading.times import Stamp, find_stamp, stamp_in

TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
"""Makes the shape of a lead, with `bytes.translate`."""

MAX_BYTES = 200
"""No lead is longer."""

_MOST_REMEMBERED = 4096


class Lead(NamedTuple):
    """What it says: the stream of its tag, the rank of its label, and when the line was printed."""

    key: StreamKey | None
    label: int | None
    stamp: Stamp | None

    def rank(self, stream_rank: int | None) -> int | None:
        """The rank of the message, if it is in a stream of this rank unless a tag says otherwise."""
        if self.key is not None and self.key.rank is not None:
            return self.key.rank
        return self.label if stream_rank is None else stream_rank


# As `Lead._make` and `Stamp._make`, which are Python and take twice as long.
_lead_of = cast("Callable[[Iterable[object]], Lead]", partial(tuple.__new__, Lead))
_stamp_of = cast("Callable[[Iterable[object]], Stamp]", partial(tuple.__new__, Stamp))

NO_LEAD = Lead(None, None, None)
"""What stands before a message at the start of its line."""


@dataclass(frozen=True, slots=True)
class StampPlace:
    """Where a stamp stands in a lead: the digits of its second's fraction, what is before and what behind.

    `unit` tells how many of the fraction's last digit make a second, 1 without a fraction; `is_exact` that
    the stamp tells the zone too.
    """

    before: slice
    fraction: slice
    behind: slice
    unit: int
    is_exact: bool

    def read(self, lead: bytes) -> Stamp | None:
        """The time that the stamp tells, None for no day of any calendar."""
        whole = recent_stamp_in(lead[self.before] + lead[self.behind])
        if whole is None or self.unit == 1:
            return whole
        seconds, is_exact = whole
        return _stamp_of((seconds + int(lead[self.fraction]) / self.unit, is_exact))


@dataclass(frozen=True, slots=True)
class Shape:
    """Leads that differ in digits alone: where in them the numbers stand.

    `name` is the stream of the tag, None without a tag; `stamps` come with the first one that counts.
    """

    name: bytes | None
    tag_rank: slice | None
    label: slice | None
    stamps: tuple[StampPlace, ...]
    has_fraction: bool  # of a second

    def read(self, lead: bytes) -> Lead:
        """What a lead of this shape says."""
        key = label = stamp = None
        if self.name is not None:
            key = _stream_key(lead[self.tag_rank] if self.tag_rank else b"", self.name)
        if self.label is not None:
            label = int(lead[self.label])
        for place in self.stamps:
            stamp = place.read(lead)
            if stamp is not None:
                break
        return _lead_of((key, label, stamp))


def read_lead(lead: bytes) -> Lead | None:
    """What the text before a message says, None if it is more than tags, prefixes and labels."""
    shape = shape_of(lead.translate(TO_ZERO))
    return shape.read(lead) if shape else None


recent_lead = lru_cache(_MOST_REMEMBERED)(read_lead)
"""`read_lead`, quick where a lead comes again."""


def reader_like(lead: bytes) -> Callable[[bytes], Lead | None]:
    """What reads leads like this one best: those with thousandths of a second come once, so none is kept."""
    shape = shape_of(lead.translate(TO_ZERO))
    return read_lead if shape and shape.has_fraction else recent_lead


@lru_cache(_MOST_REMEMBERED)
def shape_of(zeroed: bytes) -> Shape | None:
    """The shape of the leads that become this one with a zero for each digit; None if these are no leads."""
    name, tag_rank, stamps, begin = None, None, [], 0
    if b"<std" in zeroed:
        tag = first_tag(zeroed)
        if tag is None:
            return None
        name, tag_rank, begin = tag.name, tag.rank, tag.end
        stamps = [_stamp_place(zeroed, tag.begin, tag.end), _stamp_place(zeroed, 0, tag.begin)]
    message = zeroed[begin:]
    if len(zeroed) > MAX_BYTES or not PREFIX.fullmatch(message):
        return None
    label = LABEL.search(message)
    prefix = PREFIX.match(message)
    stamps.insert(0, _stamp_place(zeroed, begin, begin + prefix.end() if prefix else begin))
    places = tuple(filter(None, stamps))
    has_fraction = any(place.unit > 1 for place in places)
    return Shape(name, tag_rank, _label_place(label, begin), places, has_fraction)


def _stamp_place(zeroed: bytes, begin: int, end: int) -> StampPlace | None:
    match = find_stamp(zeroed[begin:end])
    if match is None:
        return None
    first, last = match.span("fraction")
    if first < 0:
        first = last = match.end() + 1
    is_exact = match.groupdict().get("zone") is not None
    return StampPlace(
        before=slice(begin + match.start(), begin + first - 1),
        fraction=slice(begin + first, begin + last),
        behind=slice(begin + last, begin + match.end()),
        unit=10 ** (last - first),
        is_exact=is_exact,
    )


def _label_place(label: re.Match[bytes] | None, begin: int) -> slice | None:
    if label is None:
        return None
    first, last = label.span("bracket" if label["bracket"] else "number")
    return slice(begin + first, begin + last)


recent_stamp_in = lru_cache(_MOST_REMEMBERED)(stamp_in)
"""`stamp_in`, quick where a stamp comes again."""


@lru_cache(_MOST_REMEMBERED)
def _stream_key(digits: bytes, name: bytes) -> StreamKey:
    return StreamKey(int(digits) if digits else None, name)


class TagShapes:
    """The shapes of the tags at the starts of a file's lines, learnt while it is read."""

    def __init__(self) -> None:
        self._shapes: tuple[bytes, ...] = ()
        self._behind_newline = re.compile(rb"(?!)")

    def fit(self, lines: bytes, count: int) -> bool:
        """Whether each of so many whole lines, in which there are as many tags, begins with one."""
        zeroed = lines.translate(TO_ZERO)
        is_known = len(self._behind_newline.findall(zeroed)) + zeroed.startswith(self._shapes) == count
        return is_known or self._learn(zeroed)

    def _learn(self, zeroed: bytes) -> bool:
        """Take in the shapes of all lines; whether all of them are tags."""
        shapes = {tag_lead(line) for line in zeroed.splitlines()}
        if not all(shape and shape_of(shape) for shape in shapes):
            return False
        self._shapes = tuple(sorted({*shapes, *self._shapes[:_MOST_SHAPES]}))
        self._behind_newline = re.compile(rb"\n(?:" + b"|".join(map(re.escape, self._shapes)) + rb")")
        return True


_MOST_SHAPES = 64


def tag_lead(line: bytes, start: int = 0) -> bytes:
    """A line's text up to the end of its first tag; nothing where there is none."""
    name = line.find(b"<std", start)
    return line[start : line.find(b">:", name) + 2] if name >= 0 else b""


def last_key(lines: bytes) -> StreamKey | None:
    """The stream of the last of some lines that each begin with a tag."""
    lead = recent_lead(tag_lead(lines, lines.rfind(b"\n", 0, -1) + 1))
    return lead and lead.key
