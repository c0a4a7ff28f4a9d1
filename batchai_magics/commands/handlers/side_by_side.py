"""`batchai compare` and `batchai scaling`: several jobs or logs side by side."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchai_magics.commands.context import Context
from batchai_magics.commands.output.table import Table
from batchai_magics.errors import NotFoundError
from batchai_magics.metrics.charts.figure import figure_path
from batchai_magics.metrics.json_values import json_value
from batchai_magics.metrics.runs import comparison
from batchai_magics.metrics.runs import scaling as scalability
from batchai_magics.metrics.runs.compared_runs import Comparable
from batchai_magics.metrics.runs.comparison import Comparison
from batchai_magics.metrics.runs.scaling import Scaling


@dataclass(frozen=True)
class SideBySide:
    """Runs side by side as a table and as data; a notebook shows and keeps them as they are."""

    in_notebook: Comparison | Scaling

    def to_data(self) -> Any:
        """One object a row; a number that is not finite is a word."""
        return [{name: _plain(value) for name, value in row.items()} for row in self.in_notebook.rows()]

    def to_table(self) -> Table:
        """The same, numbers rounded."""
        rows = self.to_data()
        titles = tuple(self.in_notebook.frame().reset_index().columns) if not rows else tuple(rows[0])
        return Table(titles, tuple(tuple(_rounded(row[title]) for title in titles) for row in rows))


def compare(context: Context, arguments: Namespace) -> SideBySide:
    """The runs side by side, their chart written to a file if one is named."""
    target = figure_path(arguments.plot) if arguments.plot else None
    runs = comparison.compare(_sources(context, arguments))
    if target:
        runs.save(target, over=arguments.over)
    return SideBySide(runs)


def scaling(context: Context, arguments: Namespace) -> SideBySide:
    """How the runs' speed grows with their processes, the figure written to a file if one is named."""
    target = figure_path(arguments.plot) if arguments.plot else None
    growth = scalability.scaling(_sources(context, arguments))
    if target:
        growth.save(target)
    return SideBySide(growth)


def _sources(context: Context, arguments: Namespace) -> list[Comparable]:
    return [_source(context, arguments, word) for word in arguments.run]


def _source(context: Context, arguments: Namespace, word: str) -> Comparable:
    """The log file if the word has a dot or a slash, which no name of a job has; else the job."""
    if "." in word or "/" in word:
        return word
    from batchai_magics.jobs.submit import find

    try:
        return find(context.backend, word, context.under(arguments))
    except NotFoundError as error:
        is_file = Path(word).is_file()
        hint = f"To read the file {word}, write ./{word}" if is_file else error.hint
        raise NotFoundError(error.message, code=error.code, hint=hint) from None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return ", ".join(value)
    return json_value(value)


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value
