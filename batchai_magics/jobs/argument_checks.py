"""Checks of the arguments of methods that notebooks call, made before any request."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from batchai_magics.errors import UsageError

TEXT, NAME_OR_FILE = "a string", "a path as a string, or a file of job.files()"
PATH, FLAG = "a path", "True or False"
COUNT, SECONDS = "a non-negative integer or None", "a non-negative number of seconds or None"
_LONGEST = 60  # characters of a value quoted in a message


def _is_number(value: object, *kinds: type) -> bool:
    return value is None or (isinstance(value, kinds) and not isinstance(value, bool) and value >= 0)  # type: ignore[operator]  # it is a number


_ARE_VALID: Mapping[str, Callable[[object], bool]] = {
    TEXT: lambda value: isinstance(value, str),
    NAME_OR_FILE: lambda value: isinstance(value, str),
    PATH: lambda value: isinstance(value, (str, os.PathLike)),
    FLAG: lambda value: isinstance(value, bool),
    COUNT: lambda value: _is_number(value, int),
    SECONDS: lambda value: _is_number(value, int, float),
}


def check_argument(call: str, name: str, value: object, expected: str = TEXT, *, hint: str = "") -> None:
    """Checks that an argument of a method (`call`) is `expected`, one of the constants above.

    Raises:
        UsageError: It is not.
    """
    if not _ARE_VALID[expected](value):
        raise argument_error(call, name, value, expected, hint=hint)


def argument_error(call: str, name: str, value: Any, expected: str, *, hint: str = "") -> UsageError:
    """The UsageError for an argument of a method (`call`) that is not `expected`."""
    text = repr(value)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return UsageError(f"{call}: {name} must be {expected}, not {shown} ({type(value).__name__})", hint=hint)
