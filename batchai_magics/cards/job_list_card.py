"""The static card of a list of jobs, as HTML and plain text. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from batchai_magics.cards import card_parts
from batchai_magics.cards.card_parts import TableCard, table_card_html, table_card_text
from batchai_magics.jobs.job_logs import progress_text
from batchai_magics.metrics.reading.progress_reader import Progress
from batchai_magics.metrics.runs.metric_summary import number_text, sparkline
from batchai_magics.models.resources import JobResource

MAX_JOBS = 50
TITLES = ("job", "state", "nodes", "toolkit", "cluster", "ran for", "exit code", "metric", "")
SHORT_TITLES = ("job", "state", "ran for", "metric")
PROGRESS = "progress"  # column present if any job reports progress, or why it failed


@dataclass(frozen=True)
class JobListCard:
    """The contents of the card: the jobs of an experiment, newest first.

    `rates` are the values of each job's headline metric, by job name, and `labels` its name; `progress` is
    the progress, and `failures` say why jobs failed. `now` is when the card is made, the end of the elapsed
    time of running jobs.
    """

    experiment: str
    jobs: Sequence[JobResource]
    now: datetime
    rates: Mapping[str, Sequence[float]] = field(default_factory=dict)
    reopen_command: str = ""
    progress: Mapping[str, Progress] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def titles(self) -> tuple[str, ...]:
        """The column titles."""
        return (*TITLES, PROGRESS) if self._has_progress else TITLES

    @property
    def _has_progress(self) -> bool:
        return bool(self.progress or self.failures)

    @property
    def counts(self) -> str:
        """The number of jobs by state: `1 running, 2 succeeded`."""
        words = [job.word for job in self.jobs]
        present = [f"{words.count(word)} {word}" for word in card_parts.JOB_COLOURS if word in words]
        return ", ".join(present) or "no jobs yet"

    @property
    def rows(self) -> Iterator[tuple[JobResource, tuple[str, ...]]]:
        """The jobs with all cells except the state; at most `MAX_JOBS`."""
        for job in self.jobs[:MAX_JOBS]:
            rates = self.rates.get(job.id.name, ())
            yield (
                job,
                (
                    job.id.name,
                    str(job.spec.node_count),
                    job.spec.toolkit.label,
                    cluster_of(job),
                    job.elapsed(self.now) if job.execution else "",
                    exit_code_of(job),
                    f"{self.labels.get(job.id.name, '')} {number_text(rates[-1])}".strip() if rates else "",
                    sparkline(rates),
                    *([self._progress_of(job)] if self._has_progress else []),
                ),
            )

    @property
    def omitted(self) -> str:
        """A note on jobs that are not listed; empty if all are."""
        rest = len(self.jobs) - MAX_JOBS
        return f"and {card_parts.pluralize(rest, 'older job')}" if rest > 0 else ""

    @property
    def short_rows(self) -> Iterator[tuple[JobResource, tuple[str, ...]]]:
        """The same in few columns for narrow pages, with progress below the state."""
        for job, (name, nodes, toolkit, cluster, lasted, code, rate, *rest) in self.rows:
            hardware = f"{card_parts.pluralize(int(nodes), 'node')} · {toolkit} · {cluster}"
            ended = f"exit code {code}" if code not in ("", "0") else ""
            below = ", ".join(filter(None, (*rest[1:], ended)))
            yield job, (f"{name}\n{hardware}", f"{job.word}\n{below}", lasted, f"{rate}\n{rest[0]}")

    def _progress_of(self, job: JobResource) -> str:
        progress, failure = self.progress.get(job.id.name), self.failures.get(job.id.name, "")
        reached = progress_text(job, progress, self.now.timestamp()) if progress else ""
        return ": ".join(filter(None, (reached, failure)))


def cluster_of(job: JobResource) -> str:
    """The name of the job's cluster."""
    return job.spec.cluster.id.rstrip("/").rsplit("/", 1)[-1]


def exit_code_of(job: JobResource) -> str:
    """The exit code as text; empty without one."""
    return "" if job.execution is None or job.execution.exit_code is None else str(job.execution.exit_code)


def to_html(card: JobListCard) -> str:
    """The card as one self-contained HTML element."""
    width = len(SHORT_TITLES) if any(card.rates.values()) else len(SHORT_TITLES) - 1
    rows = [row[:width] for _, row in card.short_rows]
    return table_card_html(replace(_sheet(card), titles=SHORT_TITLES[:width], rows=rows))


def to_text(card: JobListCard) -> str:
    """The card as plain text."""
    return table_card_text(_sheet(card))


def _sheet(card: JobListCard) -> TableCard:
    return TableCard(
        name=card.experiment,
        title=card.counts,
        titles=card.titles,
        rows=[(name, job.word, *rest) for job, (name, *rest) in card.rows],
        colours=card_parts.JOB_COLOURS,
        omitted=card.omitted,
        reopen_command=card.reopen_command,
    )
