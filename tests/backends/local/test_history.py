"""What is done for one job costs as much after ten thousand others, and behind hundreds that wait."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from batchai_magics import cell
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.service import stored_descriptions
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from tests.default_resources import ensure_defaults

pytestmark = pytest.mark.slow
STEP = 50  # of the database's own instructions, between two that are counted


class Crowd:
    """A backend whose jobs never start, with as many as are wanted."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(cluster_nodes=1)
        self.backend = LocalBackend(LocalSettings(home=home))
        ensure_defaults(self.backend, self.settings)
        self.experiment = workspace_id(self.settings).child(Kind.EXPERIMENT, self.settings.experiment)
        self.numbers = itertools.count()
        self.submit()  # takes the node

    def submit(self, name: str = "") -> ResourceId:
        line = name or f"job{next(self.numbers)}"
        return submit(self.backend, cell.parse(line, "1", settings=self.settings), self.settings).job.id

    def add(self, count: int, state: str) -> None:
        """Copies of the last job, in a state."""
        last = self.submit()
        with self.backend.store.write() as db:
            for number in range(count):
                id = self.experiment.child(Kind.JOB, f"{last.name}x{number}")
                guid = f"{last.name}-{number}"
                copy(db, "resource", last.key, key=id.key, id=str(id), seq=None, guid=guid)
                copy(db, "job", last.key, key=id.key, guid=guid, state=state)

    def cost(self, action: Callable[[], object]) -> tuple[int, int]:
        """The steps that the database takes, and the descriptions that are read, for something."""
        steps = itertools.count()
        read = stored_descriptions.job_spec.cache_info().misses
        with self.backend.store.read() as db:
            db.set_progress_handler(lambda: next(steps) and None, STEP)
            action()
            db.set_progress_handler(None, 0)
        return next(steps), stored_descriptions.job_spec.cache_info().misses - read


def copy(db: sqlite3.Connection, table: str, key: str, /, **changes: object) -> None:
    row = dict(db.execute(f"SELECT * FROM {table} WHERE key = ?", (key,)).fetchone()) | changes
    marks = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


@pytest.fixture
def crowd(tmp_path: Path, no_supervisor: None) -> Iterator[Crowd]:
    made = Crowd(tmp_path / "home")
    yield made
    made.backend.close()


@pytest.mark.parametrize("state", ["succeeded", "queued"])
def test_submitting_and_showing_read_neither_history_nor_queue(crowd: Crowd, state: str) -> None:
    first = crowd.submit()
    costs = {}
    for size in ("small", "large"):
        crowd.add(10 if size == "small" else 1500, state)
        costs[size] = [crowd.cost(crowd.submit), crowd.cost(lambda: crowd.backend.show(first))]
    for (small, few), (large, many) in zip(costs["small"], costs["large"], strict=True):
        assert large <= 1.2 * small + 2  # indices are a little deeper
        assert many <= few


def test_the_next_run_of_a_name_reads_names_alone(crowd: Crowd) -> None:
    crowd.submit("resnet")
    crowd.add(500, "succeeded")
    assert crowd.cost(lambda: crowd.submit("resnet --new"))[1] <= 1
    assert crowd.backend.names(crowd.experiment, Kind.JOB, "resnet") == ["resnet", "resnet-2"]
