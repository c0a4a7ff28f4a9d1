"""A list of jobs as a still picture: an HTML card and its plain-text twin. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from batchai_magics.cards import parts
from batchai_magics.cards.sheet import Sheet, sheet_html, sheet_text
from batchai_magics.jobs.progress import progress_words
from batchai_magics.metrics.progress.progress_reader import Progress
from batchai_magics.models.resources import JobResource

MOST_JOBS = 50
TITLES = ("job", "state", "nodes", "toolkit", "cluster", "ran for", "exit code", "images/sec", "")
SHORT_TITLES = ("job", "state", "ran for", "images/sec")
PROGRESS = "progress"  # a column that is there when some job tells how far it is


@dataclass(frozen=True)
class JobsCard:
    """What a card shows: an experiment's jobs, newest first; by name their images/sec, and how far they are.

    `now` is when the card is made: a job that runs has been running until then.
    """

    experiment: str
    jobs: Sequence[JobResource]
    now: datetime
    rates: Mapping[str, Sequence[float]] = field(default_factory=dict)
    way_back: str = ""
    progress: Mapping[str, Progress] = field(default_factory=dict)

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of the columns."""
        return (*TITLES, PROGRESS) if self.progress else TITLES

    @property
    def counts(self) -> str:
        """How many jobs are in which state: `1 running, 2 succeeded`."""
        words = [job.word for job in self.jobs]
        present = [f"{words.count(word)} {word}" for word in parts.JOB_COLOURS if word in words]
        return ", ".join(present) or "no jobs yet"

    @property
    def rows(self) -> Iterator[tuple[JobResource, tuple[str, ...]]]:
        """The jobs, each with its cells but for the state; at most `MOST_JOBS`."""
        for job in self.jobs[:MOST_JOBS]:
            rates = self.rates.get(job.id.name, ())
            yield (
                job,
                (
                    job.id.name,
                    str(job.spec.node_count),
                    job.spec.toolkit.value,
                    cluster_of(job),
                    self._lasted(job),
                    exit_code_of(job),
                    f"{rates[-1]:,.1f}" if rates else "",
                    parts.bars(rates),
                    *([self._progress_of(job)] if self.progress else []),
                ),
            )

    @property
    def left_out(self) -> str:
        """What the card does not show, in words; empty if it shows all."""
        rest = len(self.jobs) - MOST_JOBS
        return f"and {parts.counted(rest, 'older job')}" if rest > 0 else ""

    @property
    def short_rows(self) -> Iterator[tuple[JobResource, tuple[str, ...]]]:
        """The same in few columns, for a page that may be narrow: progress is told below the state."""
        for job, (name, nodes, toolkit, cluster, lasted, code, rate, *rest) in self.rows:
            place = f"{parts.counted(int(nodes), 'node')} · {toolkit} · {cluster}"
            ended = f"exit code {code}" if code not in ("", "0") else ""
            below = ", ".join(filter(None, (*rest[1:], ended)))
            yield job, (f"{name}\n{place}", f"{job.word}\n{below}", lasted, f"{rate}\n{rest[0]}")

    def _progress_of(self, job: JobResource) -> str:
        progress = self.progress.get(job.id.name)
        return progress_words(job, progress, self.now.timestamp()) if progress else ""

    def _lasted(self, job: JobResource) -> str:
        if job.execution is None:
            return ""
        return parts.duration(((job.execution.ended or self.now) - job.execution.started).total_seconds())


def cluster_of(job: JobResource) -> str:
    """The name of the job's cluster."""
    return job.spec.cluster.id.rstrip("/").rsplit("/", 1)[-1]


def exit_code_of(job: JobResource) -> str:
    """The exit code in words; empty while there is none."""
    return "" if job.execution is None or job.execution.exit_code is None else str(job.execution.exit_code)


def to_html(card: JobsCard) -> str:
    """The card as one self-contained HTML element."""
    width = len(SHORT_TITLES) if any(card.rates.values()) else len(SHORT_TITLES) - 1
    rows = [row[:width] for _, row in card.short_rows]
    return sheet_html(replace(_sheet(card), titles=SHORT_TITLES[:width], rows=rows))


def to_text(card: JobsCard) -> str:
    """The card as plain text."""
    return sheet_text(_sheet(card))


def _sheet(card: JobsCard) -> Sheet:
    return Sheet(
        name=card.experiment,
        title=card.counts,
        titles=card.titles,
        rows=[(name, job.word, *rest) for job, (name, *rest) in card.rows],
        colours=parts.JOB_COLOURS,
        left_out=card.left_out,
        way_back=card.way_back,
    )
