"""The user's own patterns, `NAME=REGEX`: numbers in lines that no built-in format reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from batchai_magics.errors import UsageError


@dataclass(frozen=True, slots=True)
class Found:
    """A number that a pattern found, with the step of its line if the pattern has a group `step`."""

    name: str
    value: float
    step: int | None


class Patterns:
    """Compiled patterns; raises UsageError for one that cannot work, naming it."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._compiled = {name: _compile(name, regex) for name, regex in patterns.items()}

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def read(self, line: bytes) -> Iterator[Found]:
        """All numbers that the patterns find on one line, left to right for each pattern."""
        for name, pattern in self._compiled.items():
            for match in pattern.finditer(line):
                yield from _found(name, match)


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


def _found(name: str, match: re.Match[bytes]) -> Iterator[Found]:
    groups = match.groupdict()
    step_index = match.re.groupindex.get("step")
    unnamed = (match[i] for i in range(1, match.re.groups + 1) if i != step_index)
    first = next((text for text in unnamed if text is not None), None)
    step = _number(groups.get("step"))
    value = _number(groups.get("value", first))
    if value is not None:
        yield Found(name, value, None if step is None or not step.is_integer() else int(step))


def _number(text: bytes | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
