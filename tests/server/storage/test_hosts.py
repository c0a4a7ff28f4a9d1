"""Storage by the name of its account's host, as Azure's own addresses have it, and names of accounts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
import requests
from azure.storage.fileshare import (
    FileSasPermissions,
    generate_file_sas,
)

from tests.server.running import SUBSCRIPTION, Running

pytestmark = pytest.mark.slow
SOON = timedelta(minutes=5)
CHECK = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Storage/checkNameAvailability"


@pytest.fixture(scope="module")
def key(server: Running) -> str:
    server.world.backend.storage.upload("batchaishare", {"in/log.txt": b"by its host"})
    server.world.backend.containers.make("box")
    server.world.backend.containers.upload("box", {"in/blob.bin": b"a blob"})
    return server.context.keys.of("local")[0]


def at(server: Running, host: str, path: str, query: str = "") -> requests.Response:
    return requests.get(f"{server.url}/{path}?{query}", headers={"Host": host})


@pytest.mark.parametrize("host", ["local.file.core.windows.net", "LOCAL.file.localhost:10000"])
def test_a_file_is_read_by_its_accounts_host(server: Running, key: str, host: str) -> None:
    may, end = FileSasPermissions(read=True), datetime.now(timezone.utc) + SOON
    sas = generate_file_sas("local", "batchaishare", ["in", "log.txt"], key, may, end)
    assert at(server, host, "batchaishare/in/log.txt", sas).content == b"by its host"
    assert (
        at(server, host.lower().replace("local.", "other.", 1), "batchaishare/in/log.txt", sas).status_code
        == 403
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("free", None),
        ("local", "AlreadyExists"),
        ("metrics", "AlreadyExists"),
        ("taken", "AlreadyExists"),
        ("No", "AccountNameInvalid"),
        ("a-b", "AccountNameInvalid"),
    ],
)
def test_whether_a_name_is_free_for_an_account_is_told(
    server: Running, name: str, reason: str | None
) -> None:
    path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/taken"
    server.json("PUT", path, json={"location": "eastus"})
    told = server.json("POST", CHECK, json={"name": name, "type": "Microsoft.Storage/storageAccounts"})
    assert (told["nameAvailable"], told.get("reason")) == (reason is None, reason)
