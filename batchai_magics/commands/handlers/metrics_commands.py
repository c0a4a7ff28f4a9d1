"""`batchai metrics …`, `compare` and `scaling`: metrics of log files, and jobs or logs side by side."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.command_result import ChartResult, ValueWithNotes
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import NotFoundError, visible_lines
from batchai_magics.metrics.charts.figure import figure_path
from batchai_magics.metrics.measurement import TOTAL, Fact, json_value
from batchai_magics.metrics.runs import comparison
from batchai_magics.metrics.runs import scaling as scalability
from batchai_magics.metrics.runs.compared_runs import Comparable, run_names
from batchai_magics.metrics.runs.comparison import Comparison
from batchai_magics.metrics.runs.log_metrics import LogMetrics, read_log
from batchai_magics.metrics.runs.log_runs import on_timeline, without_repeated
from batchai_magics.metrics.runs.number_frames import (
    POSITIONS,
    TIDY_COLUMNS,
    line_rows,
    numbers,
    tidy_row,
)
from batchai_magics.metrics.runs.scaling import Scaling

if TYPE_CHECKING:
    from batchai_magics.metrics.runs.metric_traits import MetricPreferences
    from batchai_magics.metrics.runs.run_summary import Summary

_KIND, _SUMMARY = "kind", "summary"
_DIGITS = 15  # significant digits that hide floating-point noise


@dataclass(frozen=True)
class MetricsTable(Table):
    """A table of metrics with the summary of each log below it."""

    summaries: tuple[Summary, ...] = ()

    def to_text(self) -> str:
        """The table followed by the summaries."""
        return visible_lines("\n\n".join((super().to_text(), *map(str, self.summaries))))

    @cached_property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The cells as display text with rounded numbers; `rows` have every digit."""
        return Table(self.titles, tuple(map(_rounded, self.rows))).texts

    @property
    def footers(self) -> Sequence[Summary]:
        """The summaries."""
        return self.summaries

    def with_files(self, names: Sequence[str]) -> MetricsTable:
        """The same with a leading column of file names."""
        rows = tuple((name, *row) for name, row in zip(names, self.rows, strict=True))
        return replace(self, titles=("file", *self.titles), rows=rows)


@dataclass(frozen=True)
class MetricsResult:
    """The metrics of one or several logs, with their file names as given."""

    logs: tuple[tuple[str, LogMetrics], ...]
    is_tidy: bool = False

    def to_data(self) -> Any:
        """`records`, `total_images_per_sec` and `summary`; for several logs a list of these with `file`."""
        data = [{**log_data, "records": [*log_data["records"]]} for log_data in self._logs_data()]
        return data[0] if len(data) == 1 else data

    def streamed_data(self) -> Any:
        """The same, with iterators of the records."""
        return next(self._logs_data()) if len(self.logs) == 1 else self._logs_data()

    def to_table(self) -> Table:
        """Lines and totals in file order, then the summary; with `is_tidy`, one row per number."""
        files, rows = [], list[Mapping[str, Any]]()
        for name, log in self.logs:
            for row in self._rows(log):
                files.append(name)
                rows.append(row)
        others = dict.fromkeys(title for row in rows for title in row if title not in (*POSITIONS, _KIND))
        titles = TIDY_COLUMNS if self.is_tidy else (*POSITIONS, *others, _KIND)
        summaries = tuple(log.summary() for _, log in self.logs)
        cells = tuple(tuple(json_value(row.get(title)) for title in titles) for row in rows)
        report = MetricsTable(titles, cells, summaries)
        return report.with_files(files) if len(self.logs) > 1 else report

    def _rows(self, log: LogMetrics) -> Iterator[dict[str, Any]]:
        return _tidy_rows(log) if self.is_tidy else _rows(log)

    def _logs_data(self) -> Iterator[dict[str, Any]]:
        """The data of each log, with an iterator of its records."""
        for name, log in self.logs:
            file = {"file": name} if len(self.logs) > 1 else {}
            rows = _tidy_rows(log) if self.is_tidy else line_rows(log.table)
            yield {**file, "records": map(json_value, rows), **log.totals()}


