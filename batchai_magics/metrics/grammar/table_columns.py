"""The columns of a metric table: its header, and how the cells of a row align with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from batchai_magics.metrics.grammar.metric_names import is_excluded, is_measure, is_quality, phase_of_word
from batchai_magics.metrics.programs import PROGRAM_TABLES, Layout, ProgramTable

_MAX_COLUMNS = 40
_MANY_COLUMNS = 5
_NUMBER = re.compile(rb"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?|nan|inf")
BAR_START = re.compile(rb":\s+\d+% ?(?:\||\xe2\x94)")
_CELLS = re.compile(rb"[^ ]+")
GAP = re.compile(rb"[ \t]{2,}|\t")
_MAY_BE_HEADER = re.compile(rb"[\s|]*[A-Za-z#]")
_NO_HEADER = re.compile(rb"Step[ \t]+Img/sec[ \t]")
"""What tf_cnn_benchmarks prints above its step lines, which name their numbers."""

_NAME = re.compile(rb"[A-Za-z#][\w./@%:'# ()*-]{0,40}|\|\|\w{1,20}\|\|")
EPOCHS = frozenset(("epoch", "epochs", "ep", "e"))
STEPS = (
    "total_timesteps", "timesteps", "totalenvsteps", "global_step", "step", "steps", "#",
    "training_iteration", "iteration", "iter", "it", "update", "round", "batch", "total_train_updates", "gen",
    "generation", "timestepssofar",
)  # fmt: skip
_PLAIN_NAME = re.compile(rb"[\w./@%-]+(?:[ ][\w./@%()-]+){0,2}")
_VAGUE = frozenset(("#", "value", "metric"))  # also head tables of anything else
_FITNESS = frozenset(("avg", "min", "max"))  # of a generation
_ANY_TABLE = ProgramTable(program="", sample="")
_HEADERS = [(re.compile(table.header), table) for table in PROGRAM_TABLES if table.header]
_HAS_NUMBER = re.compile(r":|[ ][-+]?\d|\d\.")
_PHASE_TABLE = ProgramTable(program="", sample="", layout=Layout.PHASES)
SPLITS = frozenset(("split", "set", "phase", "dataset", "data", "mode", "stage", "subset"))
_ANY_NAME = ("[^|]*", ".*")


class Columns(NamedTuple):
    """The names in a header, and where each begins."""

    names: tuple[str, ...]
    starts: tuple[int, ...]
    separator: bytes  # b"" for blanks
    phase: str | None = None  # of columns whose names have none
    is_placed: bool = False  # a line above has the position
    table: ProgramTable = _ANY_TABLE

    @property
    def is_pair(self) -> bool:
        """Whether they are only a step and a measure, so that any two numbers look like a row."""
        return len(self.names) == 2 and self.table is _ANY_TABLE and not self.is_placed

    @property
    def ends_at_text(self) -> bool:
        """Whether the rows are short, so that any other text ends them."""
        return self.is_placed and (self.separator != b"" or self.names[0].lower() in SPLITS)

    def index_of(self, names: tuple[str, ...] | frozenset[str]) -> int | None:
        """The column that has one of these names."""
        return _index_of(self.names, names)


@lru_cache(1024)
def _index_of(columns: tuple[str, ...], names: tuple[str, ...] | frozenset[str]) -> int | None:
    lower = [name.lower().removesuffix(" (% done)") for name in columns]
    return next((lower.index(name) for name in names if name in lower), None)


def columns_of(text: bytes, *, is_placed: bool = False) -> Columns | None:
    """The columns of a table's header; None for any other line.

    `is_placed`: a line above it has the position, so that a header of many columns, or of measures between
    bars, needs none.
    """
    if not _MAY_BE_HEADER.match(text) or _NO_HEADER.search(text):
        return None
    text = without_frame(BAR_START.split(text, maxsplit=1)[0].removesuffix(b"\\"))
    columns = _named_columns(text)
    if columns is None:
        return None
    if program_columns := _program_columns(columns, text):
        return program_columns
    if _is_of_training(columns):
        return columns
    return _placed_columns(columns) if is_placed else None


def _named_columns(text: bytes) -> Columns | None:
    """The columns that a line names; None if any cell is not a name."""
    separator = _separator_of(text)
    cells = cells_of(text, separator)
    names = [name for _, name in cells]
    if not (2 <= len(names) <= _MAX_COLUMNS and all(map(_NAME.fullmatch, names))):
        return None
    if separator == b"," and not all(map(_PLAIN_NAME.fullmatch, names)):
        return None
    return _named(cells, separator)


def _program_columns(columns: Columns, text: bytes) -> Columns | None:
    """The columns if they are a table of a known program; else None."""
    for header, table in _HEADERS:
        candidate = _named(words_of_row(text), columns.separator) if table.is_of_words else columns
        if header.fullmatch("|".join(candidate.names)):
            return candidate._replace(phase=table.phase, table=table)
    return None


def _placed_columns(columns: Columns) -> Columns | None:
    """The columns of a table below its position: many, or measures, alone or with a split, or phases."""
    if columns.separator != b"|" and columns.names[0].lower() not in SPLITS:
        is_wide = not columns.separator and len(columns.names) >= _MANY_COLUMNS
        return columns._replace(is_placed=True) if is_wide and any(map(is_measured, columns.names)) else None
    if any(map(_HAS_NUMBER.search, columns.names)):
        return None
    first, *others = columns.names
    if first.lower() in ("metric", "metrics") and all(map(phase_of_word, others)):
        return Columns((*others,), columns.starts[1:], columns.separator, is_placed=True, table=_PHASE_TABLE)
    names = others if first.lower() in SPLITS else columns.names
    return (
        columns._replace(is_placed=True)
        if all(map(is_measured, names)) and any(map(is_quality, names))
        else None
    )


def _named(cells: Sequence[tuple[int, bytes]], separator: bytes) -> Columns:
    return Columns(tuple(name.decode() for _, name in cells), tuple(start for start, _ in cells), separator)


def words_of_row(text: bytes) -> list[tuple[int, bytes]]:
    """The words of a line, each with its start."""
    return [(cell.start(), cell[0]) for cell in _CELLS.finditer(text)]


def numbers_of(text: bytes) -> list[tuple[int, bytes]]:
    """The numbers of a row printed by pandas, without a label `all`; empty for any other line."""
    cells = words_of_row(text)
    cells = cells[1:] if cells and cells[0][1] == b"all" else cells
    return cells if all(_NUMBER.fullmatch(cell) for _, cell in cells) else []


def program_openings() -> list[str]:
    """Expressions of which every header of a program's table, or every row with a mark, matches one."""
    parts = [table.header.split(r"\|")[:2] for _, table in _HEADERS]
    headers = [r"[ \t|]+".join(part for part in pair if part not in _ANY_NAME) for pair in parts]
    return [*headers, *(re.escape(table.mark) for table in PROGRAM_TABLES if table.mark)]


