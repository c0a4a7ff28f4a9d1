"""The page of all jobs, 1,000 of them: what one changed job costs the server, and the page in Chromium."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator

from batchai_magics.widgets.dashboards.jobs_dashboard import AllJobsModel, JobsStream
from batchai_magics.widgets.hosts.page_server import PageConnection
from benchmarks.row import Row, table
from benchmarks.views.compare import UPDATES, first_messages, measured
from tests.widgets.scripted_cluster import EXPERIMENT, ExecutionState, ScriptedCluster, ScriptedLabels

JOBS = 1000
FIRST_PAINT_MS, UPDATE_MS = 500, 10  # the longest that they may take
CHANGE = """
state.rows = state.rows.map((row, k) => (k ? row : { ...row, exit_code: i % 2 }));
tell('change:rows');
const { name } = state.rows[0];
update.rates[name] = { ...update.rates[name], values: [1, 2, i], last: i };
tell('msg:custom', structuredClone(update));
"""


def rows(jobs: int = JOBS, updates: int = UPDATES) -> Iterator[Row]:
    """The times against the longest that they may take."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = times_ms(folder, jobs, updates)
    yield Row(f"{jobs:,} jobs in a page: first paint", found["first"], "at most", FIRST_PAINT_MS, "ms")
    yield Row(f"{jobs:,} jobs in a page: update of one", found["update"], "at most", UPDATE_MS, "ms")
    yield Row(f"{jobs:,} jobs in the server: update of one", found["server"], "at most", UPDATE_MS, "ms")


def times_ms(folder: str, jobs: int, updates: int) -> dict[str, float]:
    """What a change of one job takes in the server and in the page, and the first paint there."""
    place = ScriptedCluster(folder)  # type: ignore[abstract]  # nothing is created there
    place.records = ScriptedLabels()
    for number in range(jobs):
        place.run(f"job-{number}", ExecutionState.SUCCEEDED, rates=[100, 200, 100 + number])
        place.records.tag(f"job-{number}", "sweep:tune", lr=number / jobs, batch=32 << number % 3)
    now_s = 0.0
    model = AllJobsModel(place, EXPERIMENT, clock=lambda: now_s)
    while model.poll() or model.is_behind:
        pass
    stream = JobsStream(model, work=lambda task: task(), clock=time.monotonic)
    PageConnection(stream)
    messages = first_messages(stream)
    began = time.process_time()
    for number in range(updates):
        place.run(f"job-{jobs - 1}", ExecutionState.SUCCEEDED, rates=[number + 1])
        now_s += 1
        model.poll()
        stream.send_next(1 << 20)
    server_ms = (time.process_time() - began) * 1000 / updates
    state = {**stream.state, "view_id": "bench"}
    found = measured(
        "jobs_dashboard", state, messages, messages[0], CHANGE, updates=updates, shown="tbody tr"
    )
    assert found["rows"] == min(jobs, 100)
    return {"server": server_ms, "update": found["update"], "first": found["first"]}


if __name__ == "__main__":
    print(table(rows()))
