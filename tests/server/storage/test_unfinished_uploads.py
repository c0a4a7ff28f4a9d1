"""Files on their way: whole when each byte has come, given up cleanly, swept after a server that is gone."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import permutations
from pathlib import Path

import pytest
from azure.storage.fileshare import ShareServiceClient

from batchai_magics.backends.base import Storage
from batchai_magics.backends.base.storage import STALE_S
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.storage.sas import RequestOrigin
from batchai_magics.server.storage.storage_resource import StorageResource
from batchai_magics.server.storage.storage_router import StorageRouter
from batchai_magics.server.storage.unfinished_uploads import (
    PartFiles,
    UnfinishedFile,
    UnfinishedUploads,
    is_part,
)
from tests.patience import PATIENCE_S
from tests.server.process import Process, started
from tests.server.running import GROUP, Running
from tests.server.storage.signed_urls import account_sas

FILE, BLOB = (StorageResource("local", service, "data", "a") for service in ("file", "blob"))


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LocalBackend]:
    made = LocalBackend(LocalSettings(home=tmp_path / "home"))
    for storage in (made.storage, made.containers):
        storage.make("data")
    yield made
    made.close()


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def uploads(backend: LocalBackend, tmp_path: Path, now: list[float]) -> UnfinishedUploads:
    return UnfinishedUploads(PartFiles(tmp_path / "notes"), backend, clock=lambda: now[0])


def remaining_counts(storage: Storage, tmp_path: Path) -> tuple[int, int]:
    """How many files lie there, and how many notes."""
    return len(storage.list("data")), len(list((tmp_path / "notes").glob("*")))


def test_a_file_is_whole_when_its_last_byte_has_come_in_whatever_order() -> None:
    for spans in permutations([(0, 3), (3, 4), (2, 6), (8, 10), (6, 8)]):
        upload, bytes_there = UnfinishedFile("part", 10, 0.0), set[int]()
        for start, end in spans:
            bytes_there |= set(range(start, end))
            assert upload.add(start, end) is (len(bytes_there) == 10), spans


def test_a_file_that_is_begun_anew_leaves_nothing_of_its_first_try(
    backend: LocalBackend, uploads: UnfinishedUploads, tmp_path: Path
) -> None:
    for _ in range(2):
        uploads.begin(FILE, 4)
        assert uploads.record_range(FILE, (0, 2)) is None
    assert remaining_counts(backend.storage, tmp_path) == (1, 1)
    assert uploads.record_range(FILE, (2, 4))
    assert remaining_counts(backend.storage, tmp_path) == (1, 0)
    assert [file.path for file in backend.storage.list("data")] == ["a"]


def test_a_file_whose_bytes_keep_coming_is_not_given_up(uploads: UnfinishedUploads, now: list[float]) -> None:
    uploads.begin(FILE, 4)
    for day in range(1, 4):
        now[0] = day * (STALE_S - 1)
        uploads.drop_stale("file")
        assert uploads.record_range(FILE, (0, day)) is None
    assert uploads.find(FILE).ranges == [(0, 3)]


def test_dropping_stale_uploads_is_limited_to_one_service(
    backend: LocalBackend, uploads: UnfinishedUploads, now: list[float], tmp_path: Path
) -> None:
    uploads.begin(BLOB, 4)
    now[0] = STALE_S + 1
    uploads.drop_stale("file")
    assert uploads.find(BLOB)
    uploads.drop_stale("blob")
    assert (uploads.find(BLOB), remaining_counts(backend.containers, tmp_path)) == (None, (0, 0))


def test_upload_that_fails_at_its_start_leaves_no_files(
    backend: LocalBackend, uploads: UnfinishedUploads, tmp_path: Path
) -> None:
    def fill() -> None:
        with uploads.part_file(FILE) as part:
            backend.storage.resize("data", part, 4)
            raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        fill()
    assert remaining_counts(backend.storage, tmp_path) == (0, 0)


GONE = 2**22 + 1  # no process of Linux has such a number


def begun_upload(parts: PartFiles, folder: Path, pid: int, *place: str) -> str:
    """A file that the process of that number has begun."""
    service, share, path = place
    part = parts.begin(StorageResource("local", service, share, path))
    (note,) = (file for file in folder.glob("*.json") if json.loads(file.read_text())["path"] == part)
    note.write_text(json.dumps({**json.loads(note.read_text()), "pid": pid}))
    return part


def test_unfinished_files_and_blobs_of_an_ended_server_are_removed(
    backend: LocalBackend, tmp_path: Path
) -> None:
    parts = PartFiles(tmp_path / "notes")
    for service, storage in (("file", backend.storage), ("blob", backend.containers)):
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


def test_note_of_an_upload_of_a_running_server_is_kept(backend: LocalBackend, tmp_path: Path) -> None:
    parts = PartFiles(tmp_path / "notes")
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
def test_only_names_of_part_files_are_recognized(name: str, is_one: bool) -> None:
    assert is_part(name) is is_one


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def service_of(server: Process) -> ShareServiceClient:
    key = json.loads((server.home / "server" / "keys.json").read_text())[0]
    return ShareServiceClient(f"{server.url}/local", credential={"account_name": "local", "account_key": key})


@pytest.mark.slow
def test_unfinished_uploads_of_a_killed_server_are_removed_by_the_next_one(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "home" / "shares" / "local" / "data"
    with started(home) as server:
        server.ask("POST", f"{GROUP}/providers/Microsoft.Storage/storageAccounts/local/listKeys")
        share = service_of(server).create_share("data")
        share.get_file_client("whole.txt").upload_file(b"whole")
        half = share.get_file_client("half.bin")
        half.create_file(100)
        half.upload_range(b"x" * 50, 0, 50)
        assert [item["name"] for item in share.list_directories_and_files()] == ["whole.txt"]
        assert len(files_in(folder)) == 2
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(PATIENCE_S)
    with started(home) as server:
        assert files_in(folder) == ["whole.txt"]
        assert files_in(home / "server" / "uploads") == []


@pytest.mark.slow
def test_listing_a_share_removes_stale_uploads(server: Running, tmp_path: Path) -> None:
    storage, now = server.world.backend.storage, [0.0]
    storage.make("listed")
    uploads = UnfinishedUploads(PartFiles(tmp_path), server.world.backend, clock=lambda: now[0])
    uploads.begin(StorageResource("local", "file", "listed", "a"), 9)
    router = StorageRouter(server.context, uploads)
    caller = RequestOrigin(datetime.now(timezone.utc), "127.0.0.1")
    query = {"restype": "directory", "comp": "list", **account_sas(server)}
    listing = ApiCall("GET", "/local/listed", query)
    for seconds, left in ((STALE_S - 1, 1), (STALE_S + 1, 0)):
        now[0] = seconds
        assert router.authorize(listing, caller).respond(listing).status == 200
        assert len(files_in(tmp_path)) == len(storage.list("listed")) == left


@pytest.mark.slow
@pytest.mark.parametrize(("age_s", "left"), [(STALE_S - 3600, 1), (STALE_S + 3600, 0)])
def test_starting_server_removes_uploads_that_have_not_grown_for_a_day(
    server: Running, tmp_path: Path, age_s: float, left: int
) -> None:
    storage, parts = server.world.backend.storage, PartFiles(tmp_path)
    storage.make("aged")
    part = parts.begin(
        StorageResource("local", "file", "aged", "a")
    )  # by this process, which goes on: another one may have its number
    storage.resize("aged", part, 9)
    file = next(server.world.home.rglob(part))
    os.utime(file, (time.time() - age_s,) * 2)
    parts.sweep(server.world.backend)
    assert len(storage.list("aged")) == len(files_in(tmp_path)) == left
    storage.remove("aged")
