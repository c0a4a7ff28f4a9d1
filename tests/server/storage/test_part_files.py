"""Uploads that nobody finished leave nothing behind, and show nowhere."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from azure.storage.fileshare import ShareServiceClient

from batchai_magics.server.storage.part_files import PartFiles, is_part
from batchai_magics.server.storage.sas import Resource
from batchai_magics.server.storage.uploads import STALE_S, Uploads
from tests.patience import PATIENCE_S
from tests.server.process import Process, started
from tests.server.running import GROUP, Running

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


def test_what_nobody_goes_on_with_for_a_day_is_given_up(server: Running, tmp_path: Path) -> None:
    storage, now = server.world.backend.storage, [0.0]
    storage.make("stale")
    uploads = Uploads(PartFiles(tmp_path), clock=lambda: now[0])
    first, second = (Resource("local", "file", "stale", name) for name in "ab")
    uploads.begin(storage, first, "stale", 9)
    now[0] = STALE_S - 1
    uploads.begin(storage, second, "stale", 9)
    assert uploads.of(first)
    now[0] = STALE_S + 1
    uploads.begin(storage, second, "stale", 9)
    assert (uploads.of(first), bool(uploads.of(second))) == (None, True)
    assert len(storage.list("stale")) == len(files_in(tmp_path)) == 1


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("a/.part-" + "0" * 32, True),
        (".part-small", False),
        (".part-" + "g" * 32, False),
        ("part-" + "0" * 32, False),
    ],
)
def test_only_our_own_names_are_hidden(name: str, is_one: bool) -> None:
    assert is_part(name) is is_one
