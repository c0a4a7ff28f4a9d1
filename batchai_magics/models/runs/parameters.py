"""The parameters of a run, from its arguments and variables: name → number, text or truth value."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping

Parameter = str | int | float | bool
MAX_PARAMETERS = 100
MAX_LENGTH = 200  # characters of a text, and of a name
_ASSIGNMENT = re.compile(r"\+{0,2}([A-Za-z_][\w./-]*)=(.*)", re.DOTALL)  # also of hydra
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_FLOAT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_TRUTH = {"true": True, "false": False}


def of_arguments(arguments: str) -> dict[str, Parameter]:
    """The parameters on a command line: `--lr 0.1`, `--lr=0.1`, `lr=0.1`; a flag alone is true."""
    try:
        words = shlex.split(arguments)
    except ValueError:  # an unclosed quote, which the job's shell will report
        words = arguments.split()
    parameters: dict[str, Parameter] = {}
    index = 0
    while index < len(words):
        word, following = words[index], words[index + 1] if index + 1 < len(words) else None
        index += 1
        if match := _OPTION.fullmatch(word):
            text = match[2]
            if text is None and following is not None and _is_value(following):
                text, index = following, index + 1
            parameters[match[1].replace("-", "_")] = True if text is None else value_of(text)
        elif match := _ASSIGNMENT.fullmatch(word):
            parameters[match[1]] = value_of(match[2])
    return bounded(parameters)


def is_parameter(value: object) -> bool:
    """Whether a value can be a parameter: it fits into a column."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (bool, int)) or (isinstance(value, str) and len(value) <= MAX_LENGTH)


def bounded(parameters: Mapping[str, object]) -> dict[str, Parameter]:
    """The first parameters that, with their names, fit into a column: numbers, truth values, short texts."""
    kept: dict[str, Parameter] = {}
    for name, value in parameters.items():
        if is_parameter(value) and 0 < len(name) <= MAX_LENGTH and len(kept) < MAX_PARAMETERS:
            kept[name] = value  # type: ignore[assignment]  # `is_parameter` has checked it
    return kept


def value_of(text: str) -> Parameter:
    """The number or truth value that a text stands for, or the text."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return _TRUTH.get(text.lower(), text)


def _is_value(word: str) -> bool:
    """Whether a word is the value of the option before it: no option, but perhaps a negative number."""
    return not word.startswith("-") or _FLOAT.fullmatch(word) is not None
