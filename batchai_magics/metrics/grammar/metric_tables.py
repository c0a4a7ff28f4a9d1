"""Numbers in tables: boxes with a name and a number per line, and columns below a header.

    | rollout/           |          |       epoch     train_loss  valid_loss  accuracy  time
    |    ep_rew_mean     | 22.4     |       0         0.646314    0.509850    0.766505  00:01
    | time/              |          |
    |    total_timesteps | 2048     |       Epoch    GPU_mem   box_loss   cls_loss  Instances       Size
    ---------------------------------         1/3      2.62G      1.133      1.650          33   640: 100%|.

A table must have a position: a box in any of its lines, columns in one of their names. It must also have a
measure; other tables give nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple

from batchai_magics.metrics.grammar.metric_names import (
    TRAIN,
    VALIDATION,
    in_phase,
    is_excluded,
    is_quality,
    is_rate,
    phase_of_word,
    split_phase,
)
from batchai_magics.metrics.grammar.row_patterns import (
    Number,
    Row,
    RowPattern,
    box_pattern,
    columns_pattern,
)
from batchai_magics.metrics.grammar.table_columns import (
    BAR_START,
    EPOCHS,
    GAP,
    SPLITS,
    STEPS,
    Columns,
    aligned,
    are_other_names,
    cells_of,
    columns_of,
    is_heading_of_columns,
    is_measured,
    joined_cells,
    numbers_of,
    program_openings,
    without_frame,
    words_of_row,
)
from batchai_magics.metrics.programs import PROGRAM_TABLES, Layout, ProgramTable

_MOST_COUNT_DIGITS = 18  # so that integers of 64 bits hold it
_MOST_LINES = 300  # between two rows of columns, or in one box
_MOST_PATTERNS = 8
_NUMBER = rb"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?\.?\d*(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)"
_BLANKS = re.compile(r"\s+")
_NAME = re.compile(rb"[A-Za-z][\w-]{0,30}")
_CELL = re.compile(rb"(?P<number>" + _NUMBER + rb")(?P<unit>%|[GMK]i?B?|s|ms|[ ](?:ms|s|K))?")
_BOX_LINE = re.compile(
    rb"\|(?P<indent>[ ]{3}|\t)?[ \t]*(?P<name>[A-Za-z][^|]*?)[ \t]*"
    rb"\|[ \t]*(?P<value>(?=[-+.\d])" + _CELL.pattern + rb")?[ \t]*\|"
)
_LIST = re.compile(rb"\[((?:(?:" + _NUMBER + rb"),?[ ]?){1,40})\]")
_COUNT = re.compile(rb"\[?#?(\d{1,18})(?:/\d+|\.0+)?\]?(?: \(\d[\d.]*%\))?")
_MEMBER = re.compile(
    rb"[ \t]*(?P<begin>\{)?'(?P<name>[^'\n]{1,80})': (?:(?:np\.float\d\d|[A-Za-z]{0,12}[Aa]rray)\()?"
    rb"(?:(?P<number>[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)(?:\)|, dtype=\w+\))?|[^\n]*?)"
    rb"(?P<end>[,}])[ \t]*"
)
_JSON_LINE = re.compile(
    rb'[ \t]*(?:"[^"\n]{1,80}"[ \t]*:[ \t]*[^\n]{1,200}|[-+.\deE]{1,40},?|"[^"\n]{0,100}",?|[\]}],?)[ \t]*'
)
_SETTINGS = frozenset((
    "batch_size", "optimizer", "num_epochs", "epochs", "seed", "num_workers", "max_steps", "weight_decay",
    "hidden_size", "dropout",
))  # fmt: skip
_RULE = re.compile(rb"(?:[-+|=:. \t]|\xe2[\x94\x95][\x80-\xbf]){8,}")
_TWO_RULES = re.compile(rb"-{3,}[ ]{2,4}-{3,}")  # above and below names and numbers
_BORDER = re.compile(rb"\xe2\x94[\x82\x83]|\xe2\x95[\x91]")
_BAR = re.compile(rb":\s+\d+% ?(?:\||\xe2\x94)[^\n]*?\s(?P<count>\d{1,18})/\d+\s")
_BESIDE = re.compile(rb"\W*|[^\n]*\d%\s*\|[^\n]*")  # a rule, a bar, or one that is cleared
_CONFIG = re.compile(
    rb"(?i)(?:hyper)?-?param(?:eter)?s?|settings?|config(?:uration)?|arguments?|args?|options?|flags?"
)
_MARKS = tuple(table.mark.encode() for table in PROGRAM_TABLES if table.layout is Layout.COPIED)
_OPENINGS = "|".join(program_openings()).encode()
_PROGRAM_TABLE = re.compile(_OPENINGS)
MAY_BE_TABLE = re.compile(
    rb"(?i)" + _OPENINGS + rb"|\{'|epoch|step|iter|update|round|batch|\bgen\b|generation|#|\bit\b|\bep\b"
    rb"|(?<![\w./@-])(?:[a-z][\w./@-]{0,40}[ ]{2,40}){4}|[-=]{8}|-{3}[|+]|[a-z)1][ \t]*\|[ \t]*[a-z]"
    rb"|^[ \t]*(?:" + "|".join(sorted(SPLITS)).encode() + rb")[ ]{2}|^\{$"
    rb"|\xe2[\x94\x95]"
)
"""Every line that is the edge or the header of a table matches this, and most lines of tables."""
_NO_COLUMNS = frozenset((
    "class", "exs", "images", "instances", "labels", "targets", "size", "img_size", "ts", "iterations",
    "episodes", "n_updates", "time_elapsed", "time_total_s",
))  # fmt: skip
_IS_TRAINED = frozenset(("train", "training", "is_train", "is_training"))
_PHASE_OF_FLAG = {b"True": TRAIN, b"False": VALIDATION}  # in a column of such a name
_Box = Sequence[tuple[str, bytes]]  # its names and values
_BoxKey = tuple[bytes, tuple[str, ...]]  # its edge and its names

NOTHING = Row(None, None, ())
"""What a line of a table gives that completes no numbers."""


class MetricTable:
    """The tables of one process's lines."""

    def __init__(self) -> None:
        self._columns: Columns | None = None
        self._lines_left = 0
        self._box: list[tuple[str, bytes]] | None = None
        self._box_lines: list[re.Match[bytes]] = []  # those with a frame
        self._box_patterns: dict[_BoxKey, RowPattern | None] = {}
        self._row_patterns: list[RowPattern | None] = []  # of the columns
        self._section = self._task = ""
        self._copied_names: tuple[str, ...] = ()
        self._shown: tuple[object, ...] = ()
        # of the last row of two columns: its position, and whether it has a decimal number
        self._pair: tuple[float, bool] | None = None
        self._members: list[tuple[str, bytes]] | None = None  # of a dict that is printed over several lines
        self._object: list[bytes] | None = None  # the lines of JSON that spans several
        self.is_below_heading = False  # the next line, so that a box there needs no position
        self.phase_above: str | None = None  # of the next line, if it begins a table
        self._is_placed = False  # a line above the box or the columns has their position
        self._heading: bytes = b""  # the first of the two lines of a header
        self._is_config = False  # the box holds parameters
        self._is_bare = False  # the box has no frame
        self.is_bound = False  # the last numbers are a dict's, which are no metrics before training starts

    @property
    def is_open(self) -> bool:
        """Whether the next line may belong to a table."""
        is_closed = self._columns is None and self._box is None and self._members is None
        return not is_closed or self._object is not None or bool(self._copied_names or self._heading)

    @property
    def patterns(self) -> Sequence[RowPattern]:
        """The patterns of rows above."""
        rows = self._row_patterns if self._columns is not None else []
        return [*filter(None, (*rows, *self._box_patterns.values()))]

    @property
    def open_patterns(self) -> Sequence[RowPattern]:
        """The patterns of rows above that the next lines may match."""
        if self._object is not None:
            return []
        if self._columns is not None:
            return [*filter(None, self._row_patterns)]
        is_at_edge = self._box == [] and not (self._is_bare or self._is_config or self._section)
        return [*filter(None, self._box_patterns.values())] if is_at_edge else []

    def pass_rows(self, last: Row) -> None:
        """Pass rows that matched a pattern, given the last of them."""
        self._members, self._copied_names, self.is_bound = None, (), False
        if self._columns is not None:
            self._heading, self._lines_left, self._shown = b"", _MOST_LINES, (last.epoch, *last.numbers)

    @property
    def is_of_heading(self) -> bool:
        """Whether the numbers of the box belong to the position above it."""
        return self._is_placed and (self._columns is None or self._columns.is_placed)

    def enter(self, line: bytes) -> Row | None:
        """Read a line without its prefixes: the numbers that it completes; None if it is of no table."""
        self.is_bound = self._members is not None
        text = (_BORDER.sub(b"|", line) if b"\xe2" in line else line).rstrip()
        if row := self._object_line(text):
            return row
        if self.enter_box([text]):
            return NOTHING
        member = _MEMBER.fullmatch(line)
        if member and _is_whole_dict(member):
            self._members, self._box = None, self._box or None  # the line is not below an edge any more
            return None
        if row := self._member(member):
            return row
        if mark := _mark_of(text):
            return self._copied(text.removeprefix(mark))
        self._copied_names = ()
        if _RULE.fullmatch(text.strip()):
            return self._rule(text.strip())
        if not line and self._pair:
            self._columns = None
        return self._table_line(text)

    def enter_box(self, lines: Iterable[bytes]) -> int:
        """Read lines of the open box up to the first without its frame; return their count."""
        box, count = None if self._is_bare or self._columns else self._box, 0
        for line in lines if box is not None else ():
            cells = _BOX_LINE.fullmatch(line)
            if cells is None or box is None or len(box) > _MOST_LINES:
                break
            self._box_lines.append(cells)
            indent, name, value = cells.group("indent", "name", "value")
            text = name.decode(errors="replace")
            if value:
                box.append((self._section + text if indent else text, value))
            elif text.endswith("/"):
                self._section = text
            count += 1
        if count:
            self._members, self._copied_names = None, ()
        return count

    def _table_line(self, text: bytes) -> Row | None:
        """Read a line of a box or of columns, which may be their header."""
        if self._box is not None and self._columns is None:
            # not the header of columns in a box
            is_header = _PROGRAM_TABLE.search(text) or (not self._box and columns_of(text) is not None)
            if not is_header and (row := self._box_line(text)):
                return row
        if header := self._header(text):
            self._is_placed = header.is_placed
            header = header._replace(phase=header.phase or self.phase_above)
            self._columns, self._lines_left, self._box, self._shown = header, _MOST_LINES, None, ()
            self._pair, self._row_patterns = None, []
            return NOTHING
        row = self._row(self._columns, text) if self._columns else None
        return row or self._box_line(text)

    def _header(self, text: bytes) -> Columns | None:
        """The columns that a line names, alone or with the line above it."""
        above, self._heading = self._heading, b""
        header = columns_of(text, is_placed=self.is_below_heading)
        if header is None and above:
            header = columns_of(joined_cells(above, text))
        elif header is None and is_heading_of_columns(text):
            self._heading = text
        return header

    def _copied(self, text: bytes) -> Row:
        """Read a line of copied results: a task, then the names, then the numbers."""
        cells, names, self._copied_names = text.split(b","), self._copied_names, ()
        if text.startswith(b"Task: "):
            self._task = text.removeprefix(b"Task: ").decode(errors="replace")
        elif len(cells) == len(names):
            pairs = zip(names, cells, strict=True)
            rows = [number for name, cell in pairs for number in _numbers(name, cell, VALIDATION)]
            return Row(None, None, rows)
        elif all(map(_NAME.fullmatch, cells)):
            self._copied_names = tuple(f"{self._task}/{cell.decode()}" for cell in cells)
        return NOTHING

    def _member(self, member: re.Match[bytes] | None) -> Row | None:
        """Read a line of a dict that is printed over several lines; None for any other line."""
        if member is None or bool(member["begin"]) is (self._members is not None):
            self._members = None
            return None
        members = self._members = self._members or []
        if member["number"]:
            members.append((member["name"].decode(errors="replace"), member["number"]))
        if member["end"] == b"," and len(members) < _MOST_LINES:
            return NOTHING
        self._members = None
        return _dict_numbers(members)

    def _object_line(self, text: bytes) -> Row | None:
        """Read a line of a JSON object over several lines, unless a heading above places its members."""
        if self._object is None:
            if text != b"{" or self.is_below_heading:
                return None
            self._object, self._box = [text], None
            return NOTHING
        if len(self._object) > _MOST_LINES or not _JSON_LINE.fullmatch(text):
            self._object = None
            return None
        self._object.append(text)
        if text != b"}":
            return NOTHING
        lines, self._object = self._object, None
        return _object_numbers(b"\n".join(lines))

    def _rule(self, text: bytes) -> Row | None:
        self._is_bare = _TWO_RULES.fullmatch(text) is not None
        box, self._box, self._section = self._box, [], ""
        lines, self._box_lines = self._box_lines, []
        self._is_placed = self.is_below_heading if box is None else self._is_placed
        if self._columns and self._columns.table.layout is Layout.PAIRS and self._shown:
            self._columns = None
        is_config, self._is_config = self._is_config and bool(box), self._is_config and not box
        if box and self._is_bare and any(name.lower() == "epochs" for name, _ in box):
            is_config = True  # of a training to come
        if box and not is_config:
            self._learn_box(lines, box, text)
            return _box_numbers(box, is_placed=self._is_placed)
        return NOTHING if self._columns or is_config else None

    def _learn_box(self, lines: Sequence[re.Match[bytes]], box: _Box, edge: bytes) -> None:
        """Learn the pattern of a complete box from its framed lines."""
        names = tuple(name for name, _ in box)
        if (edge, names) in self._box_patterns or self._is_bare or self._columns:
            return
        if len(self._box_patterns) >= _MOST_PATTERNS:
            self._box_patterns.clear()
        pattern = None
        if sum(line["value"] is not None for line in lines) == len(box):
            pattern = box_pattern(lines, names, edge, partial(_box_numbers, is_placed=self._is_placed))
        self._box_patterns[edge, names] = pattern

    def _box_line(self, text: bytes) -> Row | None:
        box = self._box
        if box is not None and self._is_placed and (pairs := _box_pairs(text)):
            box += pairs
            return NOTHING
        cells = _box_cells(b"|%s|" % text.strip() if self._is_bare else text)
        if not cells or box is None or len(box) > _MOST_LINES:
            self._box = None
            return None
        name, value = cells
        if value.lower() == b"value" and _CONFIG.fullmatch(name):
            self._is_config = True
        if not value and name.endswith(b"/"):
            self._section = name.decode(errors="replace")
        elif _CELL.fullmatch(value) and value:
            is_inner = self._section and text.startswith((b"|   ", b"|\t"))
            box.append(((self._section if is_inner else "") + name.decode(errors="replace"), value))
        return NOTHING

    def _row(self, columns: Columns, text: bytes) -> Row | None:
        self._lines_left -= 1
        row = self._pair_numbers(columns, text) if columns.is_pair else _row_numbers(columns, text)
        if row is None:
            is_over = columns.ends_at_text and not _BESIDE.fullmatch(text)
            if is_over or not self._lines_left or (self._shown and are_other_names(columns, text)):
                self._columns = None
            return None
        if len(self._row_patterns) < _MOST_PATTERNS and not columns.is_pair:
            self._row_patterns.append(_pattern_of(columns, text))
        self._lines_left = _MOST_LINES
        shown = row.epoch, *row.numbers
        if shown == self._shown and BAR_START.search(text):
            return row._replace(numbers=())  # drawn again
        self._shown = shown
        return row

    def _pair_numbers(self, columns: Columns, text: bytes) -> Row | None:
        """The numbers of a row of two columns that continues those above; other lines end the columns."""
        cells = aligned(columns, cells_of(without_frame(text), columns.separator))
        row = _training_row(columns, cells) if cells else None
        if cells and row:
            position = row.epoch if row.step is None else row.step
            is_decimal = not all(cell.isdigit() for cell in cells)
            above = self._pair
            if position is not None and (above is None or (position >= above[0] and is_decimal >= above[1])):
                self._pair = position, is_decimal
                return row
        if not _BESIDE.fullmatch(text):
            self._columns = None
        return None


