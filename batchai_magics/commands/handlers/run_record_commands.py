"""Commands on records of runs: labels, what was submitted, differences, and a test of notifications."""

from __future__ import annotations

import time
import uuid
from argparse import Namespace
from typing import Any

from batchai_magics.backends.base import RECORDS
from batchai_magics.backends.node.notification_delivery import DeliveryError, deliver
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.output.command_result import ReportResult, TableResult
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import ServiceError, UsageError, visible_lines
from batchai_magics.follow.stack_collector import profile_of, stacks_of
from batchai_magics.jobs.run_diff import RunDiff, diff_runs
from batchai_magics.jobs.submit import find
from batchai_magics.jobs.watch_records import addresses_in
from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.models.runs.notifications import (
    ChannelKind,
    Notification,
    NotificationKind,
    channels,
)
from batchai_magics.models.wire_times import duration
from batchai_magics.options.job_options import channel_addresses, short_duration, tags
from batchai_magics.records.provenance import NAMES, Provenance


def stacks(context: Context, arguments: Namespace) -> ReportResult:
    """The Python stack of every rank of a running job; the table has each one's frame in user code."""
    stacks = stacks_of(context.backend, resource_commands.show_job(context, arguments))
    rows = ((rank.rank, rank.node, str(rank.user_frame or "")) for rank in stacks.ranks)
    table = Table(("Rank", "Node", "Place"), tuple(rows))
    return ReportResult(stacks.to_data(), table, stacks, str(stacks))


def profile(context: Context, arguments: Namespace) -> ReportResult:
    """Samples the stacks of every rank of a running job: where their time goes."""
    seconds = duration(short_duration("--for", getattr(arguments, "for"))).total_seconds()
    profile = profile_of(context.backend, resource_commands.show_job(context, arguments), seconds)
    table = Table(tuple(title.capitalize() for title in profile.titles), tuple(profile.rows))
    return ReportResult(profile.to_data(), table, profile, str(profile))


def diff(context: Context, arguments: Namespace) -> ReportResult:
    """Compares two runs; the table has all differences except the code's."""
    if len(arguments.run) != 2:
        raise UsageError(
            f"expected two runs, got {len(arguments.run)}", hint="For example: batchai job diff A B"
        )
    settings = context.settings_for(arguments)
    first, second = (find(context.backend, name, settings) for name in arguments.run)
    diff = diff_runs(first, second)
    table = Table(("Section", "Name", *diff.names, "Change"), tuple(map(tuple, diff.rows)))
    return ReportResult(diff_data(diff), table, diff, repr(diff))


def diff_data(diff: RunDiff) -> dict[str, Any]:
    """The differences of two runs; `code` has the lines of a unified diff."""
    rows = [row._asdict() for row in diff.rows]
    return {"runs": list(diff.names), "code": list(diff.code), "rows": rows, "notes": list(diff.notes)}


def update(context: Context, arguments: Namespace) -> TableResult:
    """Changes the tags and the note of a job; returns all of its labels."""
    change = LabelChange(
        tags("--tag", arguments.tag or ()), tags("--untag", arguments.untag or ()), note=arguments.note
    )
    if change == LabelChange():
        raise UsageError("there is nothing to change", hint="Give --tag, --untag or --note.")
    job = resource_commands.show_job(context, arguments).id
    labels = RECORDS.of(context.backend).relabel(job, change)
    facts = dict(labels.facts())
    row = (job.name, *(facts.get(title, "") for title in ("tags", "note", "parameters")))
    return TableResult(labels_data(job.name, labels), Table(("Name", "Tags", "Note", "Parameters"), (row,)))


def labels_data(run: str, labels: Labels) -> dict[str, Any]:
    """The labels of a run by name."""
    parameters = dict(labels.parameters)
    return {"name": run, "tags": list(labels.tags), "note": labels.note, "parameters": parameters}


def provenance(context: Context, arguments: Namespace) -> ReportResult:
    """Shows what a job was made of: everything that is recorded; the table and the text are a summary."""
    job = resource_commands.show_job(context, arguments).id
    provenance = Provenance.of_files(job.name, RECORDS.of(context.backend).read(job, NAMES))
    table = Table(("What", "Value"), tuple(provenance.facts()))
    return ReportResult(provenance.to_data(), table, provenance, visible_lines(repr(provenance)))


def test(context: Context, arguments: Namespace) -> TableResult:
    """Sends a test to the channels of `--notify`, or of the settings if there are none, once each.

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
    results: list[tuple[str, str]] = []
    has_failed = False
    for channel in channels(addresses):
        result = "not sent: an MLflow run is told of its end only"
        if channel.kind is not ChannelKind.MLFLOW:
            try:
                deliver(channel, notification)
                result = "delivered"
            except DeliveryError as error:
                result, has_failed = str(error), True
        results.append((channel.label, result))
    if has_failed:
        raise ServiceError("; ".join(f"{label}: {result}" for label, result in results))
    data = [{"channel": label, "result": result} for label, result in results]
    return TableResult(data, Table(("Channel", "Result"), tuple(results)))
