"""What the publisher watches: sources of news, and what is known from them, whatever it is of."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from batchai_magics.errors import BatchAIError, NotFoundError, UnreachableError
from batchai_magics.follow import GROWTH, LONGEST_S, LOST_S
from batchai_magics.widgets.core.display import Bundle

_log = logging.getLogger(__name__)

TICK_S = 0.1  # between two rounds of the publisher
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

    def looked(self) -> None:
        """All events of one look have been taken."""

    def complain(self, problem: str) -> None:
        """Says why nothing new comes; an empty text takes it back."""
        if problem != self.problem:
            self.problem = problem
            self.version += 1

    def end(self) -> None:
        """No event will come any more."""
        self.is_over = True
        self.version += 1


class Watch:
    """One thing that is watched: its source and its feed, however many views it has."""

    def __init__(self, source: Source, feed: Feed[Any], *, longest_s: float = LONGEST_S) -> None:
        self.source = source
        self.feed = feed
        self.is_seen = False  # a view was added that shows it
        self._longest_s = self._most_s = longest_s
        self._interval_s = TICK_S
        self._due_at = 0.0

    def poll(self, now: float) -> None:
        """Takes what is new, if it is time to ask; asks less often while nothing comes."""
        if self.feed.is_over or now < self._due_at:
            return
        try:
            is_news = self._take_news()
        except Exception as error:  # noqa: BLE001  # one thing that cannot be read must not end the others
            _log.debug("what a live view shows cannot be read", exc_info=True)
            self.feed.complain(stopped(error))
            self.feed.end()
            return
        self._interval_s = TICK_S if is_news else min(self._most_s, self._interval_s * GROWTH)
        self._due_at = now if self.source.is_behind else now + self._interval_s

    def _take_news(self) -> bool:
        events = self._ask()
        for event in events:
            self.feed.take(event)
        self.feed.looked()
        if self.source.is_over:
            self.feed.end()
        return bool(events)

    def _ask(self) -> Sequence[Any]:
        try:
            events = self.source.poll()
        except NotFoundError:
            self.feed.complain(f"The {self.feed.noun} was deleted.")
            self.feed.end()
            return ()
        except UnreachableError as error:
            self.feed.complain(f"{error.message}. Trying again; nothing is lost.")
            self._most_s = LOST_S
            return ()
        except BatchAIError as error:
            self.feed.complain(error.message)
            return ()
        self.feed.complain("")
        self._most_s = self._longest_s
        return events


class DashboardFeed(Feed[Event]):
    """The feed of a dashboard: a header and rows (nodes, jobs or runs)."""

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


def stopped(error: Exception) -> str:
    """What a live view says that cannot go on."""
    return f"The live view stopped: {error}"


def milliseconds(moment: datetime) -> int:
    """A time as the page counts it: since 1970."""
    return int(moment.timestamp() * 1000)
