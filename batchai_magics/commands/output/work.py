"""A command that does many things one after another: uploads, submits, deletes."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

BYTES = "B"


@dataclass(frozen=True)
class Work:
    """Steps to carry out, and the value they come to.

    Each step gives how much of `total` it did, in `unit`s. Who stops in between is told `way_back`.
    """

    title: str
    total: int
    unit: str
    steps: Generator[int, None, Any]
    way_back: str
    is_quiet: bool = False  # no bar is wanted
