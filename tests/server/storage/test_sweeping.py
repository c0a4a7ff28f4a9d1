"""What is left of a server that is gone: swept, whatever its note says, and nothing of one that goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.server.storage.storage_resource import StorageResource
from batchai_magics.server.storage.unfinished_uploads import PartFiles, is_part

GONE = 2**22 + 1  # no process of Linux has such a number


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LocalBackend]:
    made = LocalBackend(LocalSettings(home=tmp_path / "home"))
    yield made
    made.close()


def begun_upload(parts: PartFiles, folder: Path, pid: int, *place: str) -> str:
    """A file that the process of that number has begun."""
    service, share, path = place
    part = parts.begin(StorageResource("local", service, share, path))
    (note,) = (file for file in folder.glob("*.json") if json.loads(file.read_text())["path"] == part)
    note.write_text(json.dumps({**json.loads(note.read_text()), "pid": pid}))
    return part


def test_of_files_and_of_blobs_what_a_server_that_is_gone_has_begun_is_swept(
    backend: LocalBackend, tmp_path: Path
) -> None:
    parts = PartFiles(tmp_path / "notes")
    for service, storage in (("file", backend.storage), ("blob", backend.containers)):
        storage.make("data")
        for pid in (GONE, os.getpid()):
            storage.resize("data", begun_upload(parts, tmp_path / "notes", pid, service, "data", "a"), 9)
    parts.sweep(backend)
    assert [len(storage.list("data")) for storage in (backend.storage, backend.containers)] == [1, 1]
    assert len(list((tmp_path / "notes").iterdir())) == 2


def test_notes_of_what_is_gone_and_notes_that_cannot_be_read_hinder_no_sweep(
    backend: LocalBackend, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    parts = PartFiles(notes)
    backend.storage.make("data")
    begun_upload(parts, notes, GONE, "file", "nothere", "a")
    begun_upload(parts, notes, GONE, "file", "data", "never-made")
    backend.storage.resize("data", begun_upload(parts, notes, GONE, "file", "data", "a"), 9)
    for number, text in enumerate(
        ["{", "{}", '{"service": "file", "pid": "x", "share": "data", "path": "a"}']
    ):
        (notes / f"{number}.json").write_text(text)
    parts.sweep(backend)
    assert backend.storage.list("data") == []
    assert list(notes.iterdir()) == []


def test_what_a_server_that_goes_on_is_about_to_make_keeps_its_note(
    backend: LocalBackend, tmp_path: Path
) -> None:
    parts = PartFiles(tmp_path / "notes")
    backend.storage.make("data")
    part = parts.begin(StorageResource("local", "file", "data", "a"))
    parts.sweep(backend)
    assert len(list((tmp_path / "notes").iterdir())) == 1
    for _ in range(2):  # once more is no error
        parts.end(part)
    assert list((tmp_path / "notes").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("a/.part-" + "0" * 32, True),
        (".part-small", False),
        (".part-" + "g" * 32, False),
        (".part-" + "0" * 33, False),
        ("part-" + "0" * 32, False),
    ],
)
def test_only_our_own_names_are_hidden(name: str, is_one: bool) -> None:
    assert is_part(name) is is_one
