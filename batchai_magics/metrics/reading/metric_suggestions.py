"""Suggests a `--metric` pattern for numbers that no format parses, and warns of what was not read."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from batchai_magics.metrics.measurement import Fact, Record
from batchai_magics.metrics.reading.user_patterns import PatternMismatch

MIN_LINES = 3  # lines of one shape with different numbers
MAX_SCAN_BYTES = 1 << 20  # of a log
_MAX_SHAPES = 64
_MAX_LINE_BYTES = 300  # bytes
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_NO_NAMES = frozenset(("a", "the", "is", "are", "was", "has", "of", "at", "to", "in", "for", "by"))
_SPECIAL = re.compile(r"([.^$*+?\[\]\\|()])")
_UNQUOTABLE = re.compile(r"['{}]")
_VALUE = r"([-+.\deE]+)"


class Suggestion(NamedTuple):
    """A line with unparsed numbers, and the option that would parse one of them."""

    line: str
    option: str

    def __str__(self) -> str:
        return (
            f'The log has numbers that were not recognised as metrics, such as "{self.line}". '
            f"This option reads them: {self.option}"
        )


@dataclass
class _LineShape:
    """Lines that differ only in their numbers: the last line's numbers, and which of them changed."""

    numbers: list[bytes]
    changed: set[int] = field(default_factory=set)
    falling: set[int] = field(default_factory=set)
    count: int = 1

    def add(self, numbers: list[bytes]) -> None:
        """Add the numbers of another line."""
        for place, (last, number) in enumerate(zip(self.numbers, numbers, strict=True)):
            if last != number:
                self.changed.add(place)
            if float(number) <= float(last):
                self.falling.add(place)
        self.numbers, self.count = numbers, self.count + 1


class MetricSuggester:
    """Scans the start of a log for lines that repeat with different numbers."""

    def __init__(self) -> None:
        self.suggestion: Suggestion | None = None
        self._shapes: dict[bytes, _LineShape] = {}
        self._bytes_left = MAX_SCAN_BYTES

    def scan(self, data: bytes) -> None:
        """Scan complete lines."""
        if self.suggestion or self._bytes_left <= 0:
            return
        self._bytes_left -= len(data)
        for line in data.splitlines():
            if len(line) <= _MAX_LINE_BYTES and (found := self._suggestion_for(_strip_prefixes(line))):
                self.suggestion = found
                return

    def _suggestion_for(self, line: bytes) -> Suggestion | None:
        numbers = _number().findall(line)
        if not numbers:
            return None
        shape = self._shapes.get(key := _number().sub(b"#", line))
        if shape is None:
            if len(self._shapes) < _MAX_SHAPES:
                self._shapes[key] = _LineShape(numbers)
            return None
        shape.add(numbers)
        return _suggestion(line.decode("utf-8", "replace"), shape) if shape.count >= MIN_LINES else None


@cache
def _number() -> re.Pattern[bytes]:
    """A number on its own; what reads logs is imported with the first line that is scanned."""
    from batchai_magics.metrics.formats.line_format import NUMBER

    return re.compile(rb"(?<![\w.:/@-])" + NUMBER + rb"(?![\w:/@-])")


def _strip_prefixes(line: bytes) -> bytes:
    """The line without launcher and logger prefixes."""
    from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes

    prefixes = read_prefixes(line)
    return line[prefixes.begin : prefixes.end]


def _suggestion(line: str, shape: _LineShape) -> Suggestion | None:
    """The option for the first fractional number that changed and is preceded by a name."""
    places = [match.span() for match in _number().finditer(line.encode())]
    for number in sorted(shape.changed):
        if b"." not in shape.numbers[number]:
            continue
        is_step = number - 1 in shape.changed - shape.falling and not _is_thousands(line, places[number - 1])
        option = _option(line, places, number, is_step=is_step)
        if option:
            return Suggestion(line.strip(), option)
    return None


def _is_thousands(line: str, place: tuple[int, int]) -> bool:
    """Whether a number is the end of one with a thousands comma."""
    return line[: place[0]].endswith(",")


def _option(line: str, places: Sequence[tuple[int, int]], number: int, *, is_step: bool) -> str:
    """The option that parses a number; empty if no name precedes it or the line cannot be quoted."""
    left = places[number - 1][1] if number else 0
    between = line[left : places[number][0]]
    names = [name for name in _NAME.finditer(between) if name[0].lower() not in _NO_NAMES]
    if not names or not line.isascii():
        return ""
    own = between[names[-1].start() :]
    is_clear = line.count(own) == 1
    before = own if is_clear else between.lstrip()
    pattern = _step_pattern(line, places, number) + _escape(between) if is_step else _escape(before)
    return f"--metric '{names[-1][0].lower().replace('-', '_')}={pattern}{_VALUE}'"


def _step_pattern(line: str, places: Sequence[tuple[int, int]], number: int) -> str:
    """The pattern that parses the preceding number as the step."""
    left = places[number - 2][1] if number > 1 else 0
    between = line[left : places[number - 1][0]]
    words = list(_NAME.finditer(between))
    own = between[words[-1].start() :] if words else between.lstrip()
    return _escape(own if line.count(own) == 1 else between.lstrip()) + r"(?P<step>\d+)"


def _escape(text: str) -> str:
    """The text as an expression; what a shell or a notebook would interpret in an option is any character."""
    return _UNQUOTABLE.sub(".", _SPECIAL.sub(r"\\\1", text))


class MetricsWarning(UserWarning):
    """A log has numbers that were not read, or a pattern matched what is not a number."""


class LogStart:
    """The first bytes of a log, kept until it is known whether it has metrics."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes_left = MAX_SCAN_BYTES

    def add(self, data: bytes) -> None:
        """Add the next bytes of the log."""
        if self._bytes_left > 0:
            self._pieces.append(data[: self._bytes_left])
            self._bytes_left -= len(data)

    @property
    def data(self) -> bytes:
        """The bytes."""
        return b"".join(self._pieces)


def notices_of(
    found: Iterable[PatternMismatch], records: Sequence[Record], start: LogStart
) -> tuple[str, ...]:
    """The notices about a log, given its records and the matches that are no numbers; one line each."""
    mismatches = tuple(map(str, found))
    if any(not isinstance(record, Fact) for record in records):
        return mismatches
    suggester = MetricSuggester()
    suggester.scan(start.data)
    return (*mismatches, str(suggester.suggestion)) if suggester.suggestion else mismatches


def warn_of(notices: Iterable[str]) -> None:
    """Show notices as warnings of the caller's caller."""
    for notice in notices:
        warnings.warn(notice, MetricsWarning, stacklevel=3)
