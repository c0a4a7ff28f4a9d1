r"""Chainer's PrintReport: a header with the columns' names, then a row an epoch, below each other.

    'epoch       main/loss   validation/main/loss  main/accuracy  elapsed_time'
    '1           0.190652    0.0925411             0.942417       9.85731'

A column is as wide as its name, at least ten, and two blanks part it from the next; where there is no
number it is blank. ProgressBar's lines may stand between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from batchai_magics.metrics.formats.row import NUMBER, Field, Line, LineFormat, line_pattern
from batchai_magics.metrics.record import Record, ValueRecord

_MOST_LINES = 256  # between two rows of a table
_WIDTH = 10
_GAP = re.compile(rb" {2,}")
_CELL = re.compile(rb"(?:" + NUMBER + rb")?")
_UNITS = {"elapsed_time": "s"}


def _read_header(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    line.memory.columns = tuple(name.decode() for name in _GAP.split(line.text.strip()))
    line.memory.lines_left = _MOST_LINES
    yield from ()


def read_table_row(line: Line) -> list[ValueRecord]:
    """The numbers of a line that may be a row of the table that is open; none where it is none."""
    memory = line.memory
    cells = _cells(line.text, memory.columns)
    memory.lines_left = _MOST_LINES if cells else memory.lines_left - 1
    step, epoch = (int(cells[name]) if name in cells else None for name in ("iteration", "epoch"))
    names = (name for name in memory.columns if name in cells and name not in ("iteration", "epoch"))
    return [
        line.value(Field(name, _UNITS.get(name, "")), cells[name], step=step, epoch=epoch) for name in names
    ]


def _cells(text: bytes, columns: tuple[str, ...]) -> dict[str, float]:
    """The numbers by column, all of them or none."""
    texts: list[bytes] = _GAP.split(text.strip())
    if len(texts) != len(columns):
        texts = [cell.strip() for cell in _cut(text, columns)]
    if not all(map(_CELL.fullmatch, texts)):
        return {}
    cells = {name: float(cell) for name, cell in zip(columns, texts, strict=True) if cell}
    return cells if _is_counted(cells) else {}


def _is_counted(cells: Mapping[str, float]) -> bool:
    """Whether an epoch or an iteration is among the cells, and each of them is a count."""
    counts = [cells[name] for name in ("epoch", "iteration") if name in cells]
    return bool(counts) and all(0 <= count < 1e15 and count == int(count) for count in counts)


def _cut(text: bytes, columns: tuple[str, ...]) -> Iterator[bytes]:
    """The text below each column's name; more text than columns is no number, in the last one."""
    for name in columns[:-1]:
        width = max(_WIDTH, len(name)) + 2
        yield text[:width]
        text = text[width:]
    yield text


TABLE_OPENINGS = (b"main/loss", b"main/accuracy")
"""A table's header has one of these."""

CHAINER = (
    LineFormat(
        name="Chainer table",
        literals=TABLE_OPENINGS,
        pattern=line_pattern(rb"(?:epoch|iteration)(?: {2,}[A-Za-z][\w./()-]{0,80}){1,40}"),
        fields=(),
        sample="epoch       main/loss   validation/main/loss  main/accuracy  elapsed_time\n"
        "1           0.190652    0.0925411             0.942417       9.85731",
        read=_read_header,
    ),
)
"""The header; its rows, which no literal tells, are `read_table_row`'s."""
