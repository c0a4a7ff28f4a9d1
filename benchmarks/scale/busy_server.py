"""`batchai serve` with many users and a long history: how long a status request and a page of a list take.

Each user has a token and asks for the status of three of their jobs every two seconds, as live views do; the
first request, which connects, does not count. The server is a process of its own, the users are threads of
this one.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from batchai_magics.models.resource_ids import Kind
from batchai_magics.server.access.access_control import Users
from batchai_magics.server.server_home import ServerHome
from benchmarks.row import Row, table
from benchmarks.server.load import VERSION, make_jobs, processor_s
from benchmarks.server.running import Server, running

JOBS = (10_000, 100_000)
USERS = (20, 200, 500)
WATCHED_S, PAUSE_S = 10.0, 2.0
OWN = 3  # jobs of each user
LIMIT_MS = 50.0
PAGES = 20


def rows(users: Sequence[int] = USERS, jobs: Sequence[int] = JOBS) -> Iterator[Row]:
    """The times for each length of the history, and at the longest one for each number of users."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        running(Path(folder) / "home") as server,
    ):
        tokens = [Users(ServerHome(server.home / "server").users).add(f"user{n}") for n in range(max(users))]
        usual, known = users[len(users) // 2], 0
        for count in jobs:
            make_jobs(server, range(known, count))
            known = count
            yield from measured(server, tokens[:usual], count)
            yield Row(f"{count:,} jobs: a page of the list", page_ms(server), "-", math.nan, "ms")
        for few in users:
            if few != usual:
                yield from measured(server, tokens[:few], known)


def measured(server: Server, tokens: Sequence[str], count: int) -> Iterator[Row]:
    """The 99th percentile of a status request, and the processor time of one."""
    taken_ms: list[list[float]] = [[] for _ in tokens]
    before, end = processor_s(server), time.monotonic() + WATCHED_S
    threads = [
        threading.Thread(target=ask, args=(server, token, number, count, end, taken_ms[number]))
        for number, token in enumerate(tokens)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    each_ms = (processor_s(server) - before) / sum(map(len, taken_ms)) * 1000
    all_ms = [taken for mine in taken_ms for taken in mine[1:]]
    what = f"{len(tokens)} users, {count:,} jobs: a status request"
    yield Row(f"{what}, p99", statistics.quantiles(all_ms, n=100)[-1], "the limit", LIMIT_MS, "ms")
    yield Row(f"{what}, processor time", each_ms, "-", math.nan, "ms")


def ask(server: Server, token: str, number: int, count: int, end: float, taken_ms: list[float]) -> None:
    """Asks for the status of a user's jobs until the end."""
    connection = server.connection()
    names = [f"j{(number * OWN + own) % count}" for own in range(OWN)]
    body = json.dumps({"ids": [str(server.job.parent.child(Kind.JOB, name)) for name in names]})
    path = f"/subscriptions/{server.job.subscription}/providers/Microsoft.BatchAI/batchaiLook?{VERSION}"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    time.sleep(PAUSE_S * (number * 0.618 % 1))  # they do not ask all at once
    while time.monotonic() < end:
        began = time.perf_counter()
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        taken_ms.append((time.perf_counter() - began) * 1000)
        assert answer.status == 200, found
        assert len(found["value"]) == OWN, found
        time.sleep(PAUSE_S)


def page_ms(server: Server) -> float:
    """The median time of the first page of the list of jobs."""
    connection, taken = server.connection(), []
    for _ in range(PAGES):
        began = time.perf_counter()
        server.ask(connection, "GET", f"{server.job.parent}/jobs?{VERSION}")
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


if __name__ == "__main__":
    print(table(rows()))
