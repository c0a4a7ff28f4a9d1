"""`batchai sweep …`."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.command_progress import Message, Stream, StreamParts
from batchai_magics.commands.output.command_result import TableResult, ValueWithNotes
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.jobs.sweeps.sweep_definition import SweepFiles
from batchai_magics.jobs.sweeps.sweep_handle import RUNNING, Sweep
from batchai_magics.metrics.measurement import json_value

_DIGITS = 5  # of a number in a table


@dataclass(frozen=True)
class SweepTable:
    """The trials of a sweep as table and data; notebooks display the sweep itself."""

    in_notebook: Sweep

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return self.in_notebook.rows()

    def to_data(self) -> list[dict[str, Any]]:
        """One object per trial; numbers that are not finite are strings."""
        return [{name: json_value(value) for name, value in row.items()} for row in self._rows]

    def to_table(self) -> Table:
        """The same with rounded numbers."""
        titles = tuple(self._rows[0]) if self._rows else ("trial",)
        return Table(titles, tuple(tuple(map(_rounded, row.values())) for row in self._rows))


def files_of(context: Context, arguments: Namespace) -> SweepFiles:
    """The definitions of the sweeps of the line's experiment."""
    return SweepFiles(context.backend, context.settings.share, context.experiment(arguments).name)


def list_all(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The sweeps of the experiment; a note for each whose definition is damaged."""
    files, experiment = files_of(context, arguments), context.experiment(arguments)
    rows, notes = list[dict[str, Any]](), list[str]()
    for name in files.names():
        try:
            sweep = Sweep(context.backend, experiment, files, name)
            trials = sweep.stored_trials()
            ended = [trial for trial in trials if trial.runs and not trial.is_open]
            rows.append(
                {
                    "name": sweep.name,
                    "state": sweep.state,
                    "trials": len(trials),
                    "ended": len(ended),
                    "failed": sum(trial.has_failed for trial in ended),
                    "search": sweep.definition.options.search,
                    "parameters": list(sweep.parameters),
                }
            )
        except NotFoundError:  # it was deleted meanwhile
            continue
        except BatchAIError as error:
            counts = dict.fromkeys(("trials", "ended", "failed"), 0)
            rows.append({"name": name, "state": "unreadable", **counts, "search": "", "parameters": []})
            notes.append(f"Warning: {error}")
    titles = ("name", "state", "trials", "ended", "failed", "search")
    table = Table(titles, tuple(tuple(row[title] for title in titles) for row in rows))
    return ValueWithNotes(TableResult(rows, table), tuple(notes))


def show(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The trials of a sweep; in a notebook, its handle."""
    sweep = _sweep_of(context, arguments)
    return ValueWithNotes(SweepTable(sweep), (sweep.summary, *sweep.seed_groups().sentences()))


def wait(context: Context, arguments: Namespace) -> Stream:
    """Reports a sweep's progress until it has ended."""
    return Stream(_progress(_sweep_of(context, arguments)), "Stopped waiting; the trials keep running.")


def cancel(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Cancels a sweep."""
    sweep = _sweep_of(context, arguments)
    if (state := sweep.state) != RUNNING:
        return ValueWithNotes(None, (f"{sweep.name} has already ended ({state}).",))
    sweep.cancel()
    return ValueWithNotes(None, (f"Cancelling {sweep.name}.",))


def _sweep_of(context: Context, arguments: Namespace) -> Sweep:
    return Sweep.find(context.backend, arguments.name, context.settings_for(arguments))


def _progress(sweep: Sweep) -> StreamParts:
    printed = ""
    for _ in sweep.updates():
        if (text := sweep.summary) != printed:
            yield Message(text)
        printed = text


def _rounded(value: Any) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
