"""The shapes of lines, learned while reading: a line is read by the grammar once, its like by an expression.

The *shape* of a line is the line without its digits. The grammar does not look at the value of a digit, so
all lines with the same text between the same runs of digits have the same reading, at the same runs. The
*form* of a line is the line with zeros for its digits: the numbers of all lines of a form stand at the same
places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from batchai_magics.metrics.grammar.fixed_lines import has_fixed_digits
from batchai_magics.metrics.grammar.line_grammar import read_line
from batchai_magics.metrics.grammar.line_interest import may_matter
from batchai_magics.metrics.grammar.line_reading import Kind, LineReading, NamedNumber
from batchai_magics.metrics.grammar.metric_names import TEST, TRAIN, VALIDATION, has_inner_phase
from batchai_magics.metrics.grammar.metric_tables import may_be_of_table, may_open_table
from batchai_magics.metrics.grammar.plain_lines import is_undecided, plain_line
from batchai_magics.metrics.grammar.position_grammar import count
from batchai_magics.metrics.grammar.prefix_grammar import row_begin

DIGITS = b"0123456789"
_MAX_SHAPES = 4096
_MAX_SILENT = 1 << 16
_MAX_TRIES = 64
_MIN_LEAD_BYTES = 3
_NO_TABLE = b"Step\tImg/sec\ttotal_loss"  # of tf_cnn_benchmarks, whose step lines name their numbers
_RUN = re.compile(rb"\d+")
_LAST_WORD = re.compile(rb"[^\s,;|:={}]*\Z")
_MAX_NAME_WORDS = 7
_FACTORS = {"k": 1e3, "K": 1e3}  # `M` alone is a memory


class MetricName(NamedTuple):
    """How a number of a shape is recorded."""

    name: str
    unit: str
    phase: str


@dataclass(frozen=True, slots=True, eq=False)
class LineShape:
    """Where the numbers stand in all lines of a shape.

    `expression` matches such a line; its `groups` are the step, the epoch and the rank, as far as `has_step`,
    `has_epoch` and `has_rank` say, then the numbers, then the end of the prefix. `lead` is the text before
    the first digit.
    """

    reading: LineReading
    expression: re.Pattern[bytes]
    groups: tuple[int, ...]
    lead: bytes
    metrics: tuple[MetricName, ...]
    converters: tuple[Callable[[bytes], float], ...]
    factors: tuple[float, ...]
    has_step: bool
    has_epoch: bool
    has_rank: bool
    has_time: bool  # a pair such as `time=2026-03-02T10:25:35Z`
    divisors: tuple[float, ...] = ()  # of the numbers, if not 1
    has_decimal_commas: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LineForm:
    """Where the numbers stand in all lines of a form.

    A line with a form's text is read like it if its digits at the `fixed` places are those of names, and no
    text at a `refused` place is the given one, or that at the other place. `seconds` is a time since 1970.
    """

    shape: LineShape
    step: slice | None
    epoch: slice | None
    rank: slice | None
    numbers: tuple[tuple[MetricName, Callable[[bytes], float], slice], ...]
    prefix_end: int
    fixed: tuple[tuple[slice, bytes], ...]
    refused: tuple[tuple[slice, bytes | slice], ...] = ()
    seconds: slice | None = None

    @classmethod
    def of(cls, shape: LineShape, match: re.Match[bytes]) -> LineForm:
        """The form of a line that a shape's expression matches."""
        spans = [slice(*match.span(group)) for group in shape.groups]
        places = iter(spans)
        step = next(places) if shape.has_step else None
        epoch = next(places) if shape.has_epoch else None
        rank = next(places) if shape.has_rank else None
        numbers = tuple(zip(shape.metrics, shape.converters, places, strict=False))
        fixed = tuple((place, match.string[place]) for place in (*places,)[:-1])
        return cls(shape, step, epoch, rank, numbers, spans[-1].start, fixed)

    def fits(self, line: bytes) -> bool:
        """Whether a line with the form's text is read like the others."""
        if self.fixed and not all(line[place] == digits for place, digits in self.fixed):
            return False
        return not self.refused or not any(
            line[place] == (line[text] if isinstance(text, slice) else text) for place, text in self.refused
        )

    def step_of(self, line: bytes) -> int | None:
        """The step on a line of this form."""
        return None if self.step is None else count(line[self.step])

    def epoch_of(self, line: bytes) -> float | None:
        """The epoch on a line of this form."""
        return None if self.epoch is None else fraction(line[self.epoch])

    def values_of(self, line: bytes) -> list[tuple[MetricName, float]]:
        """The numbers on a line of this form."""
        return [(metric, convert(line[place])) for metric, convert, place in self.numbers]


