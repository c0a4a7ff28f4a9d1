"""Patterns of table rows that were read, so that one expression matches all rows like them.

A pattern is made of a box with its edge, or of a row of columns. Which numbers a row gives depends on its
names and texts, not on the numbers; so the row is read again with indices in place of its numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

Number = tuple[str, float, str]
"""The name, the value and the phase of a number, as it is recorded."""

POSSESSIVE = b"+" if sys.version_info >= (3, 11) else b""
"""Makes a quantifier keep what it matched, for faster searches."""

_DIGITS = rb"[0-9]{1,200}" + POSSESSIVE
_MANTISSA = rb"(?:" + _DIGITS + rb"(?:\.[0-9]{0,200}" + POSSESSIVE + rb")?|\." + _DIGITS + rb")"
_NUMBER = rb"[-+]?(?:" + _MANTISSA + rb"(?:[eE][-+]?" + _DIGITS + rb")?|nan|inf)"
_UNIT = rb"(?P<unit>(?:%|[GM]i?B?|s|ms|[ ](?:ms|s))?)"
_CELL = re.compile(rb"(?:" + _NUMBER + rb")" + _UNIT)
_OUT_OF = re.compile(rb"\d+(?P<unit>/\d+)")
_COUNT = rb"[0-9]{1,18}" + POSSESSIVE
_SHORT_COUNT = rb"[0-9]{1,6}" + POSSESSIVE  # in front, where more digits may be a time
_POSITION = rb"[-+]?" + _COUNT + rb"(?:\.[0-9]{0,200}" + POSSESSIVE + rb")?"
_IS_SHORT = rb"(?![0-9]{7})"
_BLANKS = rb"[ \t]*" + POSSESSIVE
_GAP = rb"(?:[ \t]{2,}" + POSSESSIVE + rb"|\t)"
_RUN = re.compile(rb"[0-9]+")
_ALL_DIGITS = b"0123456789"


class Row(NamedTuple):
    """The numbers that a line of a table completes; most lines of a box complete none."""

    step: int | None
    epoch: float | None
    numbers: Sequence[Number]


class RowPattern(NamedTuple):
    """An expression for rows of `line_count` lines, from the newline before the first to that after the last.

    Groups are given by their indices in `match.groups()`, -1 without one. `count` parses the positions;
    `metrics` are the names and phases of the numbers. The line `edge` may stand above each row.
    """

    expression: re.Pattern[bytes]
    step: int
    epoch: int
    numbers: tuple[int, ...]
    metrics: tuple[tuple[str, str], ...]
    count: Callable[[bytes], int]
    line_count: int = 1
    edge: bytes | None = None


def box_pattern(
    lines: Sequence[re.Match[bytes]],
    names: Sequence[str],
    edge: bytes,
    read: Callable[[Sequence[tuple[str, bytes]]], Row],
) -> RowPattern | None:
    """The pattern of a box with its lower edge; None if it has none.

    Args:
        lines: Its lines; the group `value` is None on lines without a number.
        names: The names of the numbers.
        edge: The lower edge, which is also the upper edge of the next box.
        read: Reads the names and values of a box.
    """
    cells = [None if line["value"] is None else _CELL.fullmatch(line["value"]) for line in lines]
    if any(cell is None and line["value"] is not None for line, cell in zip(lines, cells, strict=True)):
        return None
    units = [cell["unit"] for cell in cells if cell]
    row = read(
        [(name, b"%d%b" % (index, unit)) for index, (name, unit) in enumerate(zip(names, units, strict=True))]
    )
    sources, index = list[bytes](), 0
    for line, cell in zip(lines, cells, strict=True):
        if cell is None:
            sources.append(re.escape(line[0]))
            continue
        before = re.escape(line.string[: line.start("value")].rstrip(b" \t"))
        number = _POSITION if index in (row.step, row.epoch) else _NUMBER
        unit = re.escape(cell["unit"])
        sources.append(before + _BLANKS + rb"(" + number + rb")" + unit + _BLANKS + rb"\|")
        index += 1
    pattern = _pattern(
        [*sources, re.escape(edge)], row, range(index), lambda text: int(text.partition(b".")[0])
    )
    return pattern and pattern._replace(edge=edge)


def columns_pattern(
    text: bytes, cells: Sequence[bytes], separator: bytes, read: Callable[[Sequence[bytes]], Row | None]
) -> RowPattern | None:
    """The pattern of a row of columns; None if it has none.

    Args:
        text: The row.
        cells: Its cells, one for each column.
        separator: The text between them; empty for blanks.
        read: Reads the cells of a row.
    """
    marked = [_marked(cell, index) for index, cell in enumerate(cells)]
    row = read(marked)
    unmarked = [cell.translate(None, _ALL_DIGITS) for cell in cells]
    row_without_others = read(
        [mark if mark != cell else bare for mark, cell, bare in zip(marked, cells, unmarked, strict=True)]
    )
    if row is None or row != row_without_others:  # a number without a mark matters
        return None
    positions = [index for index in (row.step, row.epoch) if index is not None]
    groups = sorted({*positions, *(index for _, index, _ in row.numbers)})
    sources = []
    for index, (cell, mark) in enumerate(zip(cells, marked, strict=True)):
        if mark == cell:
            sources.append(_RUN.sub(lambda run: b"[0-9]{%d}" % len(run[0]), re.escape(cell)))
            continue
        number = _number_of(index, is_position=index in positions)
        begin = rb"(" if index in groups else rb"(?:"
        rest = mark[len(b"%d" % index) :]
        sources.append(begin + number + rb")" + _RUN.sub(_COUNT, re.escape(rest)))
    between = _BLANKS + re.escape(separator) + _BLANKS if separator else _GAP
    edge = rb"\|" if separator == b"|" and text.lstrip().startswith(b"|") else b""
    source = _BLANKS + edge + _BLANKS + between.join(sources) + _BLANKS + edge + _BLANKS
    return _pattern([source], row, groups, int) if positions else None


def _number_of(index: int, *, is_position: bool) -> bytes:
    """An expression for the number of a column."""
    if is_position:
        return _COUNT if index else _SHORT_COUNT
    return _NUMBER if index else _IS_SHORT + rb"(?:" + _NUMBER + rb")"


def _marked(cell: bytes, index: int) -> bytes:
    """A cell with its index in place of its number; unchanged if it is not a number."""
    number = _CELL.fullmatch(cell) or _OUT_OF.fullmatch(cell)
    return b"%d%b" % (index, number["unit"]) if number else cell


def _pattern(
    sources: Sequence[bytes], row: Row, groups: Sequence[float], count: Callable[[bytes], int]
) -> RowPattern | None:
    """The pattern for a row that was read with indices as numbers.

    Args:
        sources: Expressions for the lines of the row.
        row: What was read.
        groups: The captured indices.
        count: Parses the positions.
    """
    metrics = tuple((name, phase) for name, _, phase in row.numbers)
    step, epoch = (-1 if index is None else groups.index(index) for index in (row.step, row.epoch))
    values = [value for _, value, _ in row.numbers]
    is_placed = max(step, epoch) >= 0
    if not is_placed or len({name for name, _ in metrics}) < len(metrics) or not {*values} <= {*groups}:
        return None
    numbers = tuple(groups.index(value) for value in values)
    expression = re.compile(b"".join(b"\n" + source for source in sources) + rb"(?=\n)")
    return RowPattern(expression, step, epoch, numbers, metrics, count, len(sources))
