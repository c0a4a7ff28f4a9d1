"""A run's numbers as a card shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchai_magics.metrics import Record, summarize

MOST_RATES = 8


def numbers_of(records: Sequence[Record]) -> dict[str, str]:
    """The numbers of a log by label; empty while there are none."""
    if not records:
        return {}
    summary = summarize(records)
    rate = summary.total_images_per_sec or summary.images_per_sec
    found = {
        "images/sec": f"{rate:,.1f}" if rate else "",
        "by rank": _by_rank(summary.rates or {}),
        "steps": f"{summary.steps:,}" if summary.steps else "",
        "last loss": f"{summary.last_loss:.3f}" if summary.last_loss is not None else "",
        "model": summary.model or "",
        "batch size": str(summary.batch_size_global or ""),
    }
    return {label: text for label, text in found.items() if text}


def _by_rank(rates: Mapping[int, float]) -> str:
    if len(rates) < 2:
        return ""
    if len(rates) > MOST_RATES:
        return f"{min(rates.values()):,.1f} to {max(rates.values()):,.1f}"
    return ", ".join(f"{rank}: {rate:,.1f}" for rank, rate in rates.items())
