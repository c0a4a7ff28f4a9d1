"""What watching costs `batchai serve`: a log that 200 clients stream, and a silent one that ten watch.

The server is a process of its own, the clients are threads of this one.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.service.extension_wire import PREFER, SINCE, STATE
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import submit
from benchmarks.row import Row, table
from benchmarks.server.load import VERSION, at_once, p95, processor_s
from benchmarks.server.running import Server, running

STREAMING, SILENT = 200, 10
WATCHED_S = 12.0
PRINTED = "import time\nfor _ in range(600):\n    print(time.time(), flush=True)\n    time.sleep(0.2)"
QUIET = "import time\nprint('ready', flush=True)\ntime.sleep(120)"


@dataclass
class Watching:
    """What one client has seen: the lag of each line, and the number of answers."""

    lags_s: list[float] = field(default_factory=list)
    answers: int = 0


def rows() -> Iterator[Row]:
    """All measurements."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        running(Path(folder) / "home") as server,
    ):
        yield from streamed(server)
        yield from silent(server)


def streamed(server: Server) -> Iterator[Row]:
    """The lag of lines that all clients stream, and the share of a core that the server needs for it."""
    job = started(server, "streamed", PRINTED)
    share, seen = watched(server, job, STREAMING)
    job.cancel()
    lags_s = [lag for each in seen for lag in each.lags_s]
    yield Row(f"serve: median lag, {STREAMING} stream", statistics.median(lags_s), "-", math.nan, "s")
    yield Row(f"serve: p95 of that, {STREAMING} stream", p95(lags_s), "-", math.nan, "s")
    yield Row(f"serve: share of a core, {STREAMING} stream", share * 100, "-", math.nan, "%")


def silent(server: Server) -> Iterator[Row]:
    """The share of a core for ten who watch a silent job, for one, and for who leaves out a log."""
    job = started(server, "silent", QUIET)
    one, _ = watched(server, job, 1)
    many, _ = watched(server, job, SILENT)
    _, (partial,) = watched(server, job, 1, left_out="stdout.txt")
    job.cancel()
    yield Row(f"serve: share of a core, {SILENT} watch a silent job", many * 100, "one does", one * 100, "%")
    yield Row(
        "serve: answers to who leaves out a log", partial.answers / WATCHED_S, "-", math.nan, "answers/s"
    )


def started(server: Server, name: str, script: str) -> Job:
    """A job that runs."""
    settings = Settings(sections={"local": LocalSettings(home=server.home)})
    backend = open_backend(settings)
    job = submit(backend, parse(name, script, settings=settings), settings).job
    while not job.log():
        time.sleep(0.1)
    return job


def watched(server: Server, job: Job, count: int, left_out: str = "") -> tuple[float, list[Watching]]:
    """The share of a core that so many clients cost, and what they have seen."""
    before, seen = processor_s(server), [Watching() for _ in range(count)]
    end = time.monotonic() + WATCHED_S
    at_once([lambda each=each: watch(server, job, each, end, left_out) for each in seen])
    return (processor_s(server) - before) / WATCHED_S, seen


def watch(server: Server, job: Job, seen: Watching, end: float, left_out: str) -> None:
    """Asks for what is new in a job's logs, again and again."""
    connection = server.connection()
    positions: dict[str, int] = {}
    state = ""
    while (left_s := end - time.monotonic()) > 0:
        patience = {PREFER: f"wait={max(1, round(left_s))}", SINCE: state}
        known = {path: position for path, position in positions.items() if path != left_out}
        state, pieces = tail(server, connection, job, known, patience)
        now = time.time()
        seen.answers += 1
        for path, piece in pieces.items():
            data = base64.b64decode(piece["data"])
            if path == "stdout.txt" and path in positions:
                seen.lags_s += [now - float(line) for line in data.split() if line[:1].isdigit()]
            positions[path] = piece["offset"] + len(data)


def tail(
    server: Server,
    connection: http.client.HTTPConnection,
    job: Job,
    positions: dict[str, int],
    patience: dict[str, str],
) -> tuple[str, dict[str, dict]]:
    """The state of the job, and the new bytes of its logs."""
    headers = {"Authorization": f"Bearer {server.token}", **patience}
    body = json.dumps({"positions": positions})
    connection.request("POST", f"{job.id}/batchaiTail?{VERSION}", body, headers)
    answer = connection.getresponse()
    data = json.loads(answer.read())
    assert answer.status == 200, data
    return answer.headers.get(STATE, ""), data["value"]


if __name__ == "__main__":
    print(table(rows()))
