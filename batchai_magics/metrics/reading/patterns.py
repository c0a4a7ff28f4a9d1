"""The user's own patterns, `NAME=REGEX`: numbers in lines that no built-in format reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from batchai_magics.metrics.reading.prefixes import PREFIX, rank_of
from batchai_magics.metrics.reading.view import View
from batchai_magics.metrics.record import PatternRecord
from batchai_magics.options.expressions import Expression, Match, compile_number, lines_found


class Patterns:
    """Compiled patterns; raises UsageError for one that cannot work, naming it."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._compiled = {name: _compile(name, regex) for name, regex in patterns.items()}

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def lines_found(self, data: bytes) -> set[int]:
        """Where the lines begin in which a pattern finds something."""
        return {
            place for pattern in self._compiled.values() for place in lines_found(pattern.expression, data)
        }

    def records(
        self, view: View, *, step: int | None, without: Collection[str] = ()
    ) -> Iterator[PatternRecord]:
        """All numbers that the patterns find on a view's only line, left to right for each pattern.

        `step` is what else the line tells, for patterns without a group of that name.
        """
        line = view.data.rstrip(b"\n")
        rank = rank_of(PREFIX.match(line)) if view.rank is None else view.rank
        end, wall_time = view.end_offset(0), view.wall_time(len(line))
        for name, pattern in self._compiled.items():
            for match in pattern.expression.finditer(line) if name not in without else ():
                value = pattern.value(match)
                if value is not None:
                    place = pattern.step(match) if pattern.step_group is not None else step
                    yield PatternRecord(name, value, place, rank, end, wall_time)


class _Pattern(NamedTuple):
    """An expression, and the numbers of the groups that tell the value and the step."""

    expression: Expression
    value_groups: Sequence[int]  # the first one that took part tells it
    step_group: int | None

    def value(self, match: Match) -> float | None:
        """None where that is no number."""
        texts = (match[group] for group in self.value_groups)
        return _number(next((text for text in texts if text is not None), None))

    def step(self, match: Match) -> int | None:
        """None where that is no whole number, or no group tells it."""
        step = None if self.step_group is None else _number(match[self.step_group])
        return int(step) if step is not None and step.is_integer() else None


def _compile(name: str, regex: str) -> _Pattern:
    expression = compile_number(regex, option=f"--metric {name}")
    value, step = expression.groupindex.get(b"value"), expression.groupindex.get(b"step")
    unnamed = [group for group in range(1, expression.groups + 1) if group != step]
    return _Pattern(expression, [value] if value else unnamed, step)


def _number(text: bytes | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
