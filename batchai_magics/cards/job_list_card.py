"""The static card of a list of jobs, as HTML and plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from batchai_magics.cards.card_parts import JOB_COLOURS, TableCard, pluralize, table_card_html
from batchai_magics.jobs.job_logs import progress_text
from batchai_magics.jobs.listed_job import ListedJob
from batchai_magics.metrics.runs.metric_summary import number_text, sparkline

MAX_JOBS = 50
TITLES = ("job", "state", "nodes", "toolkit", "cluster", "ran for", "exit code", "metric", "")
SHORT_TITLES = ("job", "state", "ran for", "metric")
PROGRESS = "progress"  # column present if any job reports progress, or why it failed


def job_list_card(
    experiment: str, jobs: Sequence[ListedJob], now: datetime, reopen_command: str = ""
) -> TableCard:
    """The card of the jobs of an experiment, newest first; at most `MAX_JOBS` are listed.

    `now` is when the card is made, the end of the elapsed time of running jobs.
    """
    has_progress = any(job.progress or job.failure for job in jobs)
    words = [job.resource.word for job in jobs]
    present = [f"{words.count(word)} {word}" for word in JOB_COLOURS if word in words]
    rest = len(jobs) - MAX_JOBS
    return TableCard(
        name=experiment,
        title=", ".join(present) or "no jobs yet",
        titles=(*TITLES, PROGRESS) if has_progress else TITLES,
        rows=[_row(job, now)[: None if has_progress else -1] for job in jobs[:MAX_JOBS]],
        colours=JOB_COLOURS,
        omitted=f"and {pluralize(rest, 'older job')}" if rest > 0 else "",
        reopen_command=reopen_command,
    )


def _row(job: ListedJob, now: datetime) -> tuple[str, ...]:
    resource, values = job.resource, job.values
    exit_code = resource.execution.exit_code if resource.execution else None
    value = job.last or (number_text(values[-1]) if values else "")
    progress = progress_text(resource, job.progress, now.timestamp()) if job.progress else ""
    return (
        resource.id.name,
        resource.word,
        str(resource.spec.node_count),
        resource.spec.toolkit.label,
        resource.spec.cluster_name,
        resource.elapsed(now) if resource.execution else "",
        "" if exit_code is None else str(exit_code),
        f"{job.label} {value}".strip() if value else "",
        sparkline(values),
        ": ".join(filter(None, (progress, job.failure))),
    )


def to_html(card: TableCard, jobs: Sequence[ListedJob]) -> str:
    """The card as one self-contained HTML element, in few columns for narrow pages, the rest below."""
    rows = []
    for name, state, nodes, toolkit, cluster, elapsed, code, metric, curve, *progress in card.rows:
        hardware = f"{pluralize(int(nodes), 'node')} · {toolkit} · {cluster}"
        outcome = f"exit code {code}" if code not in ("", "0") else ""
        details = ", ".join(filter(None, (*progress, outcome)))
        rows.append((f"{name}\n{hardware}", f"{state}\n{details}", elapsed, f"{metric}\n{curve}"))
    width = len(SHORT_TITLES) if any(job.values or job.last for job in jobs) else len(SHORT_TITLES) - 1
    return table_card_html(replace(card, titles=SHORT_TITLES[:width], rows=[row[:width] for row in rows]))
