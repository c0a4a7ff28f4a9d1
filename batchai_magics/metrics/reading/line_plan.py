"""Plans: how to read all lines of a skeleton with one expression, learned from the first line.

The *skeleton* of a line is the line without its digits. A layout does not depend on which line of a skeleton
came first: where the number of digits decides how a line is read, the expression fixes that number, and
digits of names are groups, so that `acc1` and `acc5` are two metrics of one layout.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import eq
from typing import Any

from batchai_magics.metrics.grammar.metric_names import TRAIN, has_inner_phase, in_phase
from batchai_magics.metrics.grammar.parsed_line import LineKind, NamedNumber, ParsedLine, Span
from batchai_magics.metrics.grammar.plain_lines import has_decimal_commas, is_undecided
from batchai_magics.metrics.grammar.position_grammar import count
from batchai_magics.metrics.grammar.row_patterns import POSSESSIVE, RowPattern
from batchai_magics.metrics.measurement import MetricName
from batchai_magics.metrics.timestamps import TimestampSlices

_RUN = re.compile(rb"\d+")
_DIGITS = b"[0-9]{1,300}"
_NOT_ZERO = b"(?!0+[^0-9])"  # step 0: the rest of one whose first digits joined another process's line
_LAST_WORD = re.compile(rb"[^\s,;|:={}]*\Z")
_IS_NAME = re.compile(rb"['\"(\[]*(?:[A-Za-z]|\d+_\w*[A-Za-z])")  # `0_acc`
_MAX_NAME_WORDS = 7
_FACTORS = {"k": 1e3, "K": 1e3}  # of units such as `k` or `k tok/s`; `M` alone is a memory
_COMMA = re.compile(rb"\d,\d")
_POINT = re.compile(rb"\d\.\d")  # on such a line, commas are not decimal

Groups = Sequence[bytes]
"""The texts of an expression's groups."""

Converter = Callable[[Groups], list[Any]]
"""Converts the texts of a group on some lines to numbers."""

PlanKey = tuple[object, ...]
"""Distinguishes lines of a layout that are read differently."""


def fraction(text: bytes) -> float:
    """Parse an epoch; an int if it is printed without decimals."""
    return float(text) if b"." in text or b"e" in text else int(text.replace(b",", b""))


def each(convert: Callable[[bytes], Any]) -> Converter:
    """A converter that converts each text by itself."""
    return lambda texts: [*map(convert, texts)]


_INTEGERS, _FLOATS = each(int), each(float)
_COUNTS, _FRACTIONS = each(count), each(fraction)


@dataclass(frozen=True, slots=True)
class LineClock:
    """Where a line has its time: at a fixed position in its prefixes, or in a pair anywhere.

    `glog_at`: where a time in glog's form begins, -1 without one; few include a year. `is_named`: the line
    has a pair such as `ts=17724471`.
    """

    stamp: TimestampSlices | None = None
    glog_at: int = -1
    is_named: bool = False
    has_glog_year: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LinePlan:
    """What the groups of a layout mean on lines whose names have the same digits.

    `is_simple`: a line depends only on the epoch above it. `is_of_bar`: it is a printed dict without a step,
    which takes the count of a bar. `is_beside_bar`: it is such a dict or a bar.
    `length_of`: the first training metric if a line also has a step and its total; else empty.
    """

    layout: Layout
    reading: ParsedLine
    metrics: tuple[MetricName, ...]
    converters: tuple[Converter, ...]
    is_simple: bool
    is_of_bar: bool
    is_beside_bar: bool
    length_of: str

    @property
    def meaning(self) -> Hashable:
        """What the lines mean to those around them; equal for plans whose lines differ only in other text."""
        no_spans = self.reading._replace(
            step=None, epoch=None, rank=None, seconds=None, total=None, numbers=(), names=(), prefix_end=0
        )
        layout, clock = self.layout, self.layout.clock
        has = layout.step >= 0, layout.epoch >= 0, layout.total >= 0, clock.glog_at >= 0, clock.has_glog_year
        return self.metrics, no_spans, has

    @classmethod
    def of(cls, layout: Layout, reading: ParsedLine, line: bytes, plain: bytes | None = None) -> LinePlan:
        """The plan for lines like this one, read from its normalized form `plain` (default: itself)."""
        plain = line if plain is None else plain
        metrics = tuple(_metric(number, reading.phase) for number in reading.numbers)
        converters = (
            _converter(line[number.begin : number.end], plain[number.begin : number.end], number)
            for number in reading.numbers
        )
        is_step = reading.kind is LineKind.STEP
        is_dict = reading.is_dict and reading.step is None
        is_placed = layout.step >= 0 and not reading.is_bar
        return cls(
            layout,
            reading,
            metrics,
            tuple(converters),
            is_simple=is_placed if is_step else reading.kind is LineKind.OBJECT,
            is_of_bar=is_dict and is_step,
            is_beside_bar=is_dict or reading.is_bar or reading.kind is LineKind.BAR,
            length_of=name_of_training(metrics) if layout.total >= 0 else "",
        )


