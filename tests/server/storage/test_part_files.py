"""Uploads that nobody finished leave nothing behind, and show nowhere."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from azure.storage.fileshare import ShareServiceClient

from batchai_magics.backends.base.storage import STALE_S
from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.storage.sas import RequestOrigin
from batchai_magics.server.storage.storage_resource import StorageResource
from batchai_magics.server.storage.storage_router import StorageRouter
from batchai_magics.server.storage.unfinished_uploads import PartFiles, UnfinishedUploads
from tests.patience import PATIENCE_S
from tests.server.process import Process, started
from tests.server.running import GROUP, Running
from tests.server.storage.signed_urls import account_sas

pytestmark = pytest.mark.slow


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def service_of(server: Process) -> ShareServiceClient:
    key = json.loads((server.home / "server" / "keys.json").read_text())[0]
    return ShareServiceClient(f"{server.url}/local", credential={"account_name": "local", "account_key": key})


def test_what_a_killed_server_had_half_of_is_swept_by_the_next_one(tmp_path: Path) -> None:
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


def test_who_lists_a_share_sees_to_it_that_nothing_stale_lies_there(server: Running, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("age_s", "left"), [(STALE_S - 3600, 1), (STALE_S + 3600, 0)])
def test_a_server_that_starts_gives_up_what_has_not_grown_for_a_day(
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
