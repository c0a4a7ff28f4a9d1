"""The tables of a comparison and a scaling study: few columns, nothing truncated."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from batchai_magics.metrics.runs.metric_summary import MetricSummary
from batchai_magics.metrics.runs.run_metrics import RATE

_Row = Mapping[str, Any]
_Column = tuple[str, list[str]]  # a title and the cells of runs

_FRAME = "max-width:100%;overflow-x:auto"
_TABLE = "border-collapse:collapse;margin:0;table-layout:auto"
_PADDING = "padding:3px min(10px,.6vw)"  # closer together on a narrow page
_LABEL = f"{_PADDING};text-align:left;vertical-align:top"
_SHORT = f"{_PADDING};text-align:right;vertical-align:top;white-space:nowrap"
_LONG = f"{_PADDING};text-align:right;vertical-align:top;min-width:5.5em;overflow-wrap:anywhere"
_CAPTION = "margin:0 0 4px;color:var(--jp-ui-font-color2,#777)"
_BELOW = "<br><span style='color:var(--jp-ui-font-color2,#777);font-weight:normal'>{}</span>"
_MOST_SHORT = 9  # letters that never wrap


ComparisonTable: TypeAlias = tuple[str, list[str], list[list[str]]]
"""A caption, the titles of columns and the cells of runs; the second line of a cell is less important."""


def comparison_table(
    rows: Sequence[_Row],
    metrics: Sequence[Sequence[MetricSummary]],
    tags: Sequence[Sequence[str]],
    *,
    parameters: Sequence[str] = (),
    best: Mapping[str, int | None],
) -> ComparisonTable:
    """A table with one row per run from the rows and metrics of a `Comparison`; empty columns are omitted.

    What all runs have in common is in the caption. The best value of a metric is marked with a star.

    Args:
        rows: The rows.
        metrics: The metrics of each run.
        tags: The tags of each run.
        parameters: The columns of parameters, which come first.
        best: Name of a metric → the index of the run with the best value.
    """
    setup = _columns_of(map(_setup_cells, rows))
    common = {title: cells[0] for title, cells in setup if len(rows) > 1 and len(set(cells)) == 1}
    columns = [
        *((name, ["" if row[name] is None else str(row[name]) for row in rows]) for name in parameters),
        *((title, cells) for title, cells in setup if title not in common),
        *_metric_columns(rows, metrics, best),
        *_columns_of(map(_result_cells, rows)),
        ("tags", [", ".join(run_tags) for run_tags in tags]),
    ]
    filled = [(title, cells) for title, cells in columns if any(cells)]
    lines = [[row["run"], *(cells[index] for _, cells in filled)] for index, row in enumerate(rows)]
    caption = ", ".join(f"{title} {text}" for title, text in common.items() if text)
    return caption, ["run", *(title for title, _ in filled)], lines


def _columns_of(rows: Iterable[Mapping[str, str]]) -> list[_Column]:
    cells = [*rows]
    return [(title, [row[title] for row in cells]) for title in cells[0]]


def _setup_cells(row: _Row) -> dict[str, str]:
    """What was trained with, by title."""
    in_all, per_device = row["batch_size_global"], row["batch_size_per_device"]
    sizes = (f"{in_all:,}" if in_all else "", f"{per_device:,} per device" if per_device else "")
    return {
        "model": row["model"] or "",
        "dataset": row["dataset"] or "",
        "processes": _number_text(row["processes"]),
        "devices": _number_text(row["devices"]),
        "batch size": f"{sizes[0]} ({sizes[1]})" if all(sizes) else "".join(sizes),
    }


def _result_cells(row: _Row) -> dict[str, str]:
    """How fast it was, by title; a total of one rank alone is labelled with it."""
    whose = f" of {row['total_of']}" if row["total_of"] else ""
    return {
        "steps": _number_text(row["steps"]),
        "per process": _number_text(row["per_process"], ",.1f"),
        "total images/sec": _number_text(row["total_images_per_sec"], ",.1f", whose),
        "speed-up": _number_text(row["speedup"], ".2f", " ×"),
        "skew between ranks": _number_text(row["skew"], ".1%"),
        "stragglers": f"rank {row['stragglers']}" if row["stragglers"] else "",
    }


def _number_text(number: float | None, form: str = ",", unit: str = "") -> str:
    """A number with its unit; empty without one."""
    return f"{number:{form}}{unit}" if number else ""


def comparison_html(
    caption: str, titles: Sequence[str], rows: Sequence[Sequence[str]], sentences: Sequence[str] = ()
) -> str:
    """A `ComparisonTable` as HTML, with sentences below it."""
    above = f"<div style='{_CAPTION}'>{html.escape(caption)}</div>" if caption else ""
    below = (f"<div>{html.escape(sentence)}</div>" for sentence in sentences)
    return "".join((above, _table(titles, rows), *below))


def _metric_columns(
    rows: Sequence[_Row], metrics: Sequence[Sequence[MetricSummary]], best: Mapping[str, int | None]
) -> Iterator[_Column]:
    """A column for each metric, in the order of `best`."""
    by_run = [{metric.name: metric for metric in run_metrics} for run_metrics in metrics]
    for name in best:
        label = next(by_name[name].label for by_name in by_run if name in by_name)
        cells = (_metric_cell(row, by_name.get(name)) for row, by_name in zip(rows, by_run, strict=True))
        yield label, [f"{text} ★" if index == best[name] else text for index, text in enumerate(cells)]


def _metric_cell(row: _Row, metric: MetricSummary | None) -> str:
    if metric is None:
        return ""
    if metric.name == RATE and row["uncertainty"] is not None:
        return _with_error(row["images_per_sec"], row["uncertainty"])
    if metric.name == "loss" and row["has_nan"]:
        return f"{metric.value_text}, NaN seen"
    return metric.text.removesuffix(" (best)")


def scaling_html(rows: Sequence[_Row], rate: str, label: str) -> str:
    """A table with one row per model and number of processes, from the rows of a `Scaling`.

    Args:
        rows: The rows.
        rate: The field with the rate.
        label: Its title.
    """
    titles = ["model", "processes", label, "speed-up", "efficiency"]
    lines = [
        [
            f"{row['model']}\n{', '.join(row['runs'])}",
            f"{row['processes']:,}",
            _with_error(row[rate], row["uncertainty"]),
            f"{row['speedup']:.2f} ×",
            _with_error(row["efficiency_percent"], row["efficiency_uncertainty"], " %"),
        ]
        for row in rows
    ]
    return _table(titles, lines)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = _line(["th"] * len(titles), titles)
    body = "".join(_line(["th", *["td"] * (len(row) - 1)], row) for row in rows)
    table = f"<table style='{_TABLE}'><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f"<div style='{_FRAME}'>{table}</div>"


def _line(tags: Sequence[str], texts: Sequence[str]) -> str:
    """Cells: first a label, then texts whose second line is in a muted colour."""
    cells = []
    for index, (tag, text) in enumerate(zip(tags, texts, strict=True)):
        style = (_SHORT if len(text) <= _MOST_SHORT else _LONG) if index else _LABEL
        first, _, second = text.partition("\n")
        below = _BELOW.format(html.escape(second)) if second else ""
        cells.append(f"<{tag} style='{style}'>{html.escape(first)}{below}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"


def _with_error(value: float | None, error: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    return f"{value:,.1f}{f' ± {error:,.1f}' if error else ''}{unit}"
