"""Suggests a `--metric` pattern for numbers that no format parses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from batchai_magics.metrics.formats.line_format import NUMBER
from batchai_magics.metrics.reading.prefix_patterns import PREFIX, SIMPLE_TAG

MIN_LINES = 3  # lines of one shape with different numbers
MAX_SCAN_BYTES = 1 << 20  # of a log
_MAX_SHAPES = 64
_MAX_LINE_BYTES = 300  # bytes
_STAMP = re.compile(rb"(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_NUMBER = re.compile(rb"(?<![\w.:/@-])" + NUMBER + rb"(?![\w:/@-])")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_NO_NAMES = frozenset(("a", "the", "is", "are", "was", "has", "of", "at", "to", "in", "for", "by"))
_SPECIAL = re.compile(r"([.^$*+?\[\]\\|()])")
_VALUE = r"([-+.\deE]+)"


class Suggestion(NamedTuple):
    """A line with unparsed numbers, and the option that would parse one of them."""

    line: str
    option: str


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
        numbers = _NUMBER.findall(line)
        if not numbers:
            return None
        shape = self._shapes.get(key := _NUMBER.sub(b"#", line))
        if shape is None:
            if len(self._shapes) < _MAX_SHAPES:
                self._shapes[key] = _LineShape(numbers)
            return None
        shape.add(numbers)
        return _suggestion(line.decode("utf-8", "replace"), shape) if shape.count >= MIN_LINES else None


def _strip_prefixes(line: bytes) -> bytes:
    """The line without launcher and logger prefixes."""
    tag = SIMPLE_TAG.match(line)
    line = line[tag.end() :] if tag else line
    prefix = PREFIX.match(line)
    line = line[prefix.end() :] if prefix else line
    timestamp = _STAMP.search(line)
    return line[timestamp.end() :].lstrip() if timestamp else line


def _suggestion(line: str, shape: _LineShape) -> Suggestion | None:
    """The option for the first fractional number that changed and is preceded by a name."""
    places = [match.span() for match in _NUMBER.finditer(line.encode())]
    for number in sorted(shape.changed):
        if b"." not in shape.numbers[number]:
            continue
        option = _option(line, places, number, is_step=number - 1 in shape.changed - shape.falling)
        if option:
            return Suggestion(line.strip(), option)
    return None


def _option(line: str, places: Sequence[tuple[int, int]], number: int, *, is_step: bool) -> str:
    """The option that parses a number; empty if no name precedes it or the line cannot be quoted."""
    left = places[number - 1][1] if number else 0
    between = line[left : places[number][0]]
    names = [name for name in _NAME.findall(between) if name.lower() not in _NO_NAMES]
    if not names or set("'{}") & set(line) or not line.isascii():
        return ""
    before = _step_pattern(line, places, number) + _escape(between) if is_step else _escape(between.lstrip())
    return f"--metric '{names[-1].lower().replace('-', '_')}={before}{_VALUE}'"


def _step_pattern(line: str, places: Sequence[tuple[int, int]], number: int) -> str:
    """The pattern that parses the preceding number as the step."""
    left = places[number - 2][1] if number > 1 else 0
    return _escape(line[left : places[number - 1][0]].lstrip()) + r"(?P<step>\d+)"


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