def fraction(text: bytes) -> float:
    """An epoch as printed; a whole one is an integer."""
    return float(text) if b"." in text or b"e" in text else int(text.replace(b",", b""))


Found = tuple[LineForm, bytes]


class LineShapes:
    """The shapes of one log's lines, by their text without digits.

    `silent` lines hold no metric; those `elsewhere` are understood by formats of their own, and no format
    understands those `for_grammar`. These are whole lines, while `known` are messages: the same message has
    another text behind a tag.
    """

    def __init__(self, *, are_labels_ranks: bool = False) -> None:
        self.are_labels_ranks = are_labels_ranks
        self.silent: set[bytes] = {b""}
        self._skipped: set[bytes] = set()
        self._mute: set[bytes] = set()  # what the grammar does not read, though formats may
        self.elsewhere: dict[bytes, Any] = {}  # the formats that understand a shape
        self.for_grammar: set[bytes] = set()
        self.known: dict[bytes, list[LineShape]] = {}
        self.openings: dict[bytes, bool] = {}  # whether a line may open a table
        self.plans: dict[bytes, Any] = {}  # how to read the lines of a form
        self.silent_forms: set[bytes] = {b""}
        self._leads: set[bytes] = set()

    def unseen(self, data: bytes) -> set[bytes]:
        """The shapes in a block that were neither silenced nor skipped, as the text without digits."""
        return set(data.translate(None, DIGITS).split(b"\n")) - self.silent - self._skipped

    def skip(self, key: bytes) -> None:
        """Leave lines of a shape out of `unseen` from now on."""
        _add(self._skipped, key)

    def find(self, line: bytes) -> list[Found]:
        """The shapes of a line without its end, and their matches; several if ranks' lines were joined."""
        key = line.translate(None, DIGITS)
        if key in self._mute:
            return []
        form = self._known_form(key, line)
        return [(form, line)] if form else self._learn(key, line)

    def form_of(self, line: bytes) -> LineForm | None:
        """The form of a line whose shape is known."""
        return self._known_form(line.translate(None, DIGITS), line)

    def _known_form(self, key: bytes, line: bytes) -> LineForm | None:
        for shape in self.known.get(key, ()):
            match = shape.expression.fullmatch(line)
            if match:
                return LineForm.of(shape, match)
        return None

    def silence(self, key: bytes) -> None:
        """Remember that no reader finds anything in lines of a shape."""
        _add(self.silent, key)

    def leave_to_grammar(self, key: bytes) -> None:
        """Remember that no format understands lines of a shape."""
        _add(self.for_grammar, key)

    def silence_form(self, form: bytes) -> None:
        """Leave lines of a form out."""
        _add(self.silent_forms, form)

    def remember_plan(self, form: bytes, plan: object) -> None:
        """Remember how lines of a form are read."""
        if len(self.plans) >= _MAX_SILENT:
            self.plans.clear()
        self.plans[form] = plan

    def may_open_table(self, key: bytes, line: bytes) -> bool:
        """Whether a line, whose text without digits is `key`, may be the edge or the header of a table."""
        may_open = self.openings.get(key)
        if may_open is None:
            if len(self.openings) >= _MAX_SILENT:
                self.openings.clear()
            is_known = _NO_TABLE in line or not may_be_of_table(line)
            may_open = not is_known and may_open_table(line[row_begin(line) :])
            self.openings[key] = may_open
        return may_open

    def _learn(self, key: bytes, line: bytes) -> list[Found]:
        if joined := self._split(line):
            return joined
        plain = plain_line(line)
        reading = read_line(plain, are_labels_ranks=self.are_labels_ranks) if may_matter(plain) else None
        is_open = is_undecided(plain) and (reading is None or reading.kind is Kind.HEADING)
        if reading is None or is_open:
            if key not in self.known and not is_open:
                _add(self._mute, key)
            return []
        shape = shape_of(line, reading, plain)
        match = shape.expression.fullmatch(line)
        assert match is not None
        self._remember(key, shape)
        return [(LineForm.of(shape, match), line)]

    def _remember(self, key: bytes, shape: LineShape) -> None:
        if len(self.known) >= _MAX_SHAPES:
            self.known.clear()
            self._leads.clear()
        shapes = self.known.setdefault(key, [])
        if len(shapes) < _MAX_TRIES:
            shapes.append(shape)
        if len(shape.lead.strip()) >= _MIN_LEAD_BYTES and shape.reading.kind is Kind.STEP:
            self._leads.add(shape.lead)

    def _split(self, line: bytes) -> list[Found]:
        """The parts of a line that several processes wrote without a newline between."""
        for lead in sorted(self._leads):
            if line.startswith(lead) and line.count(lead) > 1:
                parts = [lead + part for part in line.split(lead)[1:]]
                forms = [self._known_form(part.translate(None, DIGITS), part) for part in parts]
                if all(forms):
                    return [(form, part) for form, part in zip(forms, parts, strict=True) if form]
        return []


