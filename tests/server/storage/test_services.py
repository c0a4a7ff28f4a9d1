"""Which account and service a request means: by its host, query and headers, else by its share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from xml.etree import ElementTree

import pytest
import requests
from azure.storage.fileshare import (
    FileSasPermissions,
    generate_file_sas,
)

from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.storage.storage_resource import parse_resource
from tests.server.running import SUBSCRIPTION, Running
from tests.server.storage.signed_urls import account_sas

AGENTS = ("azsdk-js-azure-storage-blob/12.31.0", "azsdk-python-storage-file-share/12.27.1", "curl/8.0")
SAID = [
    ("restype=share", {}, "file"),
    ("restype=directory", {}, "file"),
    ("comp=range", {}, "file"),
    ("comp=rangelist", {}, "file"),
    ("comp=rename", {}, "file"),
    ("sr=f", {}, "file"),
    ("sr=s", {}, "file"),
    ("ss=f", {}, "file"),
    ("", {"x-ms-type": "file"}, "file"),
    ("comp=properties", {"x-ms-content-type": "text/csv"}, "file"),
    ("restype=container", {}, "blob"),
    ("comp=block", {}, "blob"),
    ("comp=blocklist", {}, "blob"),
    ("sr=b", {}, "blob"),
    ("sr=c", {}, "blob"),
    ("ss=b", {}, "blob"),
    ("", {"x-ms-blob-type": "BlockBlob"}, "blob"),
    ("", {"x-ms-blob-type": "BlockBlob", "x-ms-content-crc64": "AAAA"}, "blob"),
    ("comp=properties", {"x-ms-blob-content-type": "text/csv"}, "blob"),
    ("restype=share", {"x-ms-blob-type": "BlockBlob"}, "file"),
    ("ss=bf", {}, ""),
    ("comp=metadata", {}, ""),
    ("", {"x-ms-copy-source": "http://localhost/local/a/b"}, ""),
]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_request_says_its_service_in_its_query_and_headers_and_never_by_its_user_agent(agent: str) -> None:
    for query, headers, service in SAID:
        asked = dict(pair.split("=") for pair in query.split("&") if pair)
        call = ApiCall("PUT", "/local/data/a.txt", asked, {**headers, "user-agent": agent})
        assert parse_resource(call, "127.0.0.1:10000").service == service, (query, headers)


@pytest.fixture(scope="module")
def both(server: Running) -> Iterator[str]:
    """The address of a share and of a container that have one name."""
    backend = server.world.backend
    for facet, name in ((backend.storage, "file"), (backend.containers, "blob")):
        facet.make("both")
        facet.upload("both", {name: name.encode(), "same": name.encode()})
    yield f"{server.url}/local/both"
    backend.storage.remove("both")
    backend.containers.remove("both")


@pytest.mark.slow
def test_file_is_found_in_a_share_or_container_of_the_same_name(server: Running, both: str) -> None:
    sas = account_sas(server)
    for name in ("file", "blob"):
        assert requests.get(f"{both}/{name}", params=sas).content == name.encode()
    assert requests.get(f"{both}/absent", params=sas).status_code == 404


@pytest.mark.slow
def test_ambiguous_path_in_a_share_and_container_changes_neither(server: Running, both: str) -> None:
    sas = account_sas(server)
    for method, path in (("GET", "same"), ("DELETE", "same"), ("DELETE", "blob"), ("DELETE", "absent")):
        answer = requests.request(method, f"{both}/{path}", params=sas)
        assert (answer.status_code, answer.headers["x-ms-error-code"]) == (409, "AmbiguousService")
    hosts = {"file": "local.file.localhost", "blob": "local.blob.localhost"}
    for name, host in hosts.items():
        answer = requests.get(f"{server.url}/both/same", params=sas, headers={"Host": host})
        assert answer.content == name.encode()


@pytest.mark.slow
def test_a_list_of_an_account_that_says_no_service_has_both_page_by_page(server: Running, both: str) -> None:
    backend, sas = server.world.backend, account_sas(server)
    backend.storage.make("lists-1")
    backend.containers.make("lists-2")
    pages, marker = [], ""
    while True:
        asked = {**sas, "comp": "list", "prefix": "lists-", "maxresults": "1", "marker": marker}
        told = ElementTree.fromstring(requests.get(f"{server.url}/local/", params=asked).content)
        pages.append(
            [
                [item.text for item in told.iter("Name")]
                for told in (told.find("Shares"), told.find("Containers"))
            ]
        )
        marker = told.findtext("NextMarker")
        if not marker:
            break
    assert pages == [[["lists-1"], []], [[], ["lists-2"]]]
    backend.storage.remove("lists-1")
    backend.containers.remove("lists-2")


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


@pytest.mark.slow
@pytest.mark.parametrize("host", ["local.file.core.windows.net", "LOCAL.file.localhost:10000"])
def test_a_file_is_read_by_its_accounts_host(server: Running, key: str, host: str) -> None:
    may, end = FileSasPermissions(read=True), datetime.now(timezone.utc) + SOON
    sas = generate_file_sas("local", "batchaishare", ["in", "log.txt"], key, may, end)
    assert at(server, host, "batchaishare/in/log.txt", sas).content == b"by its host"
    assert (
        at(server, host.lower().replace("local.", "other.", 1), "batchaishare/in/log.txt", sas).status_code
        == 403
    )


@pytest.mark.slow
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
