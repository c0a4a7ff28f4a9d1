"""Results of the shell command for people: tables and short text, with colours and fitted on a terminal.

In a pipe the text is the same, without colours and with every word in full.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO, cast

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from batchai_magics.commands.output.command_progress import resume_command
from batchai_magics.commands.output.command_result import ResourceHandle, Result, TextResult
from batchai_magics.commands.output.text_table import Table, Tabular
from batchai_magics.errors import visible_lines
from batchai_magics.models.states import CANCELLED, STOPPED, ExecutionState

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job
    from batchai_magics.jobs.job_overview import JobOverview
    from batchai_magics.models.error_details import ErrorDetail

STATE_STYLES = {
    ExecutionState.QUEUED.value: "dim",
    ExecutionState.RUNNING.value: "cyan",
    ExecutionState.TERMINATING.value: "yellow",
    ExecutionState.SUCCEEDED.value: "green",
    ExecutionState.FAILED.value: "bold red",
    CANCELLED: "yellow",
    STOPPED: "yellow",
}
PIPE_WIDTH = 1 << 16
MIN_COLUMN = 6  # narrowest width of a column that is cut on a terminal
_GAP = 2
_SCOPES = ("Resource Group", "Workspace", "Cluster RG", "Cluster Workspace", "Cluster", "Tool")
"""Titles of columns that are left out where all rows have the same."""


def console_for(stream: TextIO) -> Console:
    """A console for a stream: without colours in a pipe and with NO_COLOR, and never cut in a pipe."""
    is_terminal = stream.isatty()
    has_colours = is_terminal and not os.environ.get("NO_COLOR")
    return Console(
        file=stream,
        color_system="auto" if has_colours else None,
        width=None if is_terminal else PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_text(result: Result, stream: TextIO) -> None:
    """Prints a result as a table or short text."""
    value = result.value
    if value is None:
        return
    if isinstance(value, TextResult):
        print(value.terminal_text, file=stream)
    elif isinstance(value, ResourceHandle):
        console_for(stream).print(job_text(read_overview(cast("Job", value))), soft_wrap=True)
    elif isinstance(value, (list, tuple, Tabular)):
        table = compact(result.table)
        if stream.isatty() and table.rows:
            console = console_for(stream)
            console.print(fitted_table(table, console.width))
        elif table.rows:
            print(table.aligned(), file=stream)
        for footer in table.footers:
            print(f"\n{visible_lines(str(footer))}", file=stream)
    else:
        _print_object(result, stream)


def compact(table: Table) -> Table:
    """The table without empty columns, and without scopes that are the same in all rows."""
    columns = []
    for i, title in enumerate(table.titles):
        texts = {row[i] for row in table.texts}
        if any(map(str.strip, texts)) and not (title in _SCOPES and len(texts) == 1):
            columns.append(i)
    rows = tuple(tuple(row[i] for i in columns) for row in table.rows)
    return replace(table, titles=tuple(table.titles[i] for i in columns), rows=rows)


def fitted_table(table: Table, width: int) -> Text:
    """The table with state colours, its widest columns cut where it would be wider than `width`."""
    widths = fitted([cell_len(title) for title in table.shown_titles], table.texts, width)
    shown = Text(no_wrap=True)
    for row, style in [(table.shown_titles, "bold"), *((row, "") for row in table.texts)]:
        if shown:
            shown.append("\n")
        for i, (text, column, is_number) in enumerate(zip(row, widths, table.numeric, strict=True)):
            shown.append(" " * _GAP if i else "")
            shown.append(_in_column(text, column, is_number=is_number), style or STATE_STYLES.get(text))
    return shown


def _in_column(text: str, width: int, *, is_number: bool) -> str:
    """A cell as wide as its column, a number at the right end."""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    padding = " " * (width - cell_len(text))
    return padding + text if is_number else text + padding


def fitted(titles: Sequence[int], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The widths of columns that fit: the widest is cut first, and the first column, a name, last."""
    widths = [max([title, *(cell_len(row[i]) for row in rows)]) for i, title in enumerate(titles)]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    while excess > 0 and (long := [i for i, width in enumerate(widths) if width > MIN_COLUMN]):
        widest = max([i for i in long if i] or long, key=widths.__getitem__)
        widths[widest] -= 1
        excess -= 1
    return widths


def _print_object(result: Result, stream: TextIO) -> None:
    """One resource as a line per fact; data without columns as YAML."""
    from batchai_magics.commands.output.table_columns import columns_of

    if not columns_of(result.resolved):
        print(Result(_without_empty(result.data)).to_text("yaml"), file=stream)
        return
    (row,) = result.table.texts
    facts = {title: text for title, text in zip(result.table.shown_titles, row, strict=True) if text.strip()}
    errors: Sequence[ErrorDetail] = getattr(result.resolved, "errors", ())
    problems = [Text(visible_lines(error.text), "red") for error in errors]
    console_for(stream).print(Text("\n").join([_facts(facts), *problems]), soft_wrap=True)


def _without_empty(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _without_empty(value) for key, value in data.items() if value not in (None, "", [], {})}
    return [_without_empty(item) for item in data] if isinstance(data, list) else data


def read_overview(job: Job) -> JobOverview:
    """The overview of a job for its text, from the ends of its logs."""
    from batchai_magics.jobs.job_overview import short_overview

    return short_overview(job)


def job_text(overview: JobOverview) -> Text:
    """A job in short text: state, nodes, headline metric, first failure, and how to see its log."""
    job = overview.job
    facts = {
        label if label in overview.metrics else label.capitalize(): text
        for label, text in overview.details.items()
        if text
    }
    shown = [
        Text.assemble(
            (job.id.name, "bold"), "  ", (job.word, STATE_STYLES.get(job.word, "")), f"  {overview.title}"
        ),
        _facts(facts),
        *(Text(visible_lines(problem), "red") for problem in overview.problems),
        *(Text(visible_lines(f"  {line}")) for line in overview.failure_lines),
        *(Text(visible_lines(f"Warning: {warning}"), "yellow") for warning in overview.warnings),
        Text(f"Log: {resume_command(job.id, 'logs')}{'' if job.state.is_final else ' -f'}", "dim"),
    ]
    return Text("\n").join(shown)


def _facts(facts: Mapping[str, str]) -> Text:
    """A line per fact: its label, then its text, all texts aligned."""
    width = max(map(len, facts), default=0) + _GAP
    return Text("\n").join(
        Text.assemble((label.ljust(width), "dim"), (visible_lines(text), STATE_STYLES.get(text, "")))
        for label, text in facts.items()
    )
