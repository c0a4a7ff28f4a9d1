"""Cleans blocks of lines: removes terminal escapes and duplicate tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate, islice

from batchai_magics.metrics.reading.line_prefixes import TagShapes
from batchai_magics.metrics.reading.line_splitter import Block, strip_escapes

_TAG = re.compile(rb"\[(?:\d{1,18},)?\d{1,6}\]<std(?:out|err|diag)>:")
_CONTROLS = (b"\x1b", b"\0", b"\b")


def clean_block(lines: bytes, raw: Block) -> Block:
    """The cleaned lines as a block that still maps each line end to its raw offset."""
    return Block(
        lines,
        raw.offset,
        dict(zip(_line_ends(lines, raw.offset), _line_ends(raw.data, raw.offset), strict=True)),
    )


def has_controls(data: bytes | bytearray, start: int = 0, end: int | None = None) -> bool:
    """Whether any line of `data[start:end]` has control characters to remove before parsing."""
    return any(data.find(control, start, end) >= 0 for control in _CONTROLS)


def clean_lines(lines: bytes, tags: TagShapes, *, is_tagged: bool) -> bytes | None:
    """The cleaned lines if they can be parsed as one block; None if they must be parsed one by one."""
    if is_tagged:
        count, tag_count = lines.count(b"\n"), lines.count(b"<std")
        if tag_count > count:
            lines = _drop_repeated_tags(lines)
            tag_count = lines.count(b"<std")
        if tag_count != count or not tags.matches_all(lines, count):
            return None
    if has_controls(lines):
        clean = strip_escapes(lines)
        return clean if clean.count(b"<std") == lines.count(b"<std") else None
    return lines


def _drop_repeated_tags(lines: bytes) -> bytes:
    """Remove the tag at the end of each line that also starts with it."""
    each = lines.split(b"\n")
    tags = [line[: line.find(b">:") + 2] for line in each]
    repeated = {tag: tag if _TAG.fullmatch(tag) else b"" for tag in set(tags)}
    return b"\n".join(map(bytes.removesuffix, each, map(repeated.__getitem__, tags)))


def _line_ends(lines: bytes, offset: int) -> Iterator[int]:
    """The offset of the end of each line, given the offset of the first byte."""
    ends = accumulate(map(len, lines.splitlines(keepends=True)), initial=offset)
    return islice(ends, 1, None)