def is_heading_of_columns(text: bytes) -> bool:
    """Whether a line is the first of a header over two lines: framed names, one of them a position."""
    cells = [cell for _, cell in cells_of(text, b"|")] if text[:1] == text[-1:] == b"|" else []
    names = {cell.decode(errors="replace").lower() for cell in cells}
    return len(cells) > 2 and all(map(_NAME.fullmatch, cells)) and not names.isdisjoint((*EPOCHS, *STEPS))


def joined_cells(first: bytes, second: bytes) -> bytes:
    """The names of a header over two lines in one line; `first` if their cells differ."""
    pairs = [*zip(cells_of(first, b"|"), cells_of(second, b"|"), strict=False)]
    if first.count(b"|") != second.count(b"|") or second[:1] != b"|":
        return first
    names = (b" ".join(part for _, part in pair if _NAME.fullmatch(part)) for pair in pairs)
    return b"|" + b"|".join(names) + b"|"


def without_frame(text: bytes) -> bytes:
    """A line without the bars around it, unless it has others between."""
    line = text.strip()
    is_framed = line[:1] == line[-1:] == b"|" and line.count(b"|") == 2
    return text.replace(b"|", b" ") if is_framed else text


def _separator_of(text: bytes) -> bytes:
    """What separates the columns of a header: a bar, a comma, a semicolon, or blanks."""
    if b"|" in text.replace(b"||", b""):
        return b"|"
    for separator in (b",", b";"):
        names = [cell for _, cell in cells_of(text, separator)]
        if len(names) > 2 and all(map(_PLAIN_NAME.fullmatch, names)):
            return separator
    return b"" if GAP.search(text.strip()) else b","


def _is_of_training(columns: Columns) -> bool:
    """Whether the columns have a position and a measure."""
    has_position = columns.index_of(EPOCHS) is not None or columns.index_of(STEPS) is not None
    has_one_epoch = sum(name.lower() in EPOCHS for name in columns.names) < 2  # a summary has several
    is_measuring = any(map(is_measured, columns.names)) or _FITNESS.issubset(columns.names)
    names = columns.names
    # the names of two columns hardly head anything but training
    are_plain = not any(" " in name or name.lower() in _VAGUE for name in names)
    are_clear = not columns.is_pair or (are_plain and any(map(is_quality, names)))
    return are_clear and has_position and has_one_epoch and is_measuring


def are_other_names(columns: Columns, text: bytes) -> bool:
    """Whether a line below these columns is the header of others, which are not read."""
    cells = cells_of(text, columns.separator)
    return 2 < len(cells) <= len(columns.names) and all(_NAME.fullmatch(cell) for _, cell in cells)


def is_measured(name: str) -> bool:
    """Whether the name of a column or a row is a metric of training."""
    return is_measure(name) and not is_excluded(name)


def cells_of(text: bytes, separator: bytes) -> list[tuple[int, bytes]]:
    """The cells of a line, each with its start."""
    if separator:
        parts = text.split(separator)
        starts = [sum(len(part) + 1 for part in parts[:index]) for index in range(len(parts))]
        cells = [(start, part.strip()) for start, part in zip(starts, parts, strict=True)]
        is_framed = separator == b"|" and text.lstrip().startswith(b"|")
        return cells[1:-1] if is_framed and len(cells) > 2 else cells
    cells, at = [], 0
    for part in GAP.split(text):
        at = text.index(part, at)
        if part:
            cells.append((at, part.strip()))
        at += len(part)
    return cells


def aligned(columns: Columns, cells: list[tuple[int, bytes]]) -> list[bytes] | None:
    """A cell for each column, empty where the row has none; None if the cells do not fit the columns."""
    if len(cells) == len(columns.names) + 1 and not columns.separator:
        start, cell = cells[0]  # the index of a data frame ends before the first heading begins
        if cell.isdigit() and start + len(cell) <= columns.starts[0]:
            cells = cells[1:]
    if len(cells) == len(columns.names):
        return [cell for _, cell in cells]
    if columns.separator or not 2 <= len(cells) < len(columns.names):
        return None
    row = [b""] * len(columns.names)
    is_left = all(start in columns.starts for start, _ in cells)
    for start, cell in cells:
        if is_left:
            row[columns.starts.index(start)] = cell
            continue
        indices = range(len(columns.names))
        nearest = min(
            indices,
            key=lambda index: abs(columns.starts[index] + len(columns.names[index]) - start - len(cell)),
        )
        row[nearest] = cell
    return row