def read(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The metrics in log files, in file order, with notes about what was not read, and logs without any."""
    logs = tuple(_logs(arguments, _preferences(context)))
    notes = (
        (f"{name}: {notice}" if len(logs) > 1 else notice)
        for name, log in logs
        for notice in log.notices or (() if len(log.table) else ("The log has no metrics.",))
    )
    return ValueWithNotes(MetricsResult(logs, arguments.tidy), tuple(notes))


def plot(context: Context, arguments: Namespace) -> ChartResult:
    """The chart of one or several logs, saved to a file or displayed."""
    target = figure_path(arguments.out) if arguments.out else None
    preferences = _preferences(context)
    first, *others = logs = [log for _, log in _logs(arguments, preferences)]
    if not others:
        return ChartResult.of(first.plot(), target)
    runs = dict(zip(run_names(arguments.file), logs, strict=True))
    return ChartResult.of(comparison.compare(runs, preferences=preferences).plot(), target)


def _preferences(context: Context) -> MetricPreferences:
    from batchai_magics.jobs.metric_settings import metric_preferences  # imports the registry of backends

    return metric_preferences(context.settings)


def _logs(arguments: Namespace, preferences: MetricPreferences) -> Iterator[tuple[str, LogMetrics]]:
    patterns: Mapping[str, str] = {}
    if arguments.metric:
        from batchai_magics.options import job_options

        patterns = job_options.patterns("--metric", arguments.metric)
    for name in arguments.file:
        yield name, read_log(Path(name).expanduser(), patterns, preferences)


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Rounds a row for display; summary rows to three decimals."""
    is_summary = row[-1] == _SUMMARY
    return tuple(
        cell
        if not isinstance(cell, float)
        else round(cell, 3)
        if is_summary
        else float(f"{cell:.{_DIGITS}g}")
        for cell in row
    )


def _rows(log: LogMetrics) -> Iterator[dict[str, Any]]:
    for is_fact, records in groupby(without_repeated(log.table), key=lambda record: isinstance(record, Fact)):
        if not is_fact:
            yield from ({_KIND: "line", **row} for row in line_rows(records))
        for fact in records:
            if isinstance(fact, Fact) and fact.key == TOTAL:
                yield {_KIND: "total", "rank": fact.rank, "images_per_sec": float(fact.value)}
    summary = log.summary()
    if summary.steady:
        yield {_KIND: _SUMMARY, "step": summary.steps, **asdict(summary.steady), "loss": summary.last_loss}


def _tidy_rows(log: LogMetrics) -> Iterator[dict[str, Any]]:
    return map(tidy_row, numbers(on_timeline(log.table)))


@dataclass(frozen=True)
class ComparedTable(Table):
    """A row per run, with a star after the best value of each metric; `best`: title → index of its row."""

    best: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The cells as display text."""
        rows = Table(self.titles, self.rows).texts
        return tuple(
            tuple(f"{text} ★" if self.best.get(title) == index else text for title, text in cells)
            for index, cells in enumerate(zip(self.titles, row, strict=True) for row in rows)
        )


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
        cells = [[_rounded_cell(row[title]) for title in titles] for row in rows]
        best = self._best(titles)
        if not any(self._tags):
            return ComparedTable(titles, tuple(map(tuple, cells)), best)
        tagged = ((*row, tags) for row, tags in zip(cells, self._tags, strict=True))
        return ComparedTable((*titles, "tags"), tuple(tagged), best)

    def _best(self, titles: Sequence[str]) -> dict[str, int]:
        """The index of each metric's best run, by the title of the column with its value."""
        if not isinstance(self.in_notebook, Comparison):
            return {}
        best: dict[str, int] = {}
        for metric in self.in_notebook.traits:
            columns = (f"best_{metric.name}", metric.name, f"last_{metric.name}")
            title = next((column for column in columns if column in titles), "")
            index = self.in_notebook.best_run(metric)
            if title and index is not None:
                best[title] = index
        return best

    @property
    def _tags(self) -> list[str]:
        """The tags of each run; empty for a study of scaling."""
        runs = self.in_notebook.runs if isinstance(self.in_notebook, Comparison) else ()
        return [", ".join(run.labels.tags) for run in runs]


def compare(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Compares runs; with `--plot`, also saves their chart. Notes describe groups that differ in seeds."""
    target = figure_path(arguments.plot) if arguments.plot else None
    runs = comparison.compare(_sources(context, arguments), preferences=_preferences(context))
    if target:
        runs.save(target, over=arguments.over)
    return ValueWithNotes(ComparisonResult(runs), tuple(runs.seed_groups().sentences()))


def scaling(context: Context, arguments: Namespace) -> ComparisonResult:
    """The scaling of the runs' speed with their processes; with `--plot`, also saves the chart."""
    target = figure_path(arguments.plot) if arguments.plot else None
    result = scalability.scaling(_sources(context, arguments), metric=arguments.metric or "")
    if target:
        result.save(target)
    return ComparisonResult(result)


def _sources(context: Context, arguments: Namespace) -> list[Comparable]:
    """A log file for each word with a dot or slash, which job names cannot contain; else the job."""
    sources = list[Comparable]()
    for word in arguments.run:
        if "." in word or "/" in word:
            sources.append(word)
            continue
        from batchai_magics.jobs.submit import find

        try:
            sources.append(find(context.backend, word, context.settings_for(arguments)))
        except NotFoundError as error:
            is_file = Path(word).is_file()
            hint = f"To read the file {word}, write ./{word}" if is_file else error.hint
            raise NotFoundError(error.message, code=error.code, hint=hint) from None
    return sources


def _json_cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return ", ".join(value)
    return json_value(value)


def _rounded_cell(value: Any) -> Any:
    """A number rounded to three decimals, below one to three digits; anything else as it is."""
    if not isinstance(value, float):
        return value
    return round(value, 3) if abs(value) >= 1 else float(f"{value:.3g}")
