"""Blocks of lines without what says nothing: a terminal's commands, and tags that only repeat themselves."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from batchai_magics.metrics.reading.leads import TagShapes
from batchai_magics.metrics.reading.lines import without_escapes
from batchai_magics.metrics.reading.times import HasTimes

_TAG = re.compile(rb"\[(?:\d{1,18},)?\d{1,6}\]<std(?:out|err|diag)>:")
_CONTROLS = (b"\x1b", b"\0", b"\b")


class LineEnds(NamedTuple):
    """Where the lines end out of which something was taken, and where the raw ones do, from their offset."""

    offset: int
    clean: Sequence[int]
    raw: Sequence[int]

    @classmethod
    def of(cls, offset: int, clean: bytes, raw: bytes) -> LineEnds:
        """Those of lines at an offset."""
        return cls(offset, _ends(clean), _ends(raw))

    def raw_offset(self, offset: int) -> int:
        """The offset of the end of the raw line, of that of the clean one."""
        return self.offset + self.raw[bisect_left(self.clean, offset - self.offset)]


class CleanClock(NamedTuple):
    """A clock that is asked for offsets of clean lines."""

    clock: HasTimes
    ends: LineEnds

    def at(self, end: int) -> float | None:
        """When the line was written that ends here."""
        return self.clock.at(self.ends.raw_offset(end))


def has_controls(data: bytes | bytearray, start: int = 0, end: int | None = None) -> bool:
    """Whether some line of `data[start:end]` has characters that are taken out before it is read."""
    return any(data.find(control, start, end) >= 0 for control in _CONTROLS)


def clean_lines(lines: bytes, tags: TagShapes, *, is_tagged: bool) -> bytes | None:
    """Whole lines that can be read all at once, as they are read; None if they must be read singly."""
    if is_tagged:
        lines = _without_repeated_tags(lines)
        if not tags.fit(lines):
            return None
    if has_controls(lines):
        clean = without_escapes(lines)
        return clean if clean.count(b"<std") == lines.count(b"<std") else None
    return lines


def _without_repeated_tags(lines: bytes) -> bytes:
    """The lines, of which those that end with the tag at their start come without that end."""
    if lines.count(b"<std") <= lines.count(b"\n"):
        return lines
    each = lines.split(b"\n")
    tags = [line[: line.find(b">:") + 2] for line in each]
    repeated = {tag: tag if _TAG.fullmatch(tag) else b"" for tag in set(tags)}
    return b"\n".join(map(bytes.removesuffix, each, map(repeated.__getitem__, tags)))


def _ends(data: bytes) -> list[int]:
    return [*accumulate(map(len, data.splitlines(keepends=True)))]
