"""Prices of nodes, and what node time costs.

Standard library only: nodes of a cluster stop jobs for their cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

SECONDS_PER_HOUR = 3600.0


class NodeTime(NamedTuple):
    """The time that a number of nodes were used, in seconds since 1970; `ended` is None while they are."""

    nodes: int
    started: float
    ended: float | None = None


class Price(NamedTuple):
    """The price of a node for an hour."""

    per_hour: float
    currency: str = ""

    def cost_of(self, times: Iterable[NodeTime], now: float) -> Cost:
        """What these times have cost until `now`, in seconds since 1970."""
        return Cost(self.per_hour * node_hours(times, now), self.currency)


class Cost(NamedTuple):
    """An amount of money."""

    amount: float
    currency: str = ""

    @property
    def text(self) -> str:
        """The amount, rounded, with its currency: `1.23 USD`; small amounts have two significant digits."""
        rounded = f"{self.amount:,.2f}" if self.amount >= 0.1 or not self.amount else f"{self.amount:.2g}"
        return f"{rounded} {self.currency}".strip()


def node_hours(times: Iterable[NodeTime], now: float) -> float:
    """The sum of these times until `now`, in hours of one node."""
    seconds = (
        time.nodes * max(0.0, (now if time.ended is None else time.ended) - time.started) for time in times
    )
    return sum(seconds) / SECONDS_PER_HOUR


def total(costs: Iterable[Cost]) -> Cost | None:
    """The sum of costs in one currency; None without any."""
    known = list(costs)
    return Cost(sum(cost.amount for cost in known), known[0].currency) if known else None
