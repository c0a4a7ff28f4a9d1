"""What the publisher keeps up to date, whatever it shows: a job, a cluster, a list of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Source(Protocol):
    """Where the news of one thing come from, polled: `follow.Follower`, or a look at a cluster."""

    @property
    def is_over(self) -> bool:
        """Whether no event will come any more."""

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read at once."""

    def poll(self) -> Sequence[Any]:
        """The events since the last time; never waits."""


class Known(Protocol):
    """What is known of one thing: taken from its source's events, read by all its views."""

    noun: str  # what it is, for a sentence

    @property
    def is_over(self) -> bool:
        """Whether no event will come any more."""

    def take(self, event: Any) -> None:
        """Takes the next event."""

    def complain(self, problem: str) -> None:
        """Says why nothing new comes; an empty text takes it back."""

    def end(self) -> None:
        """No event will come any more."""


class Shown(Protocol):
    """Something shown beneath a cell. Only the publisher's thread calls `send_next` and `republish`."""

    is_frozen: bool
    is_closed: bool

    @property
    def key(self) -> str:
        """What it shows: the id of a resource, in lower case."""

    @property
    def known(self) -> Known:
        """What its views share."""

    @property
    def is_gone(self) -> bool:
        """Whether the page has taken the view out."""

    @property
    def is_asleep(self) -> bool:
        """Whether nobody looks, so that nothing new need be asked for."""

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""

    def settle(self, wait_for: Callable[[Callable[[], bool]], bool]) -> None:
        """Becomes a still picture if this is the moment to: a cell has ended and no page shows it live."""

    def republish(self) -> int:
        """Publishes the still picture again if a page missed it. Returns what it took in bytes."""

    def close(self) -> None:
        """Ends the view as it stands."""
