"""How much `batchai serve` takes: requests a second, reads while a hundred watch, memory, uploads against cp.

The server is a process of its own, the clients are threads of this one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from azure.storage.fileshare import ShareServiceClient

from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.base import Backend, Copy
from batchai_magics.backends.base.registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.follow import LogBytes
from batchai_magics.jobs.submit import submit
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.server.home import Home
from batchai_magics.server.storage.keys import Keys
from benchmarks.row import Row, table

REQUESTS, CLIENTS = 2000, 4
WATCHERS, WATCH_S = 100, 10.0
JOBS = 10_000
LARGE, SMALL, SMALL_BYTES = 1 << 30, 5000, 4 << 10
VERSION = "api-version=2018-05-01"


@dataclass
class Server:
    """A server that runs, and the one job that there is."""

    port: int
    process: psutil.Process
    token: str
    home: Path
    job: ResourceId

    def connection(self) -> http.client.HTTPConnection:
        """A connection that is kept."""
        return http.client.HTTPConnection("127.0.0.1", self.port)

    def ask(self, connection: http.client.HTTPConnection, method: str, path: str) -> bytes:
        """One answer."""
        connection.request(method, path, headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status < 300, body
        return body


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
        alone, watched = reads_ms(server)
        yield Row(f"serve: p95 of a read, {WATCHERS} watch", watched, "the same, nobody watches", alone, "ms")
        before = server.process.memory_info().rss / 1e6
        make_jobs(server)
        list_all(server)
        after = server.process.memory_info().rss / 1e6
        yield Row(f"serve: memory with {JOBS:,} jobs listed", after, "before", before, "MB")
        yield from transfers(server, Path(folder))
        yield from ours(server, Path(folder))


@contextlib.contextmanager
def running(home: Path) -> Iterator[Server]:
    """A server in front of a home with one job that has ended."""
    settings = Settings(sections={"local": LocalSettings(home=home)})
    backend = open_backend(settings)
    job = submit(backend, parse("first", "print('x' * 100_000)", settings=settings), settings).job.wait()
    backend.close()
    words = [sys.executable, "-m", "batchai_magics.cli", "serve", "--port", "0"]
    env = {**os.environ, "BATCHAI_HOME": str(home)}
    process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r":(\d+)\.", process.stdout.readline())[1])
        token = (home / "server" / "token").read_text().strip()
        yield Server(port, psutil.Process(process.pid), token, home, job.id)
    finally:
        process.terminate()
        process.wait()


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


def reads_ms(server: Server) -> tuple[float, float]:
    """The 95th percentile of a ranged read: of one client alone, and of a hundred that read once a second."""
    path = address(server)
    alone: list[float] = []
    read_on(server, path, alone, end=time.monotonic() + 2, pause_s=0.02)
    together: list[list[float]] = [[] for _ in range(WATCHERS)]
    end = time.monotonic() + WATCH_S
    at_once([lambda mine=mine: read_on(server, path, mine, end=end, pause_s=1.0) for mine in together])
    return p95(alone), p95([taken for mine in together for taken in mine])


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


def make_jobs(server: Server) -> None:
    """Writes copies of the job into the store."""
    with sqlite3.connect(server.home / "state.db") as db:
        db.row_factory = sqlite3.Row
        kept = dict(db.execute("SELECT * FROM resource WHERE key = ?", (server.job.key,)).fetchone())
        ran = dict(db.execute("SELECT * FROM job").fetchone())
        for number in range(JOBS):
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


def transfers(server: Server, folder: Path) -> Iterator[Row]:
    """One large file and many small ones, up and down by Azure's own library, against cp."""
    large, small = folder / "large.bin", folder / "small"
    with large.open("wb") as file:
        for _ in range(LARGE >> 20):
            file.write(os.urandom(1 << 20))
    small.mkdir()
    for number in range(SMALL):
        (small / f"{number}.bin").write_bytes(os.urandom(SMALL_BYTES))
    key = Keys(Home(server.home / "server").keys, open_backend(Settings())).of("local")[0]
    account = {"account_name": "local", "account_key": key}
    service = ShareServiceClient(f"http://127.0.0.1:{server.port}/local", credential=account)
    share = service.create_share("measured")
    copied = seconds(lambda: shutil.copy(large, folder / "copy.bin"))
    yield Row("serve: upload 1 GiB", seconds(lambda: upload(share, large)), "cp", copied, "s")
    yield Row("serve: download 1 GiB", seconds(lambda: download(share, large.name)), "cp", copied, "s")
    copied = seconds(lambda: shutil.copytree(small, folder / "copies"))
    files = sorted(small.iterdir())
    up = seconds(lambda: [upload(share, file) for file in files])
    yield Row(f"serve: upload {SMALL:,} small files", up, "cp -r", copied, "s")
    down = seconds(lambda: [download(share, file.name) for file in files])
    yield Row(f"serve: download {SMALL:,} small files", down, "cp -r", copied, "s")


def ours(server: Server, folder: Path) -> Iterator[Row]:
    """The backend `arm`: the same files, and how soon a line is with who follows a job."""
    own = ArmSettings(endpoint=f"http://127.0.0.1:{server.port}", token=server.token)
    there = open_backend(Settings(backend="arm", sections={"arm": own}))
    here = open_backend(Settings(sections={"local": LocalSettings(home=server.home)}))
    files = sorted((folder / "small").iterdir())
    there.storage.make("ours")
    here.storage.make("theirs")
    for name, paths in (("1 GiB", [folder / "large.bin"]), (f"{SMALL:,} small files", files)):
        copies = [Copy(path, path.name, path.stat().st_size) for path in paths]
        sent, moved = (
            seconds(lambda share=share, to=to, copies=copies: sum(to.storage.send(share, copies)))
            for share, to in (("ours", there), ("theirs", here))
        )
        yield Row(f"arm: upload {name}", sent, "local", moved, "s")
    yield Row("arm: from a line's writing to who follows", lag_ms(there), "local", lag_ms(here), "ms")
    there.close()
    here.close()


def lag_ms(backend: Backend) -> float:
    """The median time from the writing of a line to its arrival in the events of its job."""
    settings = Settings()
    script = "import time\nfor _ in range(100): print(time.time(), flush=True); time.sleep(0.05)"
    request = parse(f"lag-{backend.capabilities.name}", script, settings=settings)
    lags: list[float] = []
    for event in submit(backend, request, settings).job.events():
        if isinstance(event, LogBytes) and event.file.path == "stdout.txt":
            now = time.time()
            lags += [(now - float(line)) * 1000 for line in event.chunk.data.decode().split()]
    return statistics.median(lags)


def upload(share: object, file: Path) -> None:
    """Sends a file."""
    with file.open("rb") as stream:
        share.get_file_client(file.name).upload_file(stream)


def download(share: object, name: str) -> None:
    """Fetches a file, and lets it fall."""
    for _ in share.get_file_client(name).download_file().chunks():
        pass


def at_once(work: list[Callable[[], None]]) -> None:
    """Runs all in threads, and waits for them."""
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def seconds(work: Callable[[], object]) -> float:
    """How long something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def p95(values: list[float]) -> float:
    """What 95 of 100 are below."""
    return statistics.quantiles(values, n=20)[-1]


if __name__ == "__main__":
    print(table(rows()))
