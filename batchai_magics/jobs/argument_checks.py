"""Checks of the arguments of methods that notebooks call, made before any request."""

from __future__ import annotations

import math
import os
from typing import Any

from batchai_magics.errors import UsageError

TEXT, NAME_OR_FILE = "a string", "a path as a string, or a file of job.files()"
_LONGEST = 60  # characters of a value quoted in a message


def check_text(call: str, name: str, value: object, *, wanted: str = TEXT) -> None:
    """Checks that a value is a string.

    Args:
        call: The method in the message: `job.log`.
        name: The parameter in the message.
        value: The argument.
        wanted: What it must be, in the message.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, str):
        raise argument_error(call, name, value, wanted)


def check_path(call: str, name: str, value: object) -> None:
    """Checks that a value is a string or a path.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise argument_error(call, name, value, "a path")


def check_flag(call: str, name: str, value: object) -> None:
    """Checks that a value is True or False.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, bool):
        raise argument_error(call, name, value, "True or False")


def check_count(call: str, name: str, value: object, *, hint: str = "") -> None:
    """Checks that a value is a non-negative integer or None.

    Raises:
        UsageError: It is not.
    """
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not (value is None or is_count):
        raise argument_error(call, name, value, "a non-negative integer or None", hint=hint)


def check_seconds(call: str, name: str, value: object) -> None:
    """Checks that a value is a non-negative number of seconds or None.

    Raises:
        UsageError: It is not.
    """
    if value is None:
        return
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or math.isnan(float(value)) or float(value) < 0:  # type: ignore[arg-type]  # it is a number
        raise argument_error(call, name, value, "a non-negative number of seconds or None")


def argument_error(call: str, name: str, value: Any, wanted: str, *, hint: str = "") -> UsageError:
    """The UsageError for an argument of a method (`call`) that is not what it must be (`wanted`)."""
    text = repr(value)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return UsageError(f"{call}: {name} must be {wanted}, not {shown} ({type(value).__name__})", hint=hint)
