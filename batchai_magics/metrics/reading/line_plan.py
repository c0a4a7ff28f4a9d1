"""Plans: the numbers on all lines of a skeleton, found by one expression, learned from the first of them.

The *skeleton* of a line is the line without its digits. A plan does not depend on which line of a skeleton
came first: its expression tells apart what the number of digits decides, and the digits that belong to names
are groups of it, so that `acc1` and `acc5` are two metrics of one layout.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import eq

from batchai_magics.metrics.grammar.metric_names import TRAIN, has_inner_phase, in_phase
from batchai_magics.metrics.grammar.parsed_line import LineKind, NamedNumber, ParsedLine, Span
from batchai_magics.metrics.grammar.plain_lines import has_decimal_commas, is_undecided
from batchai_magics.metrics.grammar.position_grammar import count
from batchai_magics.metrics.grammar.row_patterns import RowPattern
from batchai_magics.metrics.measurement import MetricName
from batchai_magics.metrics.reading.timestamps import TimestampSlices

_RUN = re.compile(rb"\d+")
_DIGITS = b"[0-9]{1,300}"
_NOT_ZERO = b"(?!0+[^0-9])"  # what is left of a step whose first digits another process's line took
_POSSESSIVE = b"+" if sys.version_info >= (3, 11) else b""  # makes a search faster
_LAST_WORD = re.compile(rb"[^\s,;|:={}]*\Z")
_IS_NAME = re.compile(rb"['\"(\[]*(?:[A-Za-z]|\d+_\w*[A-Za-z])")  # `0_acc`
_MAX_NAME_WORDS = 7
_FACTORS = {"k": 1e3, "K": 1e3}  # of units such as `k` or `k tok/s`; `M` alone is a memory
_COMMA = re.compile(rb"\d,\d")
_POINT = re.compile(rb"\d\.\d")  # the commas of such a line are not decimal

Groups = Sequence[bytes]
"""The texts of an expression's groups."""

PlanKey = tuple[object, ...]
"""What tells apart lines of a layout that are read differently."""


def fraction(text: bytes) -> float:
    """An epoch as printed; a whole one is an integer."""
    return float(text) if b"." in text or b"e" in text else int(text.replace(b",", b""))


