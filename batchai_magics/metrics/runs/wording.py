"""A summary in words: as lines of text, and as an HTML table."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchai_magics.metrics.runs.summary import Summary

_MOST_SHOWN = 8


def summary_lines(summary: Summary) -> list[str]:
    """The summary as lines of text; what the log does not tell is left out."""
    rows = _labelled(summary)
    width = max((len(label) for label, _ in rows), default=0)
    return [f"{label.ljust(width)}  {text}" for label, text in rows]


def summary_html(summary: Summary) -> str:
    """The summary as an HTML table, escaped."""
    cells = (
        f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for label, text in _labelled(summary)
    )
    return f"<table><tbody>{''.join(cells)}</tbody></table>"


def _labelled(summary: Summary) -> list[tuple[str, str]]:
    lines = ((label, text_of(summary)) for label, text_of in _LINES)
    return [(label, text) for label, text in lines if text]


def _batch_size(summary: Summary) -> str:
    sizes = (summary.batch_size_global, "global"), (summary.batch_size_per_device, "per device")
    return ", ".join(f"{size:,} {what}" for size, what in sizes if size)


def _devices(summary: Summary) -> str:
    if not summary.devices:
        return ""
    return f"{len(summary.devices)}: {_some(summary.devices)}"


def _processes(summary: Summary) -> str:
    way = f", {summary.variable_update}" if summary.variable_update else ""
    return f"{summary.ranks}{way}" if summary.ranks else ""


def _warm_up(summary: Summary) -> str:
    cut = summary.warm_up_steps
    if cut is None:
        return ""
    return f"to step {cut:,}, left out" if cut else "over before step 1"


def _shares(summary: Summary) -> str:
    shares = (summary.per_process, "per process"), (summary.per_device, "per device")
    return ", ".join(f"{rate:,.1f} {what}" for rate, what in shares if rate)


def _rates_in_words(summary: Summary) -> str:
    rates = summary.rates or {}
    if len(rates) < 2:
        return ""
    if len(rates) > _MOST_SHOWN:
        return f"{min(rates.values()):,.1f} to {max(rates.values()):,.1f}"
    return _rates(rates)


def _rates(rates: Mapping[int, float] | Mapping[str, float]) -> str:
    return ", ".join(f"{name}: {rate:,.1f}" for name, rate in rates.items())


def _stragglers(summary: Summary) -> str:
    rates = summary.rates or {}
    if len(rates) < 2:
        return ""
    reasons = summary.straggler_reasons or {}
    named = [
        f"rank {rank} ({'; '.join(filter(None, (f'{rates[rank]:,.1f}', reasons.get(rank))))})"
        for rank in summary.stragglers
    ]
    return _some(named) or "none significantly slow"


def _loss(summary: Summary) -> str:
    if summary.first_loss is None or summary.last_loss is None:
        return ""
    trend = f", {summary.loss_trend.value}" if summary.loss_trend else ""
    return f"{summary.first_loss:.3f} to {summary.last_loss:.3f}{trend}"


def _some(items: Iterable[str]) -> str:
    every = list(items)
    rest = f", … {len(every) - _MOST_SHOWN} more" if len(every) > _MOST_SHOWN else ""
    return ", ".join(every[:_MOST_SHOWN]) + rest


def _rate(value: float | None) -> str:
    return f"{value:,.2f}" if value else ""


_LINES: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("model", lambda summary: summary.model or ""),
    ("dataset", lambda summary: summary.dataset or ""),
    ("batch size", _batch_size),
    ("devices", _devices),
    ("processes", _processes),
    ("steps", lambda summary: f"{summary.steps:,}" if summary.steps else ""),
    ("warm-up", _warm_up),
    ("steady images/sec", lambda summary: str(summary.steady or "")),
    ("of these", _shares),
    ("total images/sec", lambda summary: _rate(summary.total_images_per_sec)),
    ("by rank", _rates_in_words),
    ("by node", lambda summary: _rates(summary.per_node or {})),
    ("skew", lambda summary: "" if summary.skew is None else f"{summary.skew:.1%} between ranks"),
    ("stragglers", _stragglers),
    ("loss", _loss),
    ("NaN or infinite loss", lambda summary: "seen" if summary.has_nan else ""),
)
