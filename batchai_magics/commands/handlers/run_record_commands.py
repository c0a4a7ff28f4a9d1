"""Commands on records of runs: labels, what was submitted, differences, and a test of notifications."""

from __future__ import annotations

import time
import uuid
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base import RECORDS, Records
from batchai_magics.backends.node.notification_delivery import DeliveryError, deliver
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import ServiceError, UsageError, visible_lines
from batchai_magics.follow.stack_collector import profile_of, stacks_of
from batchai_magics.jobs.run_diff import RunDiff, diff_runs
from batchai_magics.jobs.submit import find
from batchai_magics.jobs.watch_records import addresses_in
from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.models.runs.notifications import (
    Channel,
    ChannelKind,
    Notification,
    NotificationKind,
    channels,
)
from batchai_magics.models.wire_times import duration
from batchai_magics.options.job_options import channel_addresses, short_duration, tags
from batchai_magics.records.provenance import NAMES, Provenance
from batchai_magics.records.rank_profile import RunProfile
from batchai_magics.records.rank_stacks import RankStacks


@dataclass(frozen=True)
class LabelsResult:
    """The labels of a run as table and data."""

    run: str
    labels: Labels

    def to_data(self) -> Any:
        """The labels by name."""
        labels = self.labels
        return {
            "name": self.run,
            "tags": list(labels.tags),
            "note": labels.note,
            "parameters": dict(labels.parameters),
        }

    def to_table(self) -> Table:
        """One row."""
        facts = dict(self.labels.facts())
        cells = (facts.get(title, "") for title in ("tags", "note", "parameters"))
        return Table(("Name", "Tags", "Note", "Parameters"), ((self.run, *cells),))


@dataclass(frozen=True)
class ProvenanceResult:
    """What a run was made of, as table and data; notebooks display its summary."""

    in_notebook: Provenance

    def to_data(self) -> Any:
        """Everything that is recorded."""
        return self.in_notebook.to_data()

    def to_table(self) -> Table:
        """The summary."""
        return Table(("What", "Value"), tuple(self.in_notebook.facts()))

    @property
    def terminal_text(self) -> str:
        """The summary."""
        return visible_lines(repr(self.in_notebook))


@dataclass(frozen=True)
class RunDiffResult:
    """The differences of two runs as table, data and text; notebooks display them as a card."""

    in_notebook: RunDiff

    def to_data(self) -> Any:
        """The differences; `code` has the lines of a unified diff."""
        diff = self.in_notebook
        rows = [row._asdict() for row in diff.rows]
        return {"runs": list(diff.names), "code": list(diff.code), "rows": rows, "notes": list(diff.notes)}

    def to_table(self) -> Table:
        """The differences but those of the code."""
        diff = self.in_notebook
        return Table(("Section", "Name", *diff.names, "Change"), tuple(map(tuple, diff.rows)))

    @property
    def terminal_text(self) -> str:
        """All differences."""
        return repr(self.in_notebook)


@dataclass(frozen=True)
class StacksResult:
    """Where the ranks of a job are, as table, data and text."""

    in_notebook: RankStacks

    def to_data(self) -> Any:
        """The stacks of all ranks."""
        return self.in_notebook.to_data()

    def to_table(self) -> Table:
        """The place of each rank."""
        rows = ((rank.rank, rank.node, str(rank.user_frame or "")) for rank in self.in_notebook.ranks)
        return Table(("Rank", "Node", "Place"), tuple(rows))

    @property
    def terminal_text(self) -> str:
        """The rank that differs, then the stacks."""
        return self.in_notebook.terminal_text


def stacks(context: Context, arguments: Namespace) -> StacksResult:
    """The Python stack of every rank of a running job."""
    return StacksResult(stacks_of(context.backend, resource_commands.show_job(context, arguments)))


