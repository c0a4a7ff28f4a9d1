"""Numbers in a log that no format reads: a line that has them, and the `--metric` that would read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from batchai_magics.metrics.formats.row import NUMBER
from batchai_magics.metrics.reading.prefixes import PLAIN_TAG, PREFIX

ENOUGH = 3  # lines of one shape, each with another number
MOST_BYTES = 1 << 20  # of a log that are looked through
_MOST_SHAPES = 64
_LONGEST = 300  # bytes of a line
_STAMP = re.compile(rb"(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_NUMBER = re.compile(rb"(?<![\w.:/@-])" + NUMBER + rb"(?![\w:/@-])")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_NO_NAMES = frozenset(("a", "the", "is", "are", "was", "has", "of", "at", "to", "in", "for", "by"))
_SPECIAL = re.compile(r"([.^$*+?\[\]\\|()])")
_VALUE = r"([-+.\deE]+)"


class Suggestion(NamedTuple):
    """A line whose numbers nobody reads, and the option that reads one of them."""

    line: str
    option: str


@dataclass
class _Shape:
    """Lines that are the same but for their numbers: the last one's, and which of them have changed."""

    numbers: list[bytes]
    changed: set[int] = field(default_factory=set)
    falling: set[int] = field(default_factory=set)
    count: int = 1

    def take(self, numbers: list[bytes]) -> None:
        """Takes the numbers of another line."""
        for place, (last, number) in enumerate(zip(self.numbers, numbers, strict=True)):
            if last != number:
                self.changed.add(place)
            if float(number) <= float(last):
                self.falling.add(place)
        self.numbers, self.count = numbers, self.count + 1


class UnreadNumbers:
    """Looks through the beginning of a log for lines that come again and again with other numbers."""

    def __init__(self) -> None:
        self.suggestion: Suggestion | None = None
        self._shapes: dict[bytes, _Shape] = {}
        self._left_bytes = MOST_BYTES

    def look(self, data: bytes) -> None:
        """Looks at whole lines."""
        if self.suggestion or self._left_bytes <= 0:
            return
        self._left_bytes -= len(data)
        for line in data.splitlines():
            if len(line) <= _LONGEST and (found := self._suggested_by(_bare(line))):
                self.suggestion = found
                return

    def _suggested_by(self, line: bytes) -> Suggestion | None:
        numbers = _NUMBER.findall(line)
        if not numbers:
            return None
        shape = self._shapes.get(key := _NUMBER.sub(b"#", line))
        if shape is None:
            if len(self._shapes) < _MOST_SHAPES:
                self._shapes[key] = _Shape(numbers)
            return None
        shape.take(numbers)
        return _suggestion(line.decode("utf-8", "replace"), shape) if shape.count >= ENOUGH else None


def _bare(line: bytes) -> bytes:
    """A line without what launchers and loggers put in front of it."""
    tag = PLAIN_TAG.match(line)
    line = line[tag.end() :] if tag else line
    prefix = PREFIX.match(line)
    line = line[prefix.end() :] if prefix else line
    stamp = _STAMP.search(line)
    return line[stamp.end() :].lstrip() if stamp else line


def _suggestion(line: str, shape: _Shape) -> Suggestion | None:
    """The option for the first number with a fraction that has changed and has a name before it."""
    places = [match.span() for match in _NUMBER.finditer(line.encode())]
    for number in sorted(shape.changed):
        if b"." not in shape.numbers[number]:
            continue
        option = _option(line, places, number, is_step=number - 1 in shape.changed - shape.falling)
        if option:
            return Suggestion(line.strip(), option)
    return None


def _option(line: str, places: Sequence[tuple[int, int]], number: int, *, is_step: bool) -> str:
    """The option that reads a number; empty where no name stands before it, or it cannot be quoted."""
    left = places[number - 1][1] if number else 0
    between = line[left : places[number][0]]
    names = [name for name in _NAME.findall(between) if name.lower() not in _NO_NAMES]
    if not names or set("'{}") & set(line) or not line.isascii():
        return ""
    before = (
        _step_pattern(line, places, number) + _escaped(between) if is_step else _escaped(between.lstrip())
    )
    return f"--metric '{names[-1].lower().replace('-', '_')}={before}{_VALUE}'"


def _step_pattern(line: str, places: Sequence[tuple[int, int]], number: int) -> str:
    """What reads the number before that one as its step."""
    left = places[number - 2][1] if number > 1 else 0
    return _escaped(line[left : places[number - 1][0]].lstrip()) + r"(?P<step>\d+)"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
