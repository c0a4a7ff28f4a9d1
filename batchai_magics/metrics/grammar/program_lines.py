"""Reads lines of the table of programs, whose samples become expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from batchai_magics.metrics.grammar import number_grammar
from batchai_magics.metrics.grammar.json_objects import object_reading, phase_of
from batchai_magics.metrics.grammar.metric_names import phase_of_word
from batchai_magics.metrics.grammar.parsed_line import NamedNumber, ParsedLine, Span
from batchai_magics.metrics.grammar.position_grammar import is_count
from batchai_magics.metrics.programs import PROGRAM_LINES, ProgramFact, ProgramLine

_MARK = re.compile(
    r"<(?P<name>[\w{}/.@ -]+)(?P<is_last>!?)(?:\[(?P<unit>[^]]*)\])?="
    r"(?P<number>[-+\d.,e]+)(?P<per>[ ]?[mu]?s)?>"
    r"|<(?P<text>\w+|\*):(?P<sample>[^>]*)>"
    r"|\[\[(?P<repeated>.*?)(?:\|\|(?P<separator>.*?))?\]\]"
    r"|(?P<edge>\?\{|\}\?)|(?P<blanks>[ \t]+)|(?P<other>(?<![\w@.])-?\d+(?:\.\d+)?)|(?P<literal>.)"
)
_GROUP_NAME = re.compile(r"\?P<\w+>")
_EDGES = {"?{": "(?:", "}?": ")?"}
_NUMBER = number_grammar.NUMBER.decode()
_HAS_POINT = r"(?=[-+]?(?:[\d,]*\.|\d+e|nan|inf))"
_COUNT = r"\d{1,3}(?:,\d{3})+|\d{1,18}"
_POSITIONS = {
    "step": _COUNT,
    "epoch": r"\d{1,9}(?:\.\d{1,9})?",
    "rank": r"\d{1,6}",
    "seconds": r"\d{9,12}(?:\.\d{1,9})?",
    "total": r"\d{1,18}|Unknown",
}
_DIVISORS = {"s": 1.0, "ms": 1e3, "us": 1e6}
_DIGITS = re.compile(rb"\d+")
_UNIT = re.compile(r"(?P<name>.*?)(?:\[(?P<unit>[^]]*)\])?")
_MIN_LITERAL = 8
_MAX_BYTES = 8 * 1024
_ENDS_IN_TEXT = re.compile(r".*[^\d\s>\]?}]", re.DOTALL)


class _Number(NamedTuple):
    """A marked number: its group, its metric's name, which may hold texts, and its unit."""

    group: str
    name: str
    unit: str
    is_last: bool


@dataclass
class SampleExpression:
    """The expression of a sample or of its repeated part, and what its groups are.

    `words` are expressions for marks; `texts` and `numbers` name the groups.
    """

    sample: str
    words: Mapping[str, str]
    start: int = 0

    def __post_init__(self) -> None:
        self.numbers: list[_Number] = []
        self.texts: list[tuple[str, str]] = []
        self.repeated: SampleExpression | None = None
        self._count = self.start
        self.source = "".join(self._part(mark) for mark in _MARK.finditer(self.sample))

    @cached_property
    def expression(self) -> re.Pattern[bytes]:
        """The expression, compiled."""
        return re.compile(self.source.encode())

    @property
    def without_groups(self) -> str:
        """The source of the expression, without capturing groups."""
        return _GROUP_NAME.sub("?:", self.source)

    def _part(self, mark: re.Match[str]) -> str:
        if mark["name"]:
            return self._number(mark)
        if name := mark["text"]:
            group = self._group()
            self.texts.append((name, group))
            source = r"\{.*\}" if name == "json" else r"[^\n]{0,200}?"
            return f"(?P<{group}>{self.words.get(name, source)})"
        if mark["repeated"] is not None:
            self.repeated = SampleExpression(mark["repeated"], self.words, self._count)
            part = self.repeated.without_groups
            more = SampleExpression(mark["separator"], self.words).source if mark["separator"] else ""
            return rf"(?P<repeated>(?:{part})(?:{more}(?:{part}))*)"
        if mark["edge"]:
            return _EDGES[mark["edge"]]
        if mark["blanks"]:
            return r"[ \t]*" if self.sample[mark.end() : mark.end() + 1] in "0123456789<" else r"[ \t]+"
        return _NUMBER if mark["other"] else re.escape(mark["literal"])

    def _group(self) -> str:
        self._count += 1
        return f"g{self._count}"

    def _number(self, mark: re.Match[str]) -> str:
        group, name = self._group(), mark["name"]
        self.numbers.append(_Number(group, name, mark["unit"] or "", bool(mark["is_last"])))
        any_number = (_HAS_POINT if "." in mark["number"] else "") + _NUMBER
        source = self.words.get(name) or _POSITIONS.get(name) or any_number
        if mark["per"]:
            return rf"(?P<{group}>{source})[ ]?[mu]?s"
        is_share = name not in _POSITIONS and not mark["unit"]
        return rf"(?P<{group}>{source})" + "%?" * is_share