def name_of_training(metrics: Iterable[MetricName]) -> str:
    """The name of the first metric of training; empty without one."""
    return next((metric.name for metric in metrics if metric.phase == TRAIN), "")


@dataclass(slots=True, eq=False)
class Layout:
    """An expression for the lines of a skeleton, and which of its groups are positions and numbers.

    A group is given by its index in `match.groups()`, -1 without one. `has_commas`: how a line is read
    depends on what its commas separate; `has_last`: on whether the step equals the total.
    """

    expression: re.Pattern[bytes]
    numbers: tuple[int, ...]
    names: tuple[int, ...] = ()
    step: int = -1
    epoch: int = -1
    rank: int = -1
    seconds: int = -1
    total: int = -1
    has_last: bool = False
    has_commas: bool = False
    clock: LineClock = LineClock()
    count_step: Converter = _COUNTS
    count_epoch: Converter = _FRACTIONS
    plans: dict[PlanKey, LinePlan] = field(default_factory=dict)

    @property
    def stride(self) -> int:
        """The texts per line when the expression splits lines: what is before a line, and its groups."""
        return self.expression.groups + 1

    def has_groups_of(self, other: Layout) -> bool:
        """Whether another layout has the same expression with the same meaning of its groups."""
        return self._groups == other._groups

    @property
    def _groups(self) -> tuple[object, ...]:
        positions = (self.step, self.epoch, self.rank, self.seconds, self.total, self.has_last)
        return self.expression, self.numbers, self.names, *positions

    def column(self, texts: Groups, group: int) -> Groups:
        """The text of a group on each line."""
        return texts[group + 1 :: self.stride]

    def keys_of(self, texts: Groups, lines: Iterable[bytes]) -> list[PlanKey]:
        """The key of each line: the digits of its names, what its commas separate, whether it is the last."""
        parts: list[Iterable[object]] = []
        if self.has_commas:
            parts += zip(*map(_commas_of, lines), strict=True)
        if self.has_last:
            parts.append(map(eq, self.column(texts, self.step), self.column(texts, self.total)))
        parts += [self.column(texts, group) for group in self.names]
        return [*zip(*parts, strict=True)] if parts else [()] * (len(texts) // self.stride)

    def plan_at(self, key: PlanKey) -> LinePlan | None:
        """The plan of lines with this key; None if it is unknown.

        If a line does not show what its commas separate, a known plan with decimal commas applies.
        """
        decimal = self.plans.get((True, False, *key[2:])) if self.has_commas and key[1] else None
        return decimal or self.plans.get(key)

    @property
    def is_timeless(self) -> bool:
        """Whether its lines have no time."""
        clock = self.clock
        return self.seconds < 0 and clock.stamp is None and clock.glog_at < 0 and not clock.is_named


@lru_cache(256)
def plan_of_rows(pattern: RowPattern) -> LinePlan:
    """The plan for rows of a table that match this pattern."""
    layout = Layout(
        pattern.expression,
        pattern.numbers,
        step=pattern.step,
        epoch=pattern.epoch,
        count_step=each(pattern.count),
        count_epoch=each(pattern.count),
    )
    return LinePlan(
        layout,
        ParsedLine(LineKind.STEP),
        tuple(MetricName(name, "", phase) for name, phase in pattern.metrics),
        (_FLOATS,) * len(pattern.numbers),
        is_simple=True,
        is_of_bar=False,
        is_beside_bar=False,
        length_of="",
    )


def _commas_of(line: bytes) -> tuple[bool, bool]:
    """Whether the commas of a line are decimal, and whether that is undecided."""
    is_decimal = has_decimal_commas(line)
    return is_decimal, not is_decimal and is_undecided(line)


def layout_of(
    line: bytes, reading: ParsedLine, *, plain: bytes | None = None, clock: LineClock | None = None
) -> Layout:
    """The layout of a line, read from its normalized form `plain` (default: the line itself)."""
    plain = line if plain is None else plain
    counts = {
        "step": reading.step,
        "epoch": reading.epoch,
        "rank": reading.rank,
        "seconds": reading.seconds,
        "total": reading.total,
    }
    numbers = [(number.begin, number.end) for number in reading.numbers]
    value_spans = sorted((*filter(None, counts.values()), *numbers))
    digits = dict.fromkeys((*reading.names, *name_digits(plain, reading)))
    compared = {*reading.names}.intersection(value_spans)
    names = [span for span in digits if span in compared or _overlaps_none(span, value_spans)]
    spans = sorted({*value_spans, *names})
    groups = {name: spans.index(span) for name, span in counts.items() if span}
    step, epoch = (line[slice(*span)] if span else b"" for span in (reading.step, reading.epoch))
    return Layout(
        compiled(_expression(line, spans, reading)),
        tuple(map(spans.index, numbers)),
        tuple(map(spans.index, names)),
        step=groups.get("step", -1),
        epoch=groups.get("epoch", -1),
        rank=groups.get("rank", -1),
        seconds=groups.get("seconds", -1),
        total=groups.get("total", -1),
        has_last=reading.has_last,
        has_commas=_COMMA.search(line) is not None and not _POINT.search(line),
        clock=clock or LineClock(),
        count_step=_INTEGERS if step.isdigit() else _COUNTS,
        count_epoch=_INTEGERS if epoch.isdigit() else _FLOATS if b"." in epoch else _FRACTIONS,
    )


@lru_cache(4096)
def compiled(expression: bytes) -> re.Pattern[bytes]:
    """Compile an expression; cached, as logs of one program share expressions, which take long to compile."""
    return re.compile(expression)


def name_digits(line: bytes, reading: ParsedLine) -> Iterator[Span]:
    """The spans of digits in the names and units of a line's numbers: `map50: 0.7` is not `map75: 0.7`."""
    for number in reading.numbers:
        end = len(line[: number.begin].rstrip(b" \t:='\"(["))
        for _ in range(_MAX_NAME_WORDS):
            word = _LAST_WORD.search(line, max(0, end - 200), end)
            if word is None or not _IS_NAME.match(word[0]):
                break
            yield from (run.span() for run in _RUN.finditer(line, *word.span()))
            if line[word.start() - 1 : word.start()] != b" ":
                break
            end = word.start() - 1
        unit = number.unit.encode()  # in front of the number: `LR (group 10)=1e-4`
        begin = line.rfind(unit, 0, number.begin) if _RUN.search(unit) else -1
        if begin >= 0:
            yield from (run.span() for run in _RUN.finditer(line, begin, begin + len(unit)))


def _overlaps_none(span: Span, others: Sequence[Span]) -> bool:
    """Whether a span overlaps none of the others, which are sorted."""
    index = bisect_left(others, span)
    return all(span[1] <= begin or end <= span[0] for begin, end in others[max(0, index - 1) : index + 1])


def _expression(line: bytes, spans: Sequence[Span], reading: ParsedLine) -> bytes:
    """An expression for lines that differ only in their digits; each span is a group.

    Other text matches by its number of bytes alone, since lines of one skeleton have the same text; so
    skeletons that differ in their words share an expression. In prefixes, runs of digits have a fixed length,
    which tells what they are.
    """
    parts, at = [b"(?ms)^"], 0
    for begin, end in spans:
        parts += [_text(line, at, begin, reading), b"(", _group(line, (begin, end), reading), b")"]
        at = end
    return b"".join((*parts, _text(line, at, len(line), reading), b"$"))


def _group(line: bytes, span: Span, reading: ParsedLine) -> bytes:
    """An expression for a number. On a line of a fixed width, times and shares do too, and no step is 0."""
    begin, end = span
    if not reading.has_fixed_width:
        return _text(line, begin, end, reading)
    if span == reading.step:
        return _NOT_ZERO + _text(line, begin, end, reading)
    if span == reading.seconds:
        return line[begin : begin + 1] + _pattern(line, begin + 1, end, _same_digits)
    is_share = any(
        number.unit == "fraction" and (number.begin, number.end) == span for number in reading.numbers
    )
    return _pattern(line, begin, end, _same_digits) if is_share else _text(line, begin, end, reading)


def _text(line: bytes, begin: int, end: int, reading: ParsedLine) -> bytes:
    middle = min(max(begin, reading.prefix_end), end)
    message = _pattern(line, middle, end, _fixed_digits if reading.has_fixed_width else _any_digits)
    return _pattern(line, begin, middle, _same_digits) + message


def _pattern(line: bytes, begin: int, end: int, digits: Callable[[re.Match[bytes]], bytes]) -> bytes:
    parts, at = [], begin
    for run in _RUN.finditer(line, begin, end):
        parts += [_bytes(run.start() - at), digits(run)]
        at = run.end()
    return b"".join((*parts, _bytes(end - at)))


def _same_digits(run: re.Match[bytes]) -> bytes:
    """An expression for the same number of digits."""
    return b"[0-9]{%d}" % len(run[0])


def _fixed_digits(run: re.Match[bytes]) -> bytes:
    """An expression for the same number of decimals, or for any digits before them."""
    is_decimal = run.string[run.start() - 1 : run.start()] == b"."
    return _same_digits(run) if is_decimal else _any_digits(run)


def _any_digits(run: re.Match[bytes]) -> bytes:
    """An expression for any digits."""
    is_whole = not run.string[run.end() : run.end() + 1].isdigit()
    return _DIGITS + POSSESSIVE * is_whole


def _bytes(size: int) -> bytes:
    """An expression for any text of this size."""
    return b".{%d}" % size if size > 1 else b"." * size


def _metric(number: NamedNumber, line_phase: str | None) -> MetricName:
    phase = number.phase or line_phase or TRAIN
    if number.is_full:
        return MetricName(number.name, number.unit, phase)
    is_marked = number.name.startswith(("valid_", "validation_", "test_", "val-")) or has_inner_phase(
        number.name
    )
    return MetricName(number.name if is_marked else in_phase(number.name, phase), number.unit, phase)


def _converter(text: bytes, plain: bytes, number: NamedNumber) -> Converter:
    if number.divisor != 1:
        return lambda texts: [value / number.divisor for value in map(float, texts)]
    factor = 1.0 if number.is_full else _FACTORS.get(number.unit.partition(" ")[0], 1.0)
    if b"D" in text:  # an exponent of Fortran's
        return lambda texts: [float(digits.replace(b"D", b"e")) * factor for digits in texts]
    if b"," in text:
        comma = b"." if text != plain else b""
        return lambda texts: [float(digits.replace(b",", comma)) * factor for digits in texts]
    return _FLOATS if factor == 1 else lambda texts: [value * factor for value in map(float, texts)]
