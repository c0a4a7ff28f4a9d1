"""Blocks of lines without what says nothing: a terminal's commands, and tags that only repeat themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate, islice

from batchai_magics.metrics.reading.leads import TagShapes
from batchai_magics.metrics.reading.lines import Block, without_escapes

_TAG = re.compile(rb"\[(?:\d{1,18},)?\d{1,6}\]<std(?:out|err|diag)>:")
_CONTROLS = (b"\x1b", b"\0", b"\b")


def clean_block(lines: bytes, raw: Block) -> Block:
    """The lines of a block, out of which something was taken; it tells where the raw ones end."""
    return Block(
        lines, raw.offset, dict(zip(_ends(lines, raw.offset), _ends(raw.data, raw.offset), strict=True))
    )


def has_controls(data: bytes | bytearray, start: int = 0, end: int | None = None) -> bool:
    """Whether some line of `data[start:end]` has characters that are taken out before it is read."""
    return any(data.find(control, start, end) >= 0 for control in _CONTROLS)


def clean_lines(lines: bytes, tags: TagShapes, *, is_tagged: bool) -> bytes | None:
    """Whole lines that can be read all at once, as they are read; None if they must be read singly."""
    if is_tagged:
        count, tag_count = lines.count(b"\n"), lines.count(b"<std")
        if tag_count > count:
            lines = _without_repeated_tags(lines)
            tag_count = lines.count(b"<std")
        if tag_count != count or not tags.fit(lines, count):
            return None
    if has_controls(lines):
        clean = without_escapes(lines)
        return clean if clean.count(b"<std") == lines.count(b"<std") else None
    return lines


def _without_repeated_tags(lines: bytes) -> bytes:
    """The lines, of which those that end with the tag at their start come without that end."""
    each = lines.split(b"\n")
    tags = [line[: line.find(b">:") + 2] for line in each]
    repeated = {tag: tag if _TAG.fullmatch(tag) else b"" for tag in set(tags)}
    return b"\n".join(map(bytes.removesuffix, each, map(repeated.__getitem__, tags)))


def _ends(lines: bytes, offset: int) -> Iterator[int]:
    """The offsets at which lines end, the first of which begins at this one."""
    ends = accumulate(map(len, lines.splitlines(keepends=True)), initial=offset)
    return islice(ends, 1, None)