def _row_numbers(columns: Columns, text: bytes) -> Row | None:
    """The numbers of a row; None if the line does not fit the columns."""
    if columns.table.layout is Layout.PHASES:
        cells = [cell for _, cell in cells_of(text, columns.separator)]
        if len(cells) != len(columns.names) + 1 or not cells[0]:
            return None
        name, pairs = cells[0].decode(errors="replace"), zip(columns.names, cells[1:], strict=True)
        phased = (_numbers(name, cell, phase_of_word(phase)) for phase, cell in pairs)
        return Row(None, None, [*chain.from_iterable(phased)])
    bar, text = _BAR.search(text), without_frame(text)
    row = cells_of(BAR_START.split(text, maxsplit=1)[0], columns.separator)
    if columns.table.is_of_words:
        row = words_of_row(text)
    elif len(row) != len(columns.names) and not columns.separator:
        row = numbers_of(text) or row
    is_cut = columns.table.is_of_words and len(row) < len(columns.names)
    aligned_row = None if is_cut else aligned(columns, row)
    if aligned_row is None:
        return None
    if columns.table.layout is Layout.PAIRS:
        numbers = list(_numbers(aligned_row[0].decode(errors="replace"), aligned_row[1], None))
        return Row(None, None, numbers) if numbers else None
    training_row = _training_row(columns, aligned_row)
    if bar and training_row and not columns.table.row_name:
        return training_row._replace(step=int(bar["count"]))
    return training_row


