"""A sweep with 1,000 and 10,000 trials: what one changed trial costs the kernel, and the page in Chromium."""

from __future__ import annotations

import time
from collections.abc import Iterator

from batchai_magics.config import Settings
from batchai_magics.jobs.job_costs import JobCosts
from batchai_magics.metrics.runs.metric_traits import Direction
from batchai_magics.widgets.comparison.sweep_view import (
    SweepModel,
    SweepStream,
    SweepUpdate,
    TrialMetric,
    TrialRow,
    curve_of,
)
from batchai_magics.widgets.core.view_stream import Batch, PageData
from benchmarks.row import Row, table
from benchmarks.views.compare import UPDATES, first_messages, measured

SIZES = (1000, 10_000)
CHANGE = """
update.rows[0][4] = update.rows[0][5] = update.rows[0][11][0] = 0.5 + i / 1000;
tell('msg:custom', structuredClone(update));
state.facts = { ...state.facts, cost: `${i} USD` };
tell('change:facts');
"""


def rows(sizes: tuple[int, int] = SIZES, updates: int = UPDATES) -> Iterator[Row]:
    """The times of both sizes, beside each other."""
    small, large = (times_ms(size, updates) for size in sizes)
    for name, label in (("kernel", "in the kernel"), ("update", "in the page"), ("first", "first paint")):
        yield Row(f"{sizes[1]:,} trials, {label}", large[name], f"{sizes[0]:,} trials", small[name], "ms")


def times_ms(count: int, updates: int) -> dict[str, float]:
    """What a change of one trial takes in the kernel and in the page, and the first paint there."""
    model = SweepModel(_NoSweep(), JobCosts(None, Settings()))
    model.take(update_of([trial(n, 1 / n) for n in range(1, count + 1)]))
    view = SweepStream(model, work=lambda task: task(), clock=time.monotonic, open_jobs=lambda *_: "")
    view.carrier = _Discarded()
    messages = first_messages(view)
    began = time.process_time()
    for n in range(1, updates + 1):
        model.take(update_of([trial(n, 0.5)]))
        view.send_next(1 << 20)
        batch = view.next_message(1 << 20)
    assert batch is not None
    update = batch.content
    kernel_ms = (time.process_time() - began) * 1000 / updates
    state = {"facts": model.facts(), "view_id": "bench"}
    found = measured("sweep_view", state, messages, update, CHANGE, updates=updates)
    return {"kernel": kernel_ms, "update": found["update"], "first": found["first"]}


class _NoSweep:
    name, backend = "bench", None


class _Discarded:
    """Sends a page nothing."""

    is_gone = False

    def transmit(self, message: Batch) -> None:
        pass

    def publish_state(self, state: PageData) -> None:
        pass

    def close(self) -> None:
        pass


def trial(number: int, value: float) -> TrialRow:
    """An ended trial."""
    parameters = (float(f"{10 ** -(number % 5):g}"), 32 << (number % 3))
    started = 1_700_000_000_000
    times = {"started": started, "ended": started + 60_000, "cost": "0.10 USD"}
    read = {"metrics": (1 - value,), "curve": curve_of([value + 1 / step for step in range(1, 100)])}
    name = f"bench-t{number}"
    return TrialRow(number, name, "succeeded", 1, value, value, **times, parameters=parameters, **read)


def update_of(rows: list[TrialRow]) -> SweepUpdate:
    """An update with these trials."""
    head = {"state": "running", "note": "", "parameters": ("lr", "batch"), "metric": "loss", "cost": None}
    metrics = (TrialMetric("accuracy", "accuracy", is_rising=True),)
    return SweepUpdate(**head, direction=Direction.FALLS, metrics=metrics, rows=tuple(rows), is_over=False)


if __name__ == "__main__":
    print(table(rows()))
