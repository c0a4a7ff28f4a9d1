"""Arguments of what notebooks call, checked before anything is asked or written."""

from __future__ import annotations

import math
import os
from typing import Any

from batchai_magics.errors import UsageError

TEXT, NAME_OR_FILE = "a string", "a path as a string, or a file of job.files()"
_LONGEST = 60  # of a value in a message


def check_text(call: str, name: str, value: object, *, hint: str = "") -> None:
    """Raises UsageError for what is no string."""
    if not isinstance(value, str):
        raise wrong(call, name, value, TEXT, hint=hint)


def check_path(call: str, name: str, value: object) -> None:
    """Raises UsageError for what is no path."""
    if not isinstance(value, (str, os.PathLike)):
        raise wrong(call, name, value, "a path")


def check_flag(call: str, name: str, value: object) -> None:
    """Raises UsageError for what is neither True nor False."""
    if not isinstance(value, bool):
        raise wrong(call, name, value, "True or False")


def check_count(call: str, name: str, value: object, *, hint: str = "") -> None:
    """Raises UsageError for what is neither a non-negative integer nor None."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not (value is None or is_count):
        raise wrong(call, name, value, "a non-negative integer or None", hint=hint)


def check_seconds(call: str, name: str, value: object) -> None:
    """Raises UsageError for what is neither a non-negative number of seconds nor None."""
    if value is None:
        return
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or math.isnan(float(value)) or float(value) < 0:  # type: ignore[arg-type]  # it is a number
        raise wrong(call, name, value, "a non-negative number of seconds or None")


def wrong(call: str, name: str, value: Any, wanted: str, *, hint: str = "") -> UsageError:
    """The error for an argument of another kind than `wanted`."""
    text = repr(value)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return UsageError(f"{call}: {name} must be {wanted}, not {shown} ({type(value).__name__})", hint=hint)
