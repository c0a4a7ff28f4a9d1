r"""Chainer's PrintReport: a header with the column names, then one row per epoch.

    'epoch       main/loss   validation/main/loss  main/accuracy  elapsed_time'
    '1           0.190652    0.0925411             0.942417       9.85731'

A column is as wide as its name, at least 10, and followed by two blanks; missing numbers are blank. Lines of
ProgressBar may come in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from batchai_magics.metrics.formats.line_format import NUMBER, Field, Line, LineFormat, line_pattern
from batchai_magics.metrics.measurement import Measurement, Record

_MOST_LINES = 256  # between two rows of a table
_WIDTH = 10
_GAP = re.compile(rb" {2,}")
_CELL = re.compile(rb"(?:" + NUMBER + rb")?")
_UNITS = {"elapsed_time": "s"}


def _read_header(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    line.state.table_columns = tuple(name.decode() for name in _GAP.split(line.text.strip()))
    line.state.table_lines_left = _MOST_LINES
    yield from ()


def read_table_row(line: Line) -> list[Measurement]:
    """Parse a line that may be a row of the open table; empty if it is not."""
    state = line.state
    cells = _cells(line.text, state.table_columns)
    state.table_lines_left = _MOST_LINES if cells else state.table_lines_left - 1
    step, epoch = (int(cells[name]) if name in cells else None for name in ("iteration", "epoch"))
    names = (name for name in state.table_columns if name in cells and name not in ("iteration", "epoch"))
    return [
        line.value(Field(name, _UNITS.get(name, "")), cells[name], step=step, epoch=epoch) for name in names
    ]


def _cells(text: bytes, columns: tuple[str, ...]) -> dict[str, float]:
    """The numbers by column; empty unless every cell is valid."""
    texts: list[bytes] = _GAP.split(text.strip())
    if len(texts) != len(columns):
        texts = [cell.strip() for cell in _cut(text, columns)]
    if not all(map(_CELL.fullmatch, texts)):
        return {}
    cells = {name: float(cell) for name, cell in zip(columns, texts, strict=True) if cell}
    return cells if _is_counted(cells) else {}


def _is_counted(cells: Mapping[str, float]) -> bool:
    """Whether there is an epoch or an iteration, and both are valid counts."""
    counts = [cells[name] for name in ("epoch", "iteration") if name in cells]
    return bool(counts) and all(0 <= count < 1e15 and count == int(count) for count in counts)


def _cut(text: bytes, columns: tuple[str, ...]) -> Iterator[bytes]:
    """The text below each column name; excess text ends up in the last cell, which then is invalid."""
    for name in columns[:-1]:
        width = max(_WIDTH, len(name)) + 2
        yield text[:width]
        text = text[width:]
    yield text


TABLE_OPENINGS = (b"main/loss", b"main/accuracy")
"""Substrings of a table header."""

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
"""The table header; rows, which no literal identifies, are parsed by `read_table_row`."""