def _factor(unit: str) -> float:
    """What numbers with this unit, such as `k` or `k tok/s`, are multiplied by."""
    return _FACTORS.get(unit if " " not in unit else unit.partition(" ")[0], 1.0)


def _add(keys: set[bytes], key: bytes) -> None:
    if len(keys) >= _MAX_SILENT:
        keys.clear()
    keys.add(key)


def shape_of(line: bytes, reading: LineReading, plain: bytes | None = None) -> LineShape:
    """The shape of a line that the grammar has read, as it is or as a plain line."""
    plain = line if plain is None else plain
    spans = [span for span in (reading.step, reading.epoch, reading.rank) if span]
    spans += [(each.begin, each.end) for each in reading.numbers]
    name_digits = dict.fromkeys(span for each in reading.numbers for span in _name_digits(plain, each.begin))
    name_digits = {span: None for span in name_digits if _is_apart(span, spans)}
    spans += [*name_digits, (reading.prefix_end, reading.prefix_end)]
    order = sorted(range(len(spans)), key=spans.__getitem__)
    texts = [
        (line[each.begin : each.end], plain[each.begin : each.end], each.unit) for each in reading.numbers
    ]
    return LineShape(
        reading,
        re.compile(_expression(line, [spans[place] for place in order], name_digits), re.DOTALL),
        tuple(1 + order.index(place) for place in range(len(spans))),
        _RUN.split(line, maxsplit=1)[0],
        tuple(_metric(each, reading.phase) for each in reading.numbers),
        tuple(_converter(*text) for text in texts),
        tuple(_factor(each.unit) for each in reading.numbers),
        reading.step is not None,
        reading.epoch is not None,
        reading.rank is not None,
        b"time=" in line or b"timestamp=" in line or b"ts=" in line,
        has_decimal_commas=any(text != plain for text, plain, _ in texts),
    )


def _name_digits(line: bytes, number: int) -> Iterator[tuple[int, int]]:
    """Where digits stand in the name before a number: `map50: 0.7` is not `map75: 0.7`."""
    if has_fixed_digits(line[:number]):
        yield from (run.span() for run in _RUN.finditer(line, 0, number))
        return
    end = len(line[:number].rstrip(b" \t:='\"(["))
    for _ in range(_MAX_NAME_WORDS):
        word = _LAST_WORD.search(line, 0, end)
        if word is None or not word[0].lstrip(b"'\"([")[:1].isalpha():
            return
        yield from (run.span() for run in _RUN.finditer(line, *word.span()))
        if line[word.start() - 1 : word.start()] != b" ":
            return
        end = word.start() - 1


def _is_apart(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return all(span[1] <= begin or end <= span[0] for begin, end in others)


def _expression(line: bytes, spans: Sequence[tuple[int, int]], fixed: Collection[tuple[int, int]]) -> bytes:
    """An expression for lines that differ only in the value of their digits, except those that are fixed.

    Each span is a group.
    """
    parts, at = [], 0
    for begin, end in spans:
        text = line[begin:end]
        parts += [_pattern(line[at:begin]), b"(", text if (begin, end) in fixed else _pattern(text), b")"]
        at = end
    return b"".join((*parts, _pattern(line[at:])))


def _pattern(text: bytes) -> bytes:
    return rb"\d+".join(re.escape(part) for part in _RUN.split(text))


def _metric(number: NamedNumber, line_phase: str | None) -> MetricName:
    phase = number.phase or line_phase or TRAIN
    before = {VALIDATION: "val_", TEST: "test_"}.get(phase, "")
    is_marked = number.name.startswith(("valid_", "validation_", "test_", "val-")) or has_inner_phase(
        number.name
    )
    return MetricName(number.name if is_marked else before + number.name, number.unit, phase)


def _converter(text: bytes, plain: bytes, unit: str) -> Callable[[bytes], float]:
    factor = _factor(unit)
    if b"," in text:
        comma = b"." if text != plain else b""
        return lambda number: float(number.replace(b",", comma)) * factor
    return float if factor == 1 else lambda number: float(number) * factor
