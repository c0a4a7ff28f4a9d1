"""One job beside ten thousand that have ended, and behind five hundred that wait; all listed, all deleted.

The CPU time of this process for one job is held against that with next to none beside it; the two are taken
in turns, so that what else the machine does falls on both.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from batchai_magics import cell
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state.store import Database
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import ExperimentSpec
from benchmarks.row import Row, table

HISTORY, LONG_QUEUE, SHORT_QUEUE, DELETED, TRIES, LOOKS = 10_000, 500, 10, 1000, 9, 50


class Home:
    """A backend whose cluster has no node: what is submitted waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(cluster_nodes=0)
        self.backend = LocalBackend(LocalSettings(home=folder))
        self.count = 0
        self.submit()

    def submit(self, experiment: str = "") -> ResourceId:
        """One more job."""
        self.count += 1
        line = f"job{self.count}" + (f" --experiment {experiment}" if experiment else "")
        return submit(self.backend, cell.parse(line, "1", settings=self.settings), self.settings).job.id

    def add_history(self, count: int) -> None:
        """Copies of a job that has ended, each with a description of its own."""
        first = self.submit()
        self.backend.terminate(first)
        with self.backend.store.write() as db:
            rows = [
                (name, dict(db.execute(f"SELECT * FROM {name} WHERE key = ?", (first.key,)).fetchone()))
                for name in ("resource", "job")
            ]
            for number in range(count):
                id = first.parent.child(Kind.JOB, f"old{number}")
                own = {"id": str(id), "seq": None, "guid": f"g{number}"}
                for name, row in rows:
                    text = {"spec": row["spec"].replace(first.name, id.name)} if "spec" in row else {}
                    own_row = {key: value for key, value in own.items() if key in row}
                    insert(db, name, {**row, **own_row, **text, "key": id.key})


def rows() -> Iterator[Row]:
    """All of it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        empty, full = Home(Path(folder) / "empty"), Home(Path(folder) / "full")
        full.add_history(HISTORY)
        beside = f"beside {HISTORY:,} jobs"
        submitted, alone = in_turns(full.submit, empty.submit)
        yield Row(f"submit {beside}", submitted, "beside none", alone, "ms")
        shown, shown_alone = in_turns(looking(full), looking(empty))
        yield Row(f"show {beside}", shown / LOOKS, "beside none", shown_alone / LOOKS, "ms")
        experiment = workspace_id(full.settings).child(Kind.EXPERIMENT, full.settings.experiment)
        files = written(Path(folder) / "files")
        listed, read = in_turns(
            lambda: states(full, experiment), lambda: [json.loads(path.read_text()) for path in files]
        )
        yield Row(f"list {HISTORY:,} jobs and their states", listed, "json.load of as many", read, "ms")
        yield queued(Home(Path(folder) / "queue"))
        yield deleted(Home(Path(folder) / "deleted"))


def insert(db: Database, name: str, row: dict[str, object]) -> None:
    """A row of a table."""
    places = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({places})", tuple(row.values()))


def states(home: Home, experiment: ResourceId) -> list[object]:
    """What a list is looked at for: each job's name and state."""
    return [(job.id.name, job.state) for job in home.backend.list(experiment, Kind.JOB)]


def written(folder: Path) -> list[Path]:
    """As many small JSON files as there are jobs."""
    folder.mkdir()
    paths = [folder / f"{number}.json" for number in range(HISTORY)]
    for path in paths:
        path.write_text(json.dumps({"name": path.stem, "state": "succeeded", "x": "y" * 900}))
    return paths


def in_turns(*actions: Callable[[], object]) -> list[float]:
    """The CPU time of each, in ms: the median of some tries, one of each at a time."""
    tries = [[cpu_ms(action) for action in actions] for _ in range(TRIES)]
    return [statistics.median(times) for times in zip(*tries, strict=True)]


def cpu_ms(action: Callable[[], object]) -> float:
    """The CPU time of something, once."""
    began = time.process_time()
    action()
    return (time.process_time() - began) * 1000


def looking(home: Home) -> Callable[[], object]:
    """Some looks at a job."""
    job = home.submit()
    return lambda: [home.backend.show(job) for _ in range(LOOKS)]


def queued(home: Home) -> Row:
    """A job behind many that wait, against one behind few."""
    while home.count < SHORT_QUEUE:
        home.submit()
    (few,) = in_turns(home.submit)
    while home.count < LONG_QUEUE:
        home.submit()
    (many,) = in_turns(home.submit)
    return Row(f"submit behind {LONG_QUEUE}", many, f"behind {SHORT_QUEUE}", few, "ms")


def deleted(home: Home) -> Row:
    """An experiment of waiting jobs, against the removal of a copy of their folders."""
    experiment = workspace_id(home.settings).child(Kind.EXPERIMENT, "doomed")
    home.backend.create(experiment, ExperimentSpec())
    for _ in range(DELETED):
        home.submit("doomed")
    copy = home.folder.with_name("copy")
    shutil.copytree(home.folder / "jobs", copy, symlinks=True)  # mounts link to what all jobs share
    began = time.perf_counter()
    home.backend.delete(experiment)
    ours = time.perf_counter() - began
    began = time.perf_counter()
    shutil.rmtree(copy)
    what = f"delete {DELETED:,} waiting jobs"
    return Row(what, ours, "rmtree of their folders", time.perf_counter() - began, "s")


if __name__ == "__main__":
    print(table(rows()))
