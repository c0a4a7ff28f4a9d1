"""HTML tables of a comparison and a scaling study: few columns, nothing truncated."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from batchai_magics.metrics.runs.metric_summary import MetricSummary

_NAMED = ("images_per_sec", "loss")
_Row = Mapping[str, Any]

_FRAME = "max-width:100%;overflow-x:auto"
_TABLE = "border-collapse:collapse;margin:0;table-layout:auto"
_PADDING = "padding:3px min(10px,.6vw)"  # closer together on a narrow page
_LABEL = f"{_PADDING};text-align:left;vertical-align:top"
_SHORT = f"{_PADDING};text-align:right;vertical-align:top;white-space:nowrap"
_LONG = f"{_PADDING};text-align:right;vertical-align:top;min-width:5.5em;overflow-wrap:anywhere"
_BELOW = "<br><span style='color:var(--jp-ui-font-color2,#777);font-weight:normal'>{}</span>"
_MOST_SHORT = 9  # letters that never wrap


def comparison_html(
    rows: Sequence[_Row], metrics: Sequence[Sequence[MetricSummary]], *, parameters: Sequence[str] = ()
) -> str:
    """A table with one column per run from the rows and metrics of a `Comparison`; empty rows are omitted.

    `parameters` are the columns of parameters, which come first.
    """
    given = ((name, ["" if row[name] is None else str(row[name]) for row in rows]) for name in parameters)
    texts = ((label, [text_of(row) for row in rows]) for label, text_of in _OF_RUN)
    lines = [(label, cells) for label, cells in (*given, *texts, *_metric_rows(metrics)) if any(cells)]
    return _table(["", *(row["run"] for row in rows)], [[label, *cells] for label, cells in lines])


def _metric_rows(metrics: Sequence[Sequence[MetricSummary]]) -> Iterator[tuple[str, list[str]]]:
    """The rows of metrics that have no row of their own."""
    others = [[metric for metric in every if metric.name not in _NAMED] for every in metrics]
    by_run = [{metric.label: metric.text for metric in every} for every in others]
    for label in dict.fromkeys(label for texts in by_run for label in texts):
        yield label, [texts.get(label, "") for texts in by_run]


def scaling_html(rows: Sequence[_Row], rate: str, label: str) -> str:
    """A table with one row per model and number of processes, from the rows of a `Scaling`.

    Args:
        rows: The rows.
        rate: The field with the rate.
        label: Its title.
    """
    titles = [label if title == _RATE_TITLE else title for title in _OF_POINT]
    lines = [[text_of({**row, _RATE: row[rate]}) for text_of in _OF_POINT.values()] for row in rows]
    return _table(
        titles,
        [
            [f"{model}\n{', '.join(row['runs'])}", *rest]
            for row, (model, *rest) in zip(rows, lines, strict=True)
        ],
    )


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = _line(["th"] * len(titles), titles)
    body = "".join(_line(["th", *["td"] * (len(row) - 1)], row) for row in rows)
    table = f"<table style='{_TABLE}'><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f"<div style='{_FRAME}'>{table}</div>"


def _line(tags: Sequence[str], texts: Sequence[str]) -> str:
    cells = (
        f"<{tag} style='{_style(place, text)}'>{_cell(text)}</{tag}>"
        for place, (tag, text) in enumerate(zip(tags, texts, strict=True))
    )
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: str) -> str:
    """A text with an optional second line in a muted colour."""
    first, _, second = text.partition("\n")
    return html.escape(first) + (_BELOW.format(html.escape(second)) if second else "")


def _style(place: int, text: str) -> str:
    if not place:
        return _LABEL
    return _SHORT if len(text) <= _MOST_SHORT else _LONG


def _with_error(value: float | None, error: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    return f"{value:,.1f}{f' ± {error:,.1f}' if error else ''}{unit}"


def _batch(row: _Row) -> str:
    whole, each = row["batch_size_global"], row["batch_size_per_device"]
    sizes = (f"{whole:,}" if whole else "", f"{each:,} per device" if each else "")
    return f"{sizes[0]} ({sizes[1]})" if all(sizes) else "".join(sizes)


def _loss(row: _Row) -> str:
    first, last, trend = row["first_loss"], row["last_loss"], row["loss_trend"]
    if first is None or last is None:
        return ""
    return f"{first:.3f} to {last:.3f}{f', {trend}' if trend else ''}"


def _number(name: str, form: str = ",") -> Callable[[_Row], str]:
    return lambda row: format(row[name], form) if row[name] else ""


_OF_RUN: tuple[tuple[str, Callable[[_Row], str]], ...] = (
    ("model", lambda row: row["model"] or ""),
    ("dataset", lambda row: row["dataset"] or ""),
    ("processes", _number("processes")),
    ("devices", _number("devices")),
    ("batch size", _batch),
    ("steps", _number("steps")),
    ("warm-up steps", _number("warm_up_steps")),
    ("images/sec", lambda row: _with_error(row["images_per_sec"], row["uncertainty"])),
    ("jitter", _number("jitter", ",.1f")),
    ("per process", _number("per_process", ",.1f")),
    ("total images/sec", _number("total_images_per_sec", ",.1f")),
    ("speed-up", lambda row: f"{row['speedup']:.2f} ×" if row["speedup"] else ""),
    ("skew between ranks", _number("skew", ".1%")),
    ("stragglers", lambda row: f"rank {row['stragglers']}" if row["stragglers"] else ""),
    ("loss", _loss),
    ("NaN or infinite loss", lambda row: "seen" if row["has_nan"] else ""),
)
_RATE, _RATE_TITLE = "images_per_sec", "images/sec"
_OF_POINT: Mapping[str, Callable[[_Row], str]] = {
    "model": lambda row: row["model"],
    "processes": lambda row: f"{row['processes']:,}",
    "images/sec": lambda row: _with_error(row["images_per_sec"], row["uncertainty"]),
    "speed-up": lambda row: f"{row['speedup']:.2f} ×",
    "efficiency": lambda row: _with_error(row["efficiency_percent"], row["efficiency_uncertainty"], " %"),
}
