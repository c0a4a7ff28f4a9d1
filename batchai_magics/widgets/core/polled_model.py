"""Models that poll for their changes: the publisher keeps them up to date, and all views read them."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from batchai_magics.errors import BatchAIError, NotFoundError, UnreachableError
from batchai_magics.follow import PollBackoff

_log = logging.getLogger(__name__)

TICK_S = 0.1  # between two steps of the publisher
MAX_CPU_SHARE = 0.1  # of a core for polling one model: what comes at once costs less than what comes in parts
MAX_COST_S = 0.5  # upper limit of the resulting poll interval

PageData: TypeAlias = dict[str, Any]
"""JSON between the kernel and the page; `frontend/core/messages.d.ts` has a type for each of its shapes."""


class PolledModel(Protocol):
    """The state of one resource. `version` increases with every change that views must show immediately."""

    noun: str  # what it shows, for messages
    version: int
    problem: str
    is_over: bool  # nothing will change any more
    max_interval_s: float  # longest poll interval, while nothing changes

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""

    def poll(self) -> bool:
        """Applies what has happened since the last poll, and returns whether anything has; does not block."""

    def report_problem(self, problem: str) -> None:
        """Sets the message that explains why updates have stopped; an empty text clears it."""

    def end(self) -> None:
        """Marks the model as complete."""


class ModelPoller:
    """Polls a model, which any number of views share; less often while nothing changes or polls cost much.

    `spent` is the thread's CPU time in seconds.
    """

    def __init__(self, model: PolledModel, *, spent: Callable[[], float] = time.thread_time) -> None:
        self.model = model
        self._spent = spent
        self.had_output = False  # some output has shown the model
        self._backoff = PollBackoff(TICK_S, model.max_interval_s)
        self._due_at = 0.0

    def poll(self, now: float) -> None:
        """Polls the model if it is due."""
        if self.model.is_over or now < self._due_at:
            return
        began = self._spent()
        try:
            delay_s = self._poll_model()
        except Exception as error:  # noqa: BLE001  # one failing model must not stop the others
            _log.debug("what a live view shows cannot be read", exc_info=True)
            self.model.report_problem(stopped_message(error))
            self._due_at = math.inf  # should the end fail, too
            with contextlib.suppress(Exception):
                self.model.end()
            return
        cost_s = min(MAX_COST_S, (self._spent() - began) / MAX_CPU_SHARE)
        self._due_at = now if self.model.is_behind else now + max(delay_s, cost_s)

    def _poll_model(self) -> float:
        """Polls the model; returns the delay before the next poll, in seconds."""
        model, is_news, problem = self.model, False, ""
        try:
            is_news = model.poll()
        except UnreachableError as error:
            model.report_problem(f"{error.message}. Trying again; nothing is lost.")
            return self._backoff.after_failure()
        except NotFoundError:
            problem = f"The {model.noun} was deleted."
            model.end()
        except BatchAIError as error:
            problem = error.message
        model.report_problem(problem)
        return self._backoff.after(is_news=is_news)


def stopped_message(error: Exception) -> str:
    """The message of a live view that failed."""
    return f"The live view stopped: {error}"


def milliseconds(moment: datetime) -> int:
    """A time in milliseconds since 1970, as the page expects it."""
    return int(moment.timestamp() * 1000)
