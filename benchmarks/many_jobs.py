"""A thousand jobs listed, and a queue worked off: how long the local backend takes over many jobs.

Listing is held against reading as many JSON files; the queue against submitit's local executor, four jobs
at a time, as many as the cluster has nodes.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import submitit
from row import Row, table

from batchai_magics.backends.base import ExperimentSpec
from batchai_magics.backends.base.registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from batchai_magics.models.ids import Kind, workspace_id

EXPERIMENTS, JOBS = 100, 10  # listed
QUEUE, NODES = 40, 4  # worked off


def rows() -> Iterator[Row]:
    """Both measurements."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        yield Row(
            "list 1,000 jobs", listed(place) * 1000, "json.load of 1,000 files", read(place) * 1000, "ms"
        )
        yield Row(
            f"{QUEUE} jobs over {NODES} nodes",
            queued(place / "queue"),
            "submitit, 4 at a time",
            by_submitit(place),
            "s",
        )


def listed(place: Path) -> float:
    """Seconds to list every job of every experiment, right after opening the backend."""
    settings = Settings(sections={"local": LocalSettings(home=place / "home")})
    backend = open_backend(settings)
    job = submit(backend, parse("first", "1", settings=settings), settings).job.wait()
    workspace = workspace_id(settings)
    with sqlite3.connect(place / "home" / "state.db") as db:
        db.row_factory = sqlite3.Row
        kept = dict(db.execute("SELECT * FROM resource WHERE key = ?", (job.id.key,)).fetchone())
        ran = dict(db.execute("SELECT * FROM job").fetchone())
        for number in range(EXPERIMENTS):
            experiment = workspace.child(Kind.EXPERIMENT, f"e{number}")
            backend.create(experiment, ExperimentSpec())
            for index in range(JOBS):
                id = experiment.child(Kind.JOB, f"j{index}")
                spec = kept["spec"].replace("first", f"first-{number}-{index}")  # each one has to be read
                copy = {"key": id.key, "id": str(id), "parent": experiment.key, "spec": spec, "seq": None}
                insert(db, "resource", {**kept, **copy})
                insert(db, "job", {**ran, "key": id.key, "guid": str(uuid.uuid4())})
            db.commit()
    began = time.perf_counter()
    experiments = backend.list(workspace, Kind.EXPERIMENT)
    found = [job for experiment in experiments for job in backend.list(experiment.id, Kind.JOB)]
    assert len(found) > EXPERIMENTS * JOBS
    return time.perf_counter() - began


def insert(db: sqlite3.Connection, name: str, row: dict[str, object]) -> None:
    """A row of a table."""
    places = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({places})", tuple(row.values()))


def read(place: Path) -> float:
    """Seconds to read a thousand small JSON files."""
    folder = place / "files"
    folder.mkdir()
    for number in range(EXPERIMENTS * JOBS):
        (folder / f"{number}.json").write_text(
            json.dumps({"state": "succeeded", "name": f"j{number}"} | {"x": "y" * 900})
        )
    began = time.perf_counter()
    assert len([json.loads(path.read_text()) for path in folder.iterdir()]) == EXPERIMENTS * JOBS
    return time.perf_counter() - began


def queued(home: Path) -> float:
    """Seconds from the first submission to the end of the last job."""
    settings = Settings(sections={"local": LocalSettings(home=home)}, cluster_nodes=NODES)
    backend = open_backend(settings)
    began = time.perf_counter()
    jobs = [
        submit(backend, parse(f"q{number} --toolkit custom", "1", settings=settings), settings).job
        for number in range(QUEUE)
    ]
    for job in jobs:
        assert job.wait().exit_code == 0
    return time.perf_counter() - began


def by_submitit(place: Path) -> float:
    """The same with submitit's local executor."""
    executor = submitit.LocalExecutor(folder=place / "submitit")
    executor.update_parameters(timeout_min=1)
    began = time.perf_counter()
    with ThreadPoolExecutor(NODES) as pool:
        list(pool.map(lambda _: executor.submit(int).result(), range(QUEUE)))
    return time.perf_counter() - began


if __name__ == "__main__":
    print(table(rows()))