def source_of(row: ProgramLine | ProgramFact) -> str:
    """The expression for lines like the sample of a row, without groups."""
    return SampleExpression(row.sample, row.words).without_groups


class _Texts(NamedTuple):
    """The texts of a match by their names, and the spans of their digits."""

    by_name: Mapping[str, str]
    digits: Sequence[Span]


def _texts_of(template: SampleExpression, match: re.Match[bytes]) -> _Texts:
    spans = [(name, match.span(group)) for name, group in template.texts if match[group] is not None]
    line = match.string
    digits = [
        run.span()
        for name, span in spans
        if name not in ("*", "json")
        for run in _DIGITS.finditer(line, *span)
    ]
    return _Texts({name: line[slice(*span)].decode("utf-8", "replace") for name, span in spans}, digits)


class _Reader:
    """Reads lines of one row of the table."""

    def __init__(self, row: ProgramLine) -> None:
        self._row, self._template = row, SampleExpression(row.sample, row.words)
        self._is_self_terminating = row.has_fixed_width or _ENDS_IN_TEXT.fullmatch(row.sample) is not None

    @cached_property
    def expression(self) -> re.Pattern[bytes]:
        """The expression for whole lines, from where their message begins."""
        return re.compile(rb"[ \t]*" + self._template.source.encode() + rb"[ \t]*\Z")

    @property
    def source(self) -> str:
        """The same, without groups."""
        return self._template.without_groups

    def read(self, match: re.Match[bytes]) -> ParsedLine | None:
        """The reading of a line; None if it has nothing to read."""
        row = self._row
        if row.kind is None:
            return None
        texts = _texts_of(self._template, match)
        if "json" in texts.by_name:
            return self._object(match, texts)
        spans = {
            number.name: match.span(number.group) for number in self._template.numbers if match[number.group]
        }
        phase = row.phase or phase_of_word(texts.by_name.get("phase", ""))
        total = spans.get("total")
        is_counted = total is not None and "step" in spans and is_count(match.string[slice(*total)])
        is_last = "step" not in spans or (
            total is not None and match.string[slice(*total)] == match.string[slice(*spans["step"])]
        )
        numbers, digits = (
            [*self._numbers(self._template, match, texts, phase, is_last=is_last)],
            [*texts.digits],
        )
        if self._template.repeated and match["repeated"]:
            inner = self._template.repeated
            for part in inner.expression.finditer(match.string, *match.span("repeated")):
                part_texts = _texts_of(inner, part)
                all_texts = _Texts({**texts.by_name, **part_texts.by_name}, ())
                numbers += self._numbers(inner, part, all_texts, phase, is_last=is_last)
                digits += part_texts.digits
        return ParsedLine(
            row.kind,
            spans.get("step"),
            spans.get("epoch"),
            spans.get("rank"),
            tuple(numbers),
            phase,
            0,
            is_plain=True,
            seconds=spans.get("seconds"),
            total=total if is_counted else None,
            names=tuple(digits),
            has_last=is_counted and any(number.is_last for number in self._template.numbers),
            is_self_terminating=self._is_self_terminating,
            has_fixed_width=row.has_fixed_width,
        )

    def _object(self, match: re.Match[bytes], texts: _Texts) -> ParsedLine | None:
        """The reading of a line with an object, at the line's time if the object has none."""
        span = match.span(next(group for name, group in self._template.texts if name == "json"))
        reading = object_reading(match.string, *span, name=texts.by_name.get("name"), is_tagged=True)
        if reading is None:
            return None
        seconds = (match.span(number.group) for number in self._template.numbers if number.name == "seconds")
        return reading._replace(
            kind=self._row.kind or reading.kind, seconds=reading.seconds or next(seconds, None)
        )

    def _numbers(
        self,
        template: SampleExpression,
        match: re.Match[bytes],
        texts: _Texts,
        phase: str | None,
        *,
        is_last: bool,
    ) -> Iterator[NamedNumber]:
        for number in template.numbers:
            is_left_out = number.name in _POSITIONS or (number.is_last and not is_last)
            if is_left_out or match[number.group] is None:
                continue
            name, unit = self._named(number.name.format_map(texts.by_name), number.unit)
            begin, end = match.span(number.group)
            behind = _PRINTED_UNIT.match(match.string, end)
            unit = unit or ("%" if match.string[end : end + 1] == b"%" else "")
            divisor = _DIVISORS[behind["unit"].decode()] if behind and unit == "s" else 1.0
            if name:
                full = NamedNumber(name, unit, phase_of(name), begin, end, is_full=True, divisor=divisor)
                yield full._replace(name=name.lower(), phase=None, is_full=False) if phase else full

    def _named(self, name: str, unit: str) -> tuple[str, str]:
        """The metric and the unit of a name in the sample, as the row renames them."""
        for known, metric in self._row.names.items():
            if match := re.fullmatch(known, name):
                renamed = _UNIT.fullmatch(match.expand(metric))
                return (renamed["name"], renamed["unit"] or "") if renamed else (name, unit)
        return name, unit