def _pattern_of(columns: Columns, text: bytes) -> RowPattern | None:
    """The pattern of a row that has as many cells as the columns."""
    table, cells = columns.table, [cell for _, cell in cells_of(text, columns.separator)]
    is_plain = table.layout is Layout.COLUMNS and not (table.is_of_words or BAR_START.search(text))
    if not is_plain or len(cells) != len(columns.names) or (b"|" in text and columns.separator != b"|"):
        return None
    return columns_pattern(text, cells, columns.separator, partial(_training_row, columns))


def _training_row(columns: Columns, cells: Sequence[bytes]) -> Row | None:
    """The numbers of a row with a position, or with the name of its table's rows; else None."""
    table, label = columns.table, _row_label(columns.table, cells)
    phase = next(filter(None, map(phase_of_word, label.split())), columns.phase)
    split = columns.index_of(SPLITS)
    if split is not None:
        phase = phase_of_word(cells[split].decode(errors="replace")) or phase
    flag = columns.index_of(_IS_TRAINED)
    if flag is not None:
        phase = _PHASE_OF_FLAG.get(cells[flag], phase)
    if phase is None and (label or (split is not None and columns.is_placed)):
        return None
    indices = [columns.index_of(EPOCHS), columns.index_of((*STEPS, *table.steps))]
    counts = [_COUNT.fullmatch(cells[index]) if index is not None else None for index in indices]
    is_named = bool(table.row_name) and cells[0] == table.row_name.encode()
    if not (any(counts) or columns.is_placed or is_named):
        return None
    numbers = _measured_numbers(columns, cells, phase, positions=indices)
    epoch, step = (int(count[1]) if count else None for count in counts)
    return Row(step, epoch, numbers) if numbers else None


