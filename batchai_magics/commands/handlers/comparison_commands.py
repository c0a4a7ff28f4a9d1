"""`batchai compare` and `batchai scaling`: comparison of several jobs or logs."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import NotFoundError
from batchai_magics.metrics.charts.figure import figure_path
from batchai_magics.metrics.measurement import json_value
from batchai_magics.metrics.runs import comparison
from batchai_magics.metrics.runs import scaling as scalability
from batchai_magics.metrics.runs.compared_runs import Comparable
from batchai_magics.metrics.runs.comparison import Comparison
from batchai_magics.metrics.runs.scaling import Scaling


@dataclass(frozen=True)
class ComparisonResult:
    """A comparison as table and data; notebooks display the comparison itself."""

    in_notebook: Comparison | Scaling

    def to_data(self) -> Any:
        """One object per row; non-finite numbers are strings."""
        return [{name: _json_cell(value) for name, value in row.items()} for row in self.in_notebook.rows()]

    def to_table(self) -> Table:
        """The same with rounded numbers, and the tags of the runs."""
        rows = self.to_data()
        titles = tuple(rows[0]) if rows else tuple(self.in_notebook.frame().reset_index().columns)
        titles = (
            tuple(title for title in titles if any(row[title] not in (None, "") for row in rows)) or titles
        )
        cells = [[_rounded(row[title]) for title in titles] for row in rows]
        if not any(self._tags):
            return Table(titles, tuple(map(tuple, cells)))
        tagged = ((*row, tags) for row, tags in zip(cells, self._tags, strict=True))
        return Table((*titles, "tags"), tuple(tagged))

    @property
    def _tags(self) -> list[str]:
        """The tags of each run; none of a study of scaling."""
        runs = self.in_notebook.runs if isinstance(self.in_notebook, Comparison) else ()
        return [", ".join(run.labels.tags) for run in runs]


def compare(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Compares runs; with `--plot`, also saves their chart. Notes tell of groups that differ in seeds."""
    target = figure_path(arguments.plot) if arguments.plot else None
    from batchai_magics.jobs.metric_settings import metric_preferences  # imports the registry of backends

    preferences = metric_preferences(context.settings)
    runs = comparison.compare(_sources(context, arguments), preferences=preferences)
    if target:
        runs.save(target, over=arguments.over)
    return ValueWithNotes(ComparisonResult(runs), tuple(runs.seed_groups().sentences()))


def scaling(context: Context, arguments: Namespace) -> ComparisonResult:
    """The scaling of the runs' speed with their processes; with `--plot`, also saves the chart."""
    target = figure_path(arguments.plot) if arguments.plot else None
    growth = scalability.scaling(_sources(context, arguments), metric=arguments.metric or "")
    if target:
        growth.save(target)
    return ComparisonResult(growth)


def _sources(context: Context, arguments: Namespace) -> list[Comparable]:
    return [_source(context, arguments, word) for word in arguments.run]


def _source(context: Context, arguments: Namespace, word: str) -> Comparable:
    """The log file for a word with a dot or slash, which job names cannot contain; else the job."""
    if "." in word or "/" in word:
        return word
    from batchai_magics.jobs.submit import find

    try:
        return find(context.backend, word, context.settings_for(arguments))
    except NotFoundError as error:
        is_file = Path(word).is_file()
        hint = f"To read the file {word}, write ./{word}" if is_file else error.hint
        raise NotFoundError(error.message, code=error.code, hint=hint) from None


def _json_cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return ", ".join(value)
    return json_value(value)


def _rounded(value: Any) -> Any:
    """Three decimals, of numbers below one three digits."""
    if not isinstance(value, float):
        return value
    return round(value, 3) if abs(value) >= 1 else float(f"{value:.3g}")