@dataclass(frozen=True)
class ProfileResult:
    """Where the time of a job's ranks goes, as table, data and text."""

    in_notebook: RunProfile

    def to_data(self) -> Any:
        """The shares and lines of all ranks."""
        return self.in_notebook.to_data()

    def to_table(self) -> Table:
        """A row for each rank."""
        profile = self.in_notebook
        return Table(tuple(title.capitalize() for title in profile.titles), tuple(profile.rows))

    @property
    def terminal_text(self) -> str:
        """What to look at first, then the shares of all ranks."""
        return self.in_notebook.terminal_text


def profile(context: Context, arguments: Namespace) -> ProfileResult:
    """Samples the stacks of every rank of a running job."""
    seconds = duration(short_duration("--for", getattr(arguments, "for"))).total_seconds()
    job = resource_commands.show_job(context, arguments)
    return ProfileResult(profile_of(context.backend, job, seconds))


def diff(context: Context, arguments: Namespace) -> RunDiffResult:
    """Compares two runs."""
    if len(arguments.run) != 2:
        raise UsageError(
            f"expected two runs, got {len(arguments.run)}", hint="For example: batchai job diff A B"
        )
    settings = context.settings_for(arguments)
    first, second = (find(context.backend, name, settings) for name in arguments.run)
    return RunDiffResult(diff_runs(first, second))


def update(context: Context, arguments: Namespace) -> LabelsResult:
    """Changes the tags and the note of a job."""
    change = LabelChange(
        tags("--tag", arguments.tag or ()), tags("--untag", arguments.untag or ()), note=arguments.note
    )
    if change == LabelChange():
        raise UsageError("there is nothing to change", hint="Give --tag, --untag or --note.")
    job = resource_commands.show_job(context, arguments).id
    records: Records = RECORDS.of(context.backend)
    return LabelsResult(job.name, records.relabel(job, change))


def provenance(context: Context, arguments: Namespace) -> ProvenanceResult:
    """Shows what a job was made of."""
    job = resource_commands.show_job(context, arguments).id
    records: Records = RECORDS.of(context.backend)
    return ProvenanceResult(Provenance.of_files(job.name, records.read(job, NAMES)))


@dataclass(frozen=True)
class DeliveryReport:
    """What became of the test notification on each channel."""

    results: tuple[tuple[str, str], ...]

    def to_data(self) -> list[dict[str, str]]:
        """One object per channel."""
        return [{"channel": label, "result": result} for label, result in self.results]

    def to_table(self) -> Table:
        """One row per channel."""
        return Table(("Channel", "Result"), tuple(tuple(row.values()) for row in self.to_data()))


def test(context: Context, arguments: Namespace) -> DeliveryReport:
    """Sends it to the channels of `--notify`, else those of the settings, once each.

    Raises:
        UsageError: No channel is given, or one is invalid.
        ServiceError: A channel did not receive it.
    """
    addresses = channel_addresses("--notify", arguments.notify or ()) or addresses_in(context.settings.notify)
    if not addresses:
        hint = "Give one: batchai notify test --notify URL, or set `notify` in the configuration file."
        raise UsageError("there is no channel to send a notification to", hint=hint)
    id = f"test-{uuid.uuid4()}"
    reason = "it was sent by batchai notify test"
    notification = Notification(id, NotificationKind.TEST, "test", "test", time.time(), reason)
    report = DeliveryReport(tuple(_result(channel, notification) for channel in channels(addresses)))
    if any(result not in (_DELIVERED, _NOT_SENT) for _, result in report.results):
        raise ServiceError("; ".join(f"{label}: {result}" for label, result in report.results))
    return report


_DELIVERED, _NOT_SENT = "delivered", "not sent: an MLflow run is told of its end only"


def _result(channel: Channel, notification: Notification) -> tuple[str, str]:
    """The label of a channel, and what became of the notification there."""
    if channel.kind is ChannelKind.MLFLOW:
        return channel.label, _NOT_SENT
    try:
        deliver(channel, notification)
    except DeliveryError as error:
        return channel.label, str(error)
    return channel.label, _DELIVERED