_PRINTED_UNIT = re.compile(rb"[ ]?(?P<unit>[mu]?s)\b")


@cache
def _readers() -> tuple[tuple[_Reader, ...], re.Pattern[bytes]]:
    """The readers of all rows, and an expression for all their lines: one search where none matches."""
    readers = tuple(map(_Reader, PROGRAM_LINES))
    sources = "|".join(reader.source for reader in readers)
    return readers, re.compile(rb"[ \t]*(?:" + sources.encode() + rb")[ \t]*\Z")


def read_program_line(text: bytes, begins: Sequence[int]) -> tuple[int, ParsedLine | None] | None:
    """Where the message of a line of the table begins, and its reading; None for any other line.

    Each of `begins` is tried, as a program may print what looks like a prefix.
    """
    if len(text) > _MAX_BYTES:
        return None
    readers, any_line = _readers()
    for begin in dict.fromkeys(begins):
        if begin < 0 or not any_line.match(text, begin):
            continue
        for reader in readers:
            if match := reader.expression.match(text, begin):
                return begin, reader.read(match)
    return None


@cache
def program_literals() -> tuple[bytes, ...]:
    """Texts of which every line of the table without words of training has one."""
    plain = (_MARK_OR_NUMBER.split(row.sample) for row in PROGRAM_LINES)
    longest = (max(parts, key=len) for parts in plain)
    return tuple(dict.fromkeys(text.encode() for text in longest if len(text) >= _MIN_LITERAL))


_MARK_OR_NUMBER = re.compile(r"<[^>]*>|\[\[.*?\]\]|\?\{.*?\}\?|\d[\d.]*|[ \t]{2,}")
