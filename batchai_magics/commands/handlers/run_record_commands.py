"""`batchai job update`: the labels of runs; and what is recorded of them."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base import RECORDS, Records
from batchai_magics.cell.cell_option_values import tags_of
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import UsageError
from batchai_magics.models.resource_ids import Kind
from batchai_magics.records.labels import LabelChange, Labels
from batchai_magics.records.provenance import NAMES, Provenance


@dataclass(frozen=True)
class LabelsResult:
    """The labels of a run as table and data."""

    run: str
    labels: Labels

    def to_data(self) -> Any:
        """The labels by name."""
        return {"name": self.run, **self.labels.to_json()}

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
