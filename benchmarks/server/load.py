"""How much `batchai serve` takes: requests a second, reads while a hundred watch, memory, uploads against cp.

The server is a process of its own, the clients are threads of this one.
"""

from __future__ import annotations

import json
import math
import sqlite3
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from batchai_magics.models.resource_ids import Kind
from benchmarks.row import Row, table
from benchmarks.server.running import Server, running
from benchmarks.server.transfers import ours, transfers

REQUESTS, CLIENTS = 2000, 4
WATCHERS, WATCH_S = 100, 10.0
JOBS = 10_000
VERSION = "api-version=2018-05-01"


def rows() -> Iterator[Row]:
    """All measurements."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        running(Path(folder) / "home") as server,
    ):
        before = processor_s(server)
        yield Row("serve: GET of a job", shows_per_s(server), "-", math.nan, "requests/s")
        each_ms = (processor_s(server) - before) / REQUESTS * 1000
        yield Row("serve: processor time of that", each_ms, "-", math.nan, "ms")
        alone, watched, at_once_ms = reads_ms(server)
        yield Row(f"serve: p95 of a read, {WATCHERS} watch", watched, "the same, nobody watches", alone, "ms")
        yield Row(f"serve: p95 of {WATCHERS} reads at once", at_once_ms, "one read", alone, "ms")
        before = server.process.memory_info().rss / 1e6
        make_jobs(server, range(JOBS))
        list_all(server)
        after = server.process.memory_info().rss / 1e6
        yield Row(f"serve: memory with {JOBS:,} jobs listed", after, "before", before, "MB")
        yield from transfers(server, Path(folder))
        yield from ours(server, Path(folder))


def shows_per_s(server: Server) -> float:
    """GETs of a job a second, by a few clients at once."""

    def client() -> None:
        connection = server.connection()
        for _ in range(REQUESTS // CLIENTS):
            server.ask(connection, "GET", f"{server.job}?{VERSION}")

    began = time.perf_counter()
    at_once([client] * CLIENTS)
    return REQUESTS / (time.perf_counter() - began)


def processor_s(server: Server) -> float:
    """What the server has used of a processor."""
    times = server.process.cpu_times()
    return times.user + times.system


def reads_ms(server: Server) -> tuple[float, float, float]:
    """The 95th percentile of a ranged read.

    Of one client alone, of a hundred that read once a second, each at its own time, and of a hundred that
    start at the same time: the last of them waits for all others.
    """
    path = address(server)
    alone: list[float] = []
    read_on(server, path, alone, end=time.monotonic() + 2, pause_s=0.02)
    watched = watchers_ms(server, path, apart_s=1.0 / WATCHERS)
    return p95(alone), p95(watched), p95(watchers_ms(server, path, apart_s=0.0))


def watchers_ms(server: Server, path: str, *, apart_s: float) -> list[float]:
    """What each read takes of clients who read once a second and begin so far apart."""
    taken_ms: list[list[float]] = [[] for _ in range(WATCHERS)]
    end = time.monotonic() + WATCH_S

    def watch(number: int) -> None:
        time.sleep(number * apart_s)
        read_on(server, path, taken_ms[number], end=end, pause_s=1.0)

    at_once([partial(watch, number) for number in range(WATCHERS)])
    return [taken for mine in taken_ms for taken in mine]


def read_on(server: Server, path: str, taken_ms: list[float], *, end: float, pause_s: float) -> None:
    """Reads the last bytes of a log again and again."""
    connection = server.connection()
    while time.monotonic() < end:
        began = time.perf_counter()
        connection.request("GET", path, headers={"Range": "bytes=99000-"})
        assert connection.getresponse().read()
        taken_ms.append((time.perf_counter() - began) * 1000)
        time.sleep(pause_s)


def address(server: Server) -> str:
    """The path and query of the job's log."""
    query = f"{VERSION}&outputdirectoryid=stdouterr"
    listed = server.ask(server.connection(), "POST", f"{server.job}/listOutputFiles?{query}")
    urls = {file["name"]: file["downloadUrl"] for file in json.loads(listed)["value"]}
    return "/" + urls["stdout.txt"].split("/", 3)[3]


def make_jobs(server: Server, numbers: range) -> None:
    """Writes copies of the job into the store, with these numbers."""
    with sqlite3.connect(server.home / "state.db") as db:
        db.row_factory = sqlite3.Row
        kept = dict(db.execute("SELECT * FROM resource WHERE key = ?", (server.job.key,)).fetchone())
        ran = dict(db.execute("SELECT * FROM job").fetchone())
        for number in numbers:
            id = server.job.parent.child(Kind.JOB, f"j{number}")
            spec = kept["spec"].replace("first", f"first-{number}")  # each one has to be read
            insert(db, "resource", {**kept, "key": id.key, "id": str(id), "spec": spec, "seq": None})
            insert(db, "job", {**ran, "key": id.key, "guid": str(uuid.uuid4())})


def insert(db: sqlite3.Connection, name: str, row: dict[str, object]) -> None:
    """Puts a row into a table."""
    marks = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


def list_all(server: Server) -> None:
    """Lists all jobs, page by page."""
    connection, count = server.connection(), 0
    path: str | None = f"{server.job.parent}/jobs?{VERSION}"
    while path:
        page = json.loads(server.ask(connection, "GET", path))
        count += len(page["value"])
        path = "/" + page["nextLink"].split("/", 3)[3] if "nextLink" in page else None
    assert count == JOBS + 1


def at_once(work: list[Callable[[], None]]) -> None:
    """Runs all in threads, and waits for them."""
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def p95(values: list[float]) -> float:
    """What 95 of 100 are below."""
    return statistics.quantiles(values, n=20)[-1]


if __name__ == "__main__":
    print(table(rows()))
