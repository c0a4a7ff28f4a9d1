"""Each time that a run was begun, as its row keeps it: on which nodes and when, and why it is over. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Attempts = tuple[Mapping[str, Any], ...]
QUEUED_AGAIN = "it was queued again"  # where nobody has said why


def with_next(attempts: Attempts, nodes: Sequence[str], now: float) -> Attempts:
    """The same with one more, which begins now on these nodes."""
    return (*attempts, {"nodes": [*nodes], "started": now})


def with_end(attempts: Attempts, reason: str, now: float) -> Attempts:
    """The same; the latest is over, for that reason, unless it was before."""
    if not attempts or "ended" in attempts[-1]:
        return attempts
    return (*attempts[:-1], {**attempts[-1], "ended": now, "reason": reason or QUEUED_AGAIN})


def are_several(attempts: Attempts) -> bool:
    """Whether there is anything to tell: one alone that runs, or has run to its end, is the job itself."""
    return len(attempts) > 1 or any("ended" in each for each in attempts)
