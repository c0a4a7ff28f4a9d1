"""`batchai job update`, `job provenance` and `job diff`: labels, records and differences of runs."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base import RECORDS, Records
from batchai_magics.cell.cell_option_values import tags_of
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import UsageError, visible_lines
from batchai_magics.follow.stack_collector import stacks_of
from batchai_magics.jobs.run_diff import RunDiff, diff_runs
from batchai_magics.jobs.submit import find
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.records.provenance import NAMES, Provenance
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
        parameters = " ".join(f"{name}={value}" for name, value in self.labels.parameters.items())
        cells = (self.run, ", ".join(self.labels.tags), self.labels.note, parameters)
        return Table(("Name", "Tags", "Note", "Parameters"), (cells,))


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
    job = resource_commands.show(context, arguments, Kind.JOB)
    assert isinstance(job, JobResource)
    return StacksResult(stacks_of(context.backend, job))


def diff(context: Context, arguments: Namespace) -> RunDiffResult:
    """Compares two runs."""
    if len(arguments.run) != 2:
        raise UsageError(f"two runs are compared, not {len(arguments.run)}", hint="batchai job diff A B")
    settings = context.settings_for(arguments)
    first, second = (find(context.backend, name, settings) for name in arguments.run)
    return RunDiffResult(diff_runs(first, second))


def update(context: Context, arguments: Namespace) -> LabelsResult:
    """Changes the tags and the note of a job."""
    change = LabelChange(tags_of(arguments.tag), tags_of(arguments.untag, "--untag"), note=arguments.note)
    if change == LabelChange():
        raise UsageError("there is nothing to change", hint="Give --tag, --untag or --note.")
    job = resource_commands.show(context, arguments, Kind.JOB).id
    records: Records = RECORDS.of(context.backend)
    return LabelsResult(job.name, records.relabel(job, change))


def provenance(context: Context, arguments: Namespace) -> ProvenanceResult:
    """Shows what a job was made of."""
    job = resource_commands.show(context, arguments, Kind.JOB).id
    records: Records = RECORDS.of(context.backend)
    return ProvenanceResult(Provenance.of_files(job.name, records.read(job, NAMES)))
