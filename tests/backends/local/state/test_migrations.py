"""Databases of other versions: brought up to date step by step, copied before, refused when newer."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import migrations
from batchai_magics.backends.local.state.migrations import LATEST_VERSION, backup_path
from batchai_magics.backends.local.state.store import Store
from batchai_magics.errors import StorageError
from batchai_magics.models.cluster_spec import ClusterPatch
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.contract.place import manual
from tests.world import until

STORES = Path(__file__).with_name("stores")  # made by releases; home and interpreter are @HOME@ and @PYTHON@
GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/batchai"
RECIPES = ResourceId.parse(f"{GROUP}/providers/Microsoft.BatchAI/workspaces/recipes")
# Columns of later versions.
ADDED = ("again", "attempts", "owner", "guid", "more", "max_running", "job_group", "group_limit", "gpu_count")
ODD = "ALTER TABLE resource ADD COLUMN odd TEXT NOT NULL DEFAULT ''"


def restored(home: Path, release: str = "0.1.0") -> Path:
    """The database of a release, below `home`."""
    home.mkdir(mode=0o700)
    text = (STORES / f"{release}.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(home / "state.db")) as db:
        db.executescript(text.replace("@HOME@", str(home)).replace("@PYTHON@", sys.executable))
        db.execute("PRAGMA journal_mode = WAL")
    return home / "state.db"


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All that a database holds, but for what it did not hold from the start."""
    with closing(sqlite3.connect(path)) as db:
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        columns = {
            name: [column for (_, column, *_) in db.execute(f"PRAGMA table_info({name})")]
            for (name,) in tables
        }
        first = {name: ", ".join(each for each in own if each not in ADDED) for name, own in columns.items()}
        first.pop("gpu_share", None)  # a table of a later version
        return {name: db.execute(f"SELECT {names} FROM {name}").fetchall() for name, names in first.items()}


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def opened(path: Path) -> None:
    """Opens a database as every command does, and lets go of it."""
    store = Store(path)
    with store.read():
        pass
    store.close()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return restored(tmp_path / "home")


@pytest.fixture
def backend(old: Path) -> Iterator[LocalBackend]:
    made = LocalBackend(LocalSettings(home=old.parent))
    yield made
    until(lambda: not made.reap())
    made.close()


def test_a_new_database_has_the_newest_version_and_no_copy(tmp_path: Path) -> None:
    opened(tmp_path / "home" / "state.db")
    assert version(tmp_path / "home" / "state.db") == LATEST_VERSION
    assert not list((tmp_path / "home").glob("*version*"))


def test_a_database_of_the_last_release_has_every_row_afterwards(old: Path) -> None:
    before = rows(old)
    opened(old)
    assert version(old) == LATEST_VERSION
    assert rows(old) == before


def test_the_way_from_a_release_ends_where_a_new_database_begins(old: Path, tmp_path: Path) -> None:
    opened(old)
    opened(tmp_path / "new" / "state.db")
    query = "SELECT type, name, tbl_name FROM sqlite_master ORDER BY name"
    shapes = []
    for path in (old, tmp_path / "new" / "state.db"):
        with closing(sqlite3.connect(path)) as db:
            columns = {table: db.execute(f"PRAGMA table_info({table})").fetchall() for table in rows(path)}
            shapes.append((db.execute(query).fetchall(), columns))
    assert shapes[0] == shapes[1]


def test_a_copy_of_each_version_is_kept(old: Path) -> None:
    before = rows(old)
    opened(old)
    for number in range(LATEST_VERSION):
        assert version(backup_path(old, number)) == number
        assert rows(backup_path(old, number)) == before
        assert stat.S_IMODE(backup_path(old, number).stat().st_mode) == 0o600


def test_opening_it_again_changes_nothing(old: Path) -> None:
    opened(old)
    copy = backup_path(old, 0)
    copy.write_bytes(b"somebody's")
    opened(old)
    assert copy.read_bytes() == b"somebody's"


def test_a_newer_database_is_refused_and_left_as_it_is(old: Path) -> None:
    opened(old)
    with closing(sqlite3.connect(old)) as db:
        db.execute(f"PRAGMA user_version = {LATEST_VERSION + 1}")
    with pytest.raises(StorageError) as caught:
        opened(old)
    assert caught.value.code == "StoreIsNewer"
    assert str(old) in caught.value.message
    assert f"version {LATEST_VERSION + 1}" in caught.value.message
    assert "pip install --upgrade batchai_magics" in caught.value.hint
    assert version(old) == LATEST_VERSION + 1


def test_a_step_that_fails_halfway_loses_nothing(old: Path, monkeypatch) -> None:
    opened(old)
    before = rows(old)
    broken = (*migrations.STEPS, f"{ODD};\nDELETE FROM resource;\nINSERT INTO nowhere VALUES (1);\n")
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", broken)
        patch.setattr(migrations, "LATEST_VERSION", len(broken))
        with pytest.raises(StorageError, match="nowhere"):
            opened(old)
    assert version(old) == LATEST_VERSION
    assert rows(old) == before
    opened(old)


