"""The user's own patterns, `NAME=REGEX`: numbers in lines that no built-in format reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from batchai_magics.errors import UsageError
from batchai_magics.metrics.reading.lines import Block, lines_of
from batchai_magics.metrics.reading.prefixes import PREFIX, rank_of
from batchai_magics.metrics.reading.view import View
from batchai_magics.metrics.record import PatternRecord


class Part(NamedTuple):
    """Neighbouring lines, in all of which a pattern finds something, or in none."""

    lines: Block
    is_found: bool


class Patterns:
    """Compiled patterns; raises UsageError for one that cannot work, naming it."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._compiled = {name: _compile(name, regex) for name, regex in patterns.items()}

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def cut(self, block: Block) -> Iterator[Part]:
        """A block's lines, parted where a pattern begins or ceases to find something."""
        begin, is_found = 0, False
        for line in lines_of(block):
            is_next = any(pattern.search(line.data.rstrip(b"\n")) for pattern in self._compiled.values())
            place = line.offset - block.offset
            if is_next != is_found and place > begin:
                yield Part(Block(block.data[begin:place], block.offset + begin), is_found)
                begin = place
            is_found = is_next
        yield Part(Block(block.data[begin:], block.offset + begin), is_found)

    def records(self, view: View, *, without: Collection[str] = ()) -> Iterator[PatternRecord]:
        """All numbers that the patterns find on a view's only line, left to right for each pattern."""
        line = view.data.rstrip(b"\n")
        rank = rank_of(PREFIX.match(line)) if view.rank is None else view.rank
        end, wall_time = view.end_offset(0), view.wall_time(len(line))
        for name, pattern in self._compiled.items():
            for match in pattern.finditer(line) if name not in without else ():
                value, step = _found(match)
                if value is not None:
                    yield PatternRecord(name, value, step, rank, end, wall_time)


def _compile(name: str, regex: str) -> re.Pattern[bytes]:
    try:
        pattern = re.compile(regex.encode())
    except (re.error, ValueError, OverflowError) as error:
        raise UsageError(
            f"--metric {name}: {regex!r} is no regular expression: {error}",
            hint=r"Write it as Python's re takes it, for example loss='loss: (\d+\.\d+)'.",
        ) from error
    if not pattern.groups:
        raise UsageError(
            f"--metric {name}: {regex!r} has no group, so it does not say which number is meant",
            hint=r"Put the number in round brackets, for example loss='loss: (\d+\.\d+)'.",
        )
    return pattern


def _found(match: re.Match[bytes]) -> tuple[float | None, int | None]:
    """The value of a match, None if that is no number, and its step if the pattern has a group `step`."""
    groups = match.groupdict()
    step_index = match.re.groupindex.get("step")
    unnamed = (match[i] for i in range(1, match.re.groups + 1) if i != step_index)
    first = next((text for text in unnamed if text is not None), None)
    step = _number(groups.get("step"))
    return _number(groups.get("value", first)), int(step) if step is not None and step.is_integer() else None


def _number(text: bytes | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
