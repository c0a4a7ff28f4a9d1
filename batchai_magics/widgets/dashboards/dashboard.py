"""The base of all dashboards: the model, which polls a backend, and the stream of a view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.view_stream import (
    Batch,
    Clock,
    PageData,
    RunInBackground,
    ViewStream,
    reply_to,
)

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job

OpenJobs = Callable[..., str]
"""Called with the handles of jobs: creates the live view of one, or a comparison of several, for embedding in
another view, and returns its widget's id."""


class DashboardModel(ABC):
    """A header and rows (nodes, jobs, runs or trials)."""

    noun: str
    max_interval_s: float

    def __init__(self) -> None:
        self.problem, self.is_over, self.version = "", False, 0

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""
        return False

    @abstractmethod
    def poll(self) -> bool:
        """Applies the changes since the last poll; returns whether there were any; does not block."""

    def report_problem(self, problem: str) -> None:
        """Sets the message that explains why updates have stopped; an empty text clears it."""
        self.version += problem != self.problem
        self.problem = problem

    def end(self) -> None:
        """Marks the model as complete."""
        self.is_over = True
        self.version += 1

    @property
    @abstractmethod
    def is_at_rest(self) -> bool:
        """Whether nothing is changing or about to change."""

    @property
    @abstractmethod
    def reopen_command(self) -> str:
        """The command that shows it again."""

    @abstractmethod
    def facts(self) -> PageData:
        """What the header shows."""

    @abstractmethod
    def rows(self) -> list[PageData]:
        """What the dashboard lists."""

    def jobs_named(self, names: Sequence[str]) -> list[Job]:
        """The handles of listed jobs by their names, without jobs that no longer exist."""
        return []

    @abstractmethod
    def bundle(self) -> Bundle:
        """A snapshot as HTML and text, or as text only while nothing is known."""


class DashboardStream(ViewStream):
    """The stream of one view of a dashboard: its state is the header and the rows.

    With `open_jobs`, the request `open` embeds a view of some of its jobs.
    """

    _model: DashboardModel

    def __init__(
        self,
        model: DashboardModel,
        *,
        work: RunInBackground,
        clock: Clock,
        open_jobs: OpenJobs | None = None,
    ) -> None:
        super().__init__(model, work=work, clock=clock)
        self._open_jobs = open_jobs

    def current_state(self) -> PageData:
        """The header and the rows."""
        return {"facts": self._model.facts(), "rows": self._model.rows()}

    def next_message(self, limit_bytes: int) -> Batch | None:
        """None: header and rows are the whole view."""
        return None

    def on_hello(self, content: PageData) -> None:
        """Welcomes a page; it has the header and rows, but no messages."""
        self._replies.append(Batch({"kind": "welcome"}))

    def respond(self, content: PageData) -> Batch:
        """Creates the live view of the jobs `content["names"]`."""
        if content.get("kind") != "open" or self._open_jobs is None:
            return super().respond(content)
        names = [str(name) for name in content.get("names", ())]
        jobs = self._model.jobs_named(names)
        if not jobs or len(jobs) < len(names):
            return reply_to(content, text="The job was deleted.")
        return reply_to(content, text="", model=self._open_jobs(*jobs))
