"""Fields of a JSON body, each checked as it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchai_magics.server.errors import refusal

MOST_BYTES = 1 << 20  # of one file, in one answer


def text(body: Mapping[str, Any], name: str, default: str = "") -> str:
    """A field that must be a string and not empty."""
    value = body.get(name, default)
    if not isinstance(value, str) or not value:
        raise refusal(400, "InvalidRequestContent", f"{name} must be a text.")
    return value


def number(body: Mapping[str, Any], name: str, default: int) -> int:
    """A field that must be a non-negative integer; `limit` is capped."""
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise refusal(400, "InvalidRequestContent", f"{name} must be a whole number of at least 0.")
    return min(value, MOST_BYTES) if name == "limit" else value


def positions(body: Mapping[str, Any]) -> Mapping[str, int]:
    """How far each log is known, by its path: the field `positions`."""
    value = body.get("positions") or {}
    if not isinstance(value, Mapping):
        raise refusal(400, "InvalidRequestContent", "positions must be an object.")
    return {str(path): number(value, path, 0) for path in value}
