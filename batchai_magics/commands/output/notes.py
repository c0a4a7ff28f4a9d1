"""A value, and what people should know beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Noted:
    """What a handler gives when it has something to say beside its value."""

    value: Any
    notes: tuple[str, ...]
