"""Feeds and their sources: a source is polled for events, a feed keeps the state that all views share."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from batchai_magics.errors import BatchAIError, NotFoundError, UnreachableError
from batchai_magics.follow import MAX_DELAY_S, PollBackoff
from batchai_magics.widgets.core.display import Bundle

_log = logging.getLogger(__name__)

TICK_S = 0.1  # between two steps of the publisher
Event = TypeVar("Event")

PageData: TypeAlias = dict[str, Any]
"""JSON between the kernel and the page; `frontend/core/messages.d.ts` has a type for each of its shapes."""


class Source(Protocol):
    """A polled source of events, such as `follow.Follower`."""

    @property
    def is_over(self) -> bool:
        """Whether the source has ended."""

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""

    def poll(self) -> Sequence[Any]:
        """Returns the events since the last poll; does not block."""


class Feed(Protocol):
    """The state of one resource, built from its source's events and read by all its views, as a `JobModel`.

    `version` increases with every change that views must show immediately; `is_over` means that the source
    has ended.
    """

    noun: str  # what it shows, for messages
    version: int
    problem: str
    is_over: bool

    def take(self, event: Any) -> None:
        """Applies the next event."""

    def poll_ended(self) -> None:
        """Called when all events of a poll have been applied."""

    def report_problem(self, problem: str) -> None:
        """Sets the message that explains why updates have stopped; an empty text clears it."""

    def end(self) -> None:
        """Marks the feed as ended."""


class FeedPoller:
    """Polls a source into a feed, which any number of views share."""

    def __init__(self, source: Source, feed: Feed, *, max_interval_s: float = MAX_DELAY_S) -> None:
        self.source = source
        self.feed = feed
        self.had_output = False  # some output has shown the feed
        self._backoff = PollBackoff(TICK_S, max_interval_s)
        self._due_at = 0.0

    def poll(self, now: float) -> None:
        """Polls the source if it is due; backs off while nothing changes."""
        if self.feed.is_over or now < self._due_at:
            return
        try:
            delay_s = self._take_events()
        except Exception as error:  # noqa: BLE001  # one failing source must not stop the others
            _log.debug("what a live view shows cannot be read", exc_info=True)
            self.feed.report_problem(stopped_message(error))
            self.feed.end()
            return
        self._due_at = now if self.source.is_behind else now + delay_s

    def _take_events(self) -> float:
        """Applies the events of a poll; gives the delay before the next one, in seconds."""
        try:
            events = self._poll_source()
        except UnreachableError as error:
            self.feed.report_problem(f"{error.message}. Trying again; nothing is lost.")
            return self._backoff.after_failure()
        for event in events:
            self.feed.take(event)
        self.feed.poll_ended()
        if self.source.is_over:
            self.feed.end()
        return self._backoff.after(is_news=bool(events))

    def _poll_source(self) -> Sequence[Any]:
        try:
            events = self.source.poll()
        except NotFoundError:
            self.feed.report_problem(f"The {self.feed.noun} was deleted.")
            self.feed.end()
            return ()
        except UnreachableError:
            raise
        except BatchAIError as error:
            self.feed.report_problem(error.message)
            return ()
        self.feed.report_problem("")
        return events


class DashboardFeed(ABC, Generic[Event]):
    """The feed of a dashboard: a header and rows (nodes, jobs or runs)."""

    noun: str

    def __init__(self) -> None:
        self.problem, self.is_over, self.version = "", False, 0

    @abstractmethod
    def take(self, event: Event) -> None:
        """Applies the next event."""

    def poll_ended(self) -> None:
        """Does nothing: each event is complete."""

    def report_problem(self, problem: str) -> None:
        """Sets the message that explains why updates have stopped; an empty text clears it."""
        self.version += problem != self.problem
        self.problem = problem

    def end(self) -> None:
        """Marks the feed as ended."""
        self.is_over = True
        self.version += 1

    @property
    @abstractmethod
    def is_at_rest(self) -> bool:
        """Whether nothing is changing or about to change."""

    @property
    @abstractmethod
    def way_back(self) -> str:
        """The command that shows it again."""

    @abstractmethod
    def facts(self) -> PageData:
        """What the header shows."""

    @abstractmethod
    def rows(self) -> list[PageData]:
        """What the dashboard lists."""

    @abstractmethod
    def bundle(self) -> Bundle:
        """A snapshot as HTML and text, or as text only while nothing is known."""


class FigureFeed(DashboardFeed[Event]):
    """The feed of a dashboard that is saved as a table and a figure once everything in it has ended."""

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether everything has ended according to the backend, even if the feed has not seen it yet."""

    @abstractmethod
    def chart(self) -> Bundle:
        """The figure as a PNG with a text equivalent."""


def stopped_message(error: Exception) -> str:
    """The message of a live view that failed."""
    return f"The live view stopped: {error}"


def milliseconds(moment: datetime) -> int:
    """A time in milliseconds since 1970, as the page expects it."""
    return int(moment.timestamp() * 1000)
