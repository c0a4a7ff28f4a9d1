"""What the publisher watches: sources of news, and what is known from them, whatever it is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from batchai_magics.widgets.core.display import Bundle

Event = TypeVar("Event")


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


class Feed(ABC, Generic[Event]):
    """What is known of one thing: taken from its source's events, read by all its views.

    `version` grows with every change that a view has to be told of at once; `is_over` says that no event will
    come any more.
    """

    noun: ClassVar[str]  # what it is, for a sentence

    def __init__(self) -> None:
        self.problem = ""
        self.is_over = False
        self.version = 0

    @abstractmethod
    def take(self, event: Event) -> None:
        """Takes the next event."""

    def complain(self, problem: str) -> None:
        """Says why nothing new comes; an empty text takes it back."""
        if problem != self.problem:
            self.problem = problem
            self.version += 1

    def end(self) -> None:
        """No event will come any more."""
        self.is_over = True
        self.version += 1


class BoardFeed(Feed[Event]):
    """What is known of something that a board lists: nodes, jobs, runs."""

    @property
    @abstractmethod
    def is_at_rest(self) -> bool:
        """Whether nothing happens and nothing is about to."""

    @property
    @abstractmethod
    def way_back(self) -> str:
        """The command that shows it again."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What its head shows."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """What it lists."""

    @abstractmethod
    def bundle(self) -> Bundle:
        """It as a still picture: HTML and text, or text alone while nothing is known."""


def milliseconds(moment: datetime) -> int:
    """A time as the page counts it: since 1970."""
    return int(moment.timestamp() * 1000)