def test_a_copy_that_cannot_be_made_stops_the_step(old: Path) -> None:
    before = rows(old)
    backup_path(old, 0).mkdir()  # in its way
    with pytest.raises(StorageError, match="version-0"):
        opened(old)
    assert version(old) == 0
    assert rows(old) == before


def test_many_at_once_take_each_step_once(old: Path, monkeypatch) -> None:
    counted = (*migrations.STEPS, f"{ODD};\n")  # it fails when it is taken twice
    monkeypatch.setattr(migrations, "STEPS", counted)
    monkeypatch.setattr(migrations, "LATEST_VERSION", len(counted))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: opened(old), range(8)))
    assert version(old) == len(counted)


KILLED = """
import os, signal, sys
from pathlib import Path
from batchai_magics.backends.local.state import migrations
from batchai_magics.backends.local.state.store import Store
moment = sys.argv[2]
step = getattr(migrations, moment)
def killed(*values):
    if moment == "_apply":
        step(*values)  # taken, and not committed
    os.kill(os.getpid(), signal.SIGKILL)
setattr(migrations, moment, killed)
with Store(Path(sys.argv[1])).read():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["_back_up", "_apply"])
def test_who_is_killed_on_the_way_leaves_the_version_before(old: Path, moment: str) -> None:
    before = rows(old)
    done = subprocess.run([sys.executable, "-c", KILLED, str(old), moment], capture_output=True)
    assert done.returncode == -9
    assert (version(old), rows(old)) == (0, before)
    opened(old)
    assert (version(old), rows(old)) == (LATEST_VERSION, before)


@pytest.mark.slow
def test_two_processes_bring_one_database_up_to_date(old: Path) -> None:
    before = rows(old)
    code = (
        "import sys; from pathlib import Path; from batchai_magics.backends.local.state.store import Store\n"
    )
    code += (
        "with Store(Path(sys.argv[1])).read() as db: print(db.execute('PRAGMA user_version').fetchone()[0])"
    )
    argv = [sys.executable, "-c", code, str(old)]
    children = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [child.communicate()[0] for child in children] == [f"{LATEST_VERSION}\n"] * 4
    assert (version(old), rows(old)) == (LATEST_VERSION, before)


# -- what the last release wrote is all there


def test_the_resources_of_the_last_release_are_shown(backend: LocalBackend) -> None:
    workspaces = {item.id.name: item for item in backend.list(RECIPES, Kind.WORKSPACE)}
    assert sorted(workspaces) == ["default", "recipes"]
    assert workspaces["recipes"].location == "westeurope"
    clusters = {item.id.name: item for item in backend.list(RECIPES, Kind.CLUSTER)}
    assert list(clusters) == ["nc6", "prepared", "empty"]
    assert clusters["nc6"].spec.scale_settings.auto_scale.maximum_node_count == 2
    assert clusters["prepared"].node_states.idle_node_count == 1
    assert clusters["prepared"].spec.node_setup.setup_task.command_line == "echo set up"
    (server,) = backend.list(RECIPES, Kind.FILE_SERVER)
    assert server.id.name == "nfs"
    assert [group.tags for group in backend.groups.list()] == [{}, {"of": "us"}]
    assert backend.accounts.keys("recipesdata") == ("a2V5IDE=", "a2V5IDI=")


def test_the_jobs_of_the_last_release_are_shown_as_they_ended(backend: LocalBackend) -> None:
    jobs = {job.id.name: job for job in backend.list(RECIPES.child(Kind.EXPERIMENT, "horovod"), Kind.JOB)}
    states = {
        name: (job.state.value, job.execution and job.execution.exit_code) for name, job in jobs.items()
    }
    assert states == {
        "succeeded": ("succeeded", 0),
        "failed": ("failed", 7),
        "terminated": ("failed", None),
        "secret": ("succeeded", 0),
        "large": ("succeeded", 0),
        "queued": ("queued", None),
    }
    assert jobs["failed"].execution.errors[0].message == "Job failed with non-zero exit code"
    assert jobs["terminated"].execution.errors[0].code == "JobTerminated"
    assert [(rank.rank, rank.exit_code) for rank in jobs["failed"].ranks] == [(0, 7)]
    assert jobs["succeeded"].execution.started < jobs["succeeded"].execution.ended
    assert jobs["succeeded"].spec.environment_variables[0].value == "b"
    assert jobs["succeeded"].output_path_segment.endswith(
        "/jobs/succeeded/a8cc613b-76c1-44f0-a6c2-a1247914439c"
    )


@pytest.mark.slow
def test_a_job_that_the_last_release_queued_still_runs(backend: LocalBackend) -> None:
    patch = ClusterPatch.from_wire({"properties": {"scaleSettings": manual(1)}})
    backend.update(RECIPES.child(Kind.CLUSTER, "empty"), patch)
    job = RECIPES.child(Kind.EXPERIMENT, "horovod").child(Kind.JOB, "queued")
    until(lambda: backend.show(job).state.is_final)
    assert backend.show(job).execution.exit_code == 0
