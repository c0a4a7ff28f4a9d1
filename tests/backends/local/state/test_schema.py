"""A home of another version is refused before anything of it changes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from batchai_magics.backends.local import process
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state.store import Store
from batchai_magics.errors import StorageError
from batchai_magics.launch.plan import VERSION
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import WorkspaceSpec
from tests.backends.local.still import Still


def set_version(still: Still, version: int) -> dict[Path, bytes]:
    """Makes a home one of another version; returns its files."""
    with still.store.read() as db:
        db.execute(f"PRAGMA user_version = {version}")
    still.store.close()
    return files(still.home)


def files(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("version", [0, VERSION - 1, VERSION + 1])
def test_refusal_names_both_versions_and_the_ways_out(still: Still, version: int) -> None:
    before = set_version(still, version)
    with pytest.raises(StorageError) as caught, Store(still.layout.database).read():
        pytest.fail("it was opened")
    assert caught.value.code == "StoreVersionMismatch"
    versions = f"has version {version}, and this batchai_magics reads and writes version {VERSION}"
    assert caught.value.message == f"{still.layout.database} {versions}"
    assert "BATCHAI_HOME" in caught.value.hint
    assert "the batchai_magics that made this one" in caught.value.hint
    assert files(still.home) == before


def test_creating_in_a_home_of_another_version_changes_nothing(still: Still) -> None:
    still.cluster()
    still.job()
    before = set_version(still, VERSION + 1)
    backend = LocalBackend(LocalSettings(home=still.home))
    with closing(backend):
        for change in (
            lambda: backend.create(still.workspace, WorkspaceSpec()),
            lambda: backend.list(still.workspace, Kind.CLUSTER),
            lambda: backend.terminate(still.experiment.child(Kind.JOB, "j")),
            lambda: backend.storage.upload("batchaishare", {"file": b""}),
            backend.cleaning.clean,
        ):
            with pytest.raises(StorageError, match=f"has version {VERSION + 1}"):
                change()
    assert files(still.home) == before


@pytest.mark.slow
@pytest.mark.parametrize("program", ["supervisor", "node_preparer", "notification_sender"])
def test_program_in_a_home_of_another_version_changes_nothing(still: Still, program: str) -> None:
    job = still.job() if still.cluster() else None
    guid = still.state(job)["guid"]
    before = set_version(still, VERSION + 1)
    arguments = {"supervisor": [guid], "node_preparer": ["node"], "notification_sender": [guid]}
    command = process.start_command(sys.executable, program, [str(still.home), *arguments[program]])
    message = '{"variables": {}, "registry_password": ""}\n' if program == "supervisor" else "{}\n"
    done = subprocess.run(command, input=message, capture_output=True, text=True, check=False)
    assert done.returncode
    assert (
        f"has version {VERSION + 1}, and this batchai_magics reads and writes version {VERSION}"
        in done.stderr
    )
    assert files(still.home) == before