def _row_label(table: ProgramTable, cells: Sequence[bytes]) -> str:
    """The label of a row, in any of its cells; empty if rows of its table have none."""
    texts = (cell.decode(errors="replace") for cell in cells if table.label)
    return next((text for text in texts if text.startswith(table.label)), "")


def _measured_numbers(
    columns: Columns, cells: Sequence[bytes], phase: str | None, *, positions: Container[int | None]
) -> list[Number]:
    """The numbers in a row's cells, without its positions."""
    return [
        number
        for index, (name, cell) in enumerate(zip(columns.names, cells, strict=True))
        if index not in positions
        for number in _numbers(columns.table.names.get(name.lower(), name), cell, phase)
    ]


def _pairs_of(pairs: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The names and values that are neither positions nor parameters."""
    positions = (*EPOCHS, *STEPS, *_NO_COLUMNS)
    return [
        (name, value)
        for name, value in pairs
        if _last(name) not in positions and not name.startswith("config/")
    ]


def _is_whole_dict(member: re.Match[bytes]) -> bool:
    """Whether a line that looks like a member is a dict with several."""
    return bool(member["begin"]) and member["end"] == b"}" and not member["number"]


def _dict_numbers(members: Sequence[tuple[str, bytes]]) -> Row:
    """The numbers of a printed dict, if it has a measure; else NOTHING."""
    step, epoch = _positions({name.lower(): value for name, value in members if b"." not in value})
    rest = _pairs_of(members)
    if not any(is_quality(name) and b"." in value for name, value in rest):
        return NOTHING
    bases = [split_phase(name) for name, _ in rest]
    phases = {phase for phase, _ in bases} - {None, TRAIN}
    is_repeated = len({base for _, base in bases}) < len(bases)  # `loss` and `val_loss`
    phase = next(iter(phases)) if len(phases) == 1 and not is_repeated else None
    return Row(step, epoch, [number for name, value in rest for number in _numbers(name, value, phase)])


def _object_numbers(text: bytes) -> Row:
    """The numbers of a JSON object with a measure and a step or an epoch; NOTHING of any other text."""
    try:
        members = [*_members_of(json.loads(text))]
    except (ValueError, RecursionError):
        return NOTHING
    if not _SETTINGS.isdisjoint(_last(name) for name, _ in members):
        return NOTHING
    row = _dict_numbers(members)
    return NOTHING if row.step is row.epoch is None else row


def _members_of(values: Mapping[str, object], section: str = "") -> Iterator[tuple[str, bytes]]:
    """The names of the numbers in an object, with their sections, and the numbers."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _members_of(value, f"{section}{name}/")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield section + name, repr(value).encode()


def _box_numbers(box: Sequence[tuple[str, bytes]], *, is_placed: bool) -> Row:
    """The numbers of a complete box with a measure and a position, maybe of a line above; else NOTHING."""
    step, epoch = _positions({_last(name): value for name, value in box})
    rest = _pairs_of(box)
    if (epoch is None and step is None and not is_placed) or not any(is_measured(name) for name, _ in rest):
        return NOTHING
    return Row(step, epoch, [number for name, value in rest for number in _numbers(name, value, None)])


def _numbers(name: str, cell: bytes, phase: str | None) -> Iterable[Number]:
    if cell[:1] == b"[" and (listed := _LIST.fullmatch(cell)):  # such as the losses of equations
        elements = listed[1].split()
        for index, element in enumerate(elements, 1):
            element_name = name if len(elements) == 1 else f"{name} {index}"
            yield from _numbers(element_name, element.rstrip(b","), phase)
    match = _CELL.fullmatch(cell)
    metric = _metric_of(name, phase) if match and match["number"].strip(b"+-.") else None
    if match and metric:
        is_in_thousands = match["unit"] in (b"K", b" K") and (is_rate(name) or name.lower().endswith("/ sec"))
        value = float(match["number"].replace(b",", b"")) * (1000 if is_in_thousands else 1)
        yield metric.name, value, metric.phase


class _Metric(NamedTuple):
    name: str
    phase: str


@lru_cache(4096)
def _metric_of(name: str, phase: str | None) -> _Metric | None:
    """The metric of a column or a line of a box, by its name; None if it is none."""
    if not name or name.lower() in _NO_COLUMNS or is_excluded(name):
        return None
    name_phase, short = split_phase(name if "(" in name else name.rstrip(")"))
    phase = name_phase or phase
    return _Metric(in_phase(_BLANKS.sub("_", short.strip()).lower(), phase), phase or TRAIN)


def _box_cells(text: bytes) -> tuple[bytes, bytes] | None:
    """The name and the value in a line of a box: `| name | value |` or `| name    value |`."""
    if not (text.startswith(b"|") and text.endswith(b"|") and len(text) > 4):
        return None
    cells = [cell.strip() for cell in text[1:-1].split(b"|")]
    if len(cells) == 1:
        cells = GAP.split(cells[0], maxsplit=1)
        cells = [*cells, b""][:2]
    return (cells[0], cells[1]) if len(cells) == 2 else None


def _box_pairs(text: bytes) -> list[tuple[str, bytes]]:
    """The names and values in a line of several: `| name | 0.5 | name | 1.5 |`; empty for any other line."""
    cells = [cell.strip() for cell in text.strip()[1:-1].split(b"|")]
    pairs = [(name, value) for name, value in zip(cells[::2], cells[1::2], strict=False) if name or value]
    are_named = all(_CELL.fullmatch(value) and not _CELL.fullmatch(name) for name, value in pairs)
    if len(cells) < 4 or len(cells) % 2 or not are_named:  # `| loss | 0.5 | 0.6 | 0.7 |` has columns
        return []
    return [(name.decode(errors="replace"), value) for name, value in pairs]


def _positions(by_name: Mapping[str, bytes]) -> Sequence[int | None]:
    """The step and the epoch among values by name."""
    texts = (next((by_name[name] for name in names if name in by_name), None) for names in (STEPS, EPOCHS))
    return [None if text is None else _count_of(text.replace(b",", b"")) for text in texts]


def _count_of(text: bytes) -> int | None:
    """The whole part of a number; None if it is no count, as it is too large or not finite."""
    if text.isdigit() and len(text) <= _MOST_COUNT_DIGITS:
        return int(text)
    number = float(text)
    return int(number) if abs(number) < 10**_MOST_COUNT_DIGITS else None


@lru_cache(4096)
def _last(name: str) -> str:
    """The name without its sections."""
    return name.rpartition("/")[2].strip().lower()


def _mark_of(text: bytes) -> bytes:
    """The mark of copied rows that a line begins with; else empty."""
    return next((mark for mark in _MARKS if text.startswith(mark)), b"")


def may_open_table(line: bytes) -> bool:
    """Whether a line without its prefixes may be a header or the edge of a table."""
    text = (_BORDER.sub(b"|", line) if b"\xe2" in line else line).rstrip()
    if _mark_of(text):
        return True
    if _RULE.fullmatch(text.strip()) is not None or columns_of(text, is_placed=True) is not None:
        return True
    if is_heading_of_columns(text):
        return True
    if text == b"{":
        return True
    member = _MEMBER.fullmatch(line) if b"{'" in line else None
    return member is not None and bool(member["begin"]) and member["end"] == b","
