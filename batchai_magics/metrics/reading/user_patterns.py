"""User-defined metrics: `NAME=REGEX` for lines that no built-in format parses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from batchai_magics.metrics.grammar.metric_names import TRAIN, split_phase
from batchai_magics.metrics.measurement import Measurement
from batchai_magics.options.regular_expressions import Expression, compile_number, matching_lines

_MOST_LINE_CHARACTERS = 120  # of a quoted line


class PatternMismatch(NamedTuple):
    """A match of a pattern that is not a number, and its line."""

    name: str
    text: str
    line: str

    def __str__(self) -> str:
        quoted = (
            self.line if len(self.line) <= _MOST_LINE_CHARACTERS else f"{self.line[:_MOST_LINE_CHARACTERS]}…"
        )
        return f'--metric {self.name} matched "{self.text}", which is not a number, in the line: {quoted}'


class UserPatterns:
    """Compiled patterns by metric name. Raises UsageError that names the first invalid one.

    `mismatches` has the first match of each pattern that was not a number.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._compiled = {name: _compile(name, regex) for name, regex in patterns.items()}
        self.mismatches: dict[str, PatternMismatch] = {}

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def matching_lines(self, data: bytes) -> set[int]:
        """The start positions of lines that match a pattern."""
        return {
            start for pattern in self._compiled.values() for start in matching_lines(pattern.expression, data)
        }

    def records(
        self, line: bytes, at: Measurement, *, without: Collection[str] = ()
    ) -> Iterator[Measurement]:
        """The matches on a line, left to right for each pattern.

        `at` is a number at the position of the line; patterns with a `step` group have their own position.
        """
        for name, pattern in self._compiled.items():
            for match in pattern.expression.finditer(line) if name not in without else ():
                text = pattern.value_text(match)
                value = _number(text)
                if value is not None:
                    has_step = pattern.step_group is not None
                    position = at._replace(step=pattern.step(match), epoch=None) if has_step else at
                    yield position._replace(name=name, value=value, phase=pattern.phase)
                elif text is not None and name not in self.mismatches:
                    self.mismatches[name] = PatternMismatch(name, _decode(text), _decode(line))


class _Pattern(NamedTuple):
    """A compiled expression with the indices of its value and step groups."""

    expression: Expression
    phase: str
    value_groups: Sequence[int]  # the first that matched holds the value
    step_group: int | None

    def value_text(self, match: re.Match[bytes]) -> bytes | None:
        """The text of the value; None if no group for it participated."""
        texts = (match[group] for group in self.value_groups)
        return next((text for text in texts if text is not None), None)

    def step(self, match: re.Match[bytes]) -> int | None:
        """The step, or None if it is not an integer or there is no `step` group."""
        step = None if self.step_group is None else _number(match[self.step_group])
        return int(step) if step is not None and step.is_integer() else None


def _compile(name: str, regex: str) -> _Pattern:
    expression = compile_number(regex, option=f"--metric {name}")
    names = cast("Mapping[bytes, int]", expression.groupindex)  # as RE2 has them
    value, step = names.get(b"value"), names.get(b"step")
    unnamed = [group for group in range(1, expression.groups + 1) if group != step]
    phase = split_phase(name)[0] or TRAIN
    return _Pattern(expression, phase, [value] if value else unnamed, step)


_THOUSANDS = re.compile(rb"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?(?:[eE][-+]?\d+)?")


def _number(text: bytes | None) -> float | None:
    if text and _THOUSANDS.fullmatch(text):
        text = text.replace(b",", b"")
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip()