@dataclass(frozen=True, slots=True)
class LineClock:
    """Where the time of a line stands: in its prefixes, whose digits have fixed places, or anywhere.

    `glog_at` is where a time in glog's form begins, -1 without one; few have a year. `is_named`: a pair such
    as `ts=17724471`.
    """

    stamp: TimestampSlices | None = None
    glog_at: int = -1
    is_named: bool = False
    has_glog_year: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LinePlan:
    """What the groups of a layout mean on lines whose names have these digits.

    `is_simple`: a line depends on nothing but the epoch above it. `is_of_bar`: it is a printed dict whose
    step only a bar tells. `is_beside_bar`: it is one of these or a bar.
    `length_of`: the metric of training beside the step and its total; empty if a line has not all three.
    """

    layout: Layout
    reading: ParsedLine
    metrics: tuple[MetricName, ...]
    converters: tuple[Callable[[bytes], float], ...]
    is_simple: bool
    is_of_bar: bool
    is_beside_bar: bool
    length_of: str

    @classmethod
    def of(cls, layout: Layout, reading: ParsedLine, line: bytes, plain: bytes | None = None) -> LinePlan:
        """The plan for lines like one with this reading, which was made of `plain` if that is given."""
        plain = line if plain is None else plain
        metrics = tuple(_metric(each, reading.phase) for each in reading.numbers)
        converters = (
            _converter(line[each.begin : each.end], plain[each.begin : each.end], each)
            for each in reading.numbers
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
    """The first of these metrics that is of training; empty if there is none."""
    return next((metric.name for metric in metrics if metric.phase == TRAIN), "")


@dataclass(slots=True, eq=False)
class Layout:
    """An expression for the lines of a skeleton, and which of its groups are positions and numbers.

    A group is given by its place in `groups()`, -1 without one. `has_commas`: how a line is read depends on
    what its commas separate, and with `has_last` on whether the step is the total.
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
    count_step: Callable[[bytes], int] = count
    count_epoch: Callable[[bytes], float] = fraction
    plans: dict[PlanKey, LinePlan] = field(default_factory=dict)

    @property
    def stride(self) -> int:
        """How many texts there are of a line in those of several: what is before the line, and its groups."""
        return self.expression.groups + 1

    def has_groups_of(self, other: Layout) -> bool:
        """Whether another layout has the same expression, whose groups mean the same."""
        return self._groups == other._groups

    @property
    def _groups(self) -> tuple[object, ...]:
        positions = (self.step, self.epoch, self.rank, self.seconds, self.total, self.has_last)
        return self.expression, self.numbers, self.names, *positions

    def column(self, texts: Groups, place: int) -> Groups:
        """A group of each line."""
        return texts[place + 1 :: self.stride]

    def keys_of(self, texts: Groups, lines: Iterable[bytes]) -> list[PlanKey]:
        """What tells apart the lines of this layout that are read differently: the digits of their names."""
        parts: list[Iterable[object]] = []
        if self.has_commas:
            parts += zip(*map(_commas_of, lines), strict=True)
        if self.has_last:
            parts.append(map(eq, self.column(texts, self.step), self.column(texts, self.total)))
        parts += [self.column(texts, place) for place in self.names]
        return [*zip(*parts, strict=True)] if parts else [()] * (len(texts) // self.stride)

    def plan_at(self, key: PlanKey) -> LinePlan | None:
        """The plan of lines with this key, None if that is not known.

        Where a line does not tell what its commas are, they are those of its like that told it.
        """
        told = self.plans.get((True, False, *key[2:])) if self.has_commas and key[1] else None
        return told or self.plans.get(key)

    @property
    def is_timeless(self) -> bool:
        """Whether no time stands on a line."""
        clock = self.clock
        return self.seconds < 0 and clock.stamp is None and clock.glog_at < 0 and not clock.is_named


@lru_cache(256)
def plan_of_rows(pattern: RowPattern) -> LinePlan:
    """The plan for rows of a table that are found by this pattern."""
    layout = Layout(
        pattern.expression,
        pattern.numbers,
        step=pattern.step,
        epoch=pattern.epoch,
        count_step=pattern.count,
        count_epoch=pattern.count,
    )
    return LinePlan(
        layout,
        ParsedLine(LineKind.STEP),
        tuple(MetricName(name, "", phase) for name, phase in pattern.metrics),
        (float,) * len(pattern.numbers),
        is_simple=True,
        is_of_bar=False,
        is_beside_bar=False,
        length_of="",
    )


def _commas_of(line: bytes) -> tuple[bool, bool]:
    """Whether the commas of a line are decimal ones, and whether that is undecided."""
    is_decimal = has_decimal_commas(line)
    return is_decimal, not is_decimal and is_undecided(line)


def layout_of(
    line: bytes, reading: ParsedLine, *, plain: bytes | None = None, clock: LineClock | None = None
) -> Layout:
    """The layout of a line with this reading, which was made of `plain` if that is not the line itself."""
    plain = line if plain is None else plain
    counts = {
        "step": reading.step,
        "epoch": reading.epoch,
        "rank": reading.rank,
        "seconds": reading.seconds,
        "total": reading.total,
    }
    numbers = [(each.begin, each.end) for each in reading.numbers]
    taken = sorted((*filter(None, counts.values()), *numbers))
    digits = dict.fromkeys((*reading.names, *name_digits(plain, reading)))
    names = [span for span in digits if _is_apart(span, taken)]
    order = sorted({*taken, *names})
    places = {name: order.index(span) for name, span in counts.items() if span}
    return Layout(
        compiled(_expression(line, order, reading)),
        tuple(map(order.index, numbers)),
        tuple(map(order.index, names)),
        step=places.get("step", -1),
        epoch=places.get("epoch", -1),
        rank=places.get("rank", -1),
        seconds=places.get("seconds", -1),
        total=places.get("total", -1),
        has_last=reading.has_last,
        has_commas=_COMMA.search(line) is not None and not _POINT.search(line),
        clock=clock or LineClock(),
        count_epoch=float if reading.epoch and b"." in line[slice(*reading.epoch)] else fraction,
    )


@lru_cache(4096)
def compiled(expression: bytes) -> re.Pattern[bytes]:
    """Logs of one program have the same expressions, which take long to compile."""
    return re.compile(expression)


def name_digits(line: bytes, reading: ParsedLine) -> Iterator[Span]:
    """Where digits stand in the names and units of a line's numbers: `map50: 0.7` is not `map75: 0.7`."""
    for each in reading.numbers:
        end = len(line[: each.begin].rstrip(b" \t:='\"(["))
        for _ in range(_MAX_NAME_WORDS):
            word = _LAST_WORD.search(line, max(0, end - 200), end)
            if word is None or not _IS_NAME.match(word[0]):
                break
            yield from (run.span() for run in _RUN.finditer(line, *word.span()))
            if line[word.start() - 1 : word.start()] != b" ":
                break
            end = word.start() - 1
        unit = each.unit.encode()  # in front of the number: `LR (group 10)=1e-4`
        begin = line.rfind(unit, 0, each.begin) if _RUN.search(unit) else -1
        if begin >= 0:
            yield from (run.span() for run in _RUN.finditer(line, begin, begin + len(unit)))


def _is_apart(span: Span, taken: Sequence[Span]) -> bool:
    """Whether a span overlaps none of some others, which are in order."""
    place = bisect_left(taken, span)
    return all(span[1] <= begin or end <= span[0] for begin, end in taken[max(0, place - 1) : place + 1])


def _expression(line: bytes, spans: Sequence[Span], reading: ParsedLine) -> bytes:
    """An expression for lines that differ only in their digits; each span is a group.

    Of what is no digit, the number of bytes suffices: lines of one skeleton have as many, in the same order.
    So lines that differ in their words share an expression. In prefixes, the number of digits tells what
    they are.
    """
    parts, at = [b"(?ms)^"], 0
    for begin, end in spans:
        parts += [_text(line, at, begin, reading), b"(", _group(line, (begin, end), reading), b")"]
        at = end
    return b"".join((*parts, _text(line, at, len(line), reading), b"$"))


def _group(line: bytes, span: Span, reading: ParsedLine) -> bytes:
    """An expression for a number; on a line of a fixed width, no other is a time or a share, no step is 0."""
    begin, end = span
    if not reading.has_fixed_width:
        return _text(line, begin, end, reading)
    if span == reading.step:
        return _NOT_ZERO + _text(line, begin, end, reading)
    if span == reading.seconds:
        return line[begin : begin + 1] + _pattern(line, begin + 1, end, _same_digits)
    is_share = any(each.unit == "fraction" and (each.begin, each.end) == span for each in reading.numbers)
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
    """An expression for as many digits."""
    return b"[0-9]{%d}" % len(run[0])


def _fixed_digits(run: re.Match[bytes]) -> bytes:
    """An expression for as many decimals, or for any digits in front of them."""
    is_decimal = run.string[run.start() - 1 : run.start()] == b"."
    return _same_digits(run) if is_decimal else _any_digits(run)


def _any_digits(run: re.Match[bytes]) -> bytes:
    """An expression for any digits."""
    is_whole = not run.string[run.end() : run.end() + 1].isdigit()
    return _DIGITS + _POSSESSIVE * is_whole


def _bytes(size: int) -> bytes:
    """An expression for so many bytes."""
    return b".{%d}" % size if size > 1 else b"." * size


def _metric(number: NamedNumber, line_phase: str | None) -> MetricName:
    phase = number.phase or line_phase or TRAIN
    if number.is_full:
        return MetricName(number.name, number.unit, phase)
    is_marked = number.name.startswith(("valid_", "validation_", "test_", "val-")) or has_inner_phase(
        number.name
    )
    return MetricName(number.name if is_marked else in_phase(number.name, phase), number.unit, phase)


def _converter(text: bytes, plain: bytes, number: NamedNumber) -> Callable[[bytes], float]:
    if number.divisor != 1:
        return lambda digits: float(digits) / number.divisor
    factor = 1.0 if number.is_full else _FACTORS.get(number.unit.partition(" ")[0], 1.0)
    if b"D" in text:  # an exponent of Fortran's
        return lambda digits: float(digits.replace(b"D", b"e")) * factor
    if b"," in text:
        comma = b"." if text != plain else b""
        return lambda digits: float(digits.replace(b",", comma)) * factor
    return float if factor == 1 else lambda digits: float(digits) * factor
