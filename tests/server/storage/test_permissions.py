"""What signatures may do: each permission, for each operation, by each kind of signature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import combinations
from pathlib import Path

import pytest
import requests
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import ShareClient, ShareSasPermissions, generate_share_sas

from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.storage.sas import RequestOrigin, signature
from batchai_magics.server.storage.storage_resource import StorageApiError
from batchai_magics.server.storage.storage_router import StorageRouter
from batchai_magics.server.storage.unfinished_uploads import PartFiles, UnfinishedUploads
from tests.server.running import Running
from tests.server.storage.signed_urls import signed_path

pytestmark = pytest.mark.slow
VERSION, END = "2018-11-09", "2999-01-01"
SETS = ["".join(some) for count in range(6) for some in combinations("rcwdl", count)]
COPY = {"x-ms-copy-source": "http://localhost/local/share/other.txt"}
RENAME = {"x-ms-file-rename-source": "http://localhost/local/share/other.txt"}
PAGE = {"x-ms-blob-type": "BlockBlob"}


@dataclass(frozen=True)
class Row:
    """An operation as a request, and what the service's tables say of it.

    Attributes:
        any_of: The permissions of which one is enough.
        account: The resource type that an account's signature must have.
        scopes: The values of `sr` that are enough.
        source: The permission that the operation needs of a second file.
    """

    request: str
    any_of: str
    account: str
    scopes: str = ""
    source: str = ""
    header: tuple[tuple[str, str], ...] = ()


def row(request: str, *rule: str, **headers: str) -> Row:
    source = {"x-ms-copy-source": "r", "x-ms-file-rename-source": "d"}
    needed = next((source[name] for name in headers if name in source), "")
    return Row(request, *rule, source=needed, header=tuple(headers.items()))


FILE = {
    "List Shares": row("GET /?comp=list", "l", "s"),
    "Create Share": row("PUT /share?restype=share", "cw", "c"),
    "Get Share Properties": row("GET /share?restype=share", "r", "c"),
    "Get Share Properties with HEAD": row("HEAD /share?restype=share", "r", "c"),
    "Get Share Metadata": row("GET /share?restype=share&comp=metadata", "r", "c"),
    "Set Share Metadata": row("PUT /share?restype=share&comp=metadata", "w", "c"),
    "Delete Share": row("DELETE /share?restype=share", "d", "c"),
    "List Directories and Files": row("GET /share?restype=directory&comp=list", "l", "c", "s"),
    "List Directories and Files below": row("GET /share/in?restype=directory&comp=list", "l", "c", "s"),
    "Get Root Properties": row("GET /share?restype=directory", "r", "o", "s"),
    "Create Directory": row("PUT /share/in?restype=directory", "cw", "o", "s"),
    "Get Directory Properties": row("GET /share/in?restype=directory", "r", "o", "s"),
    "Get Directory Metadata": row("GET /share/in?restype=directory&comp=metadata", "r", "o", "s"),
    "Set Directory Metadata": row("PUT /share/in?restype=directory&comp=metadata", "w", "o", "s"),
    "Delete Directory": row("DELETE /share/in?restype=directory", "d", "o", "s"),
    "Rename Directory": row("PUT /share/in?restype=directory&comp=rename", "cw", "o", "s", **RENAME),
    "Create File": row("PUT /share/a.txt", "cw", "o", "fs"),
    "Put Range": row("PUT /share/a.txt?comp=range", "w", "o", "fs"),
    "Set File Properties": row("PUT /share/a.txt?comp=properties", "w", "o", "fs"),
    "Set File Metadata": row("PUT /share/a.txt?comp=metadata", "w", "o", "fs"),
    "Get File Metadata": row("GET /share/a.txt?comp=metadata", "r", "o", "fs"),
    "List Ranges": row("GET /share/a.txt?comp=rangelist", "r", "o", "fs"),
    "Get File": row("GET /share/a.txt", "r", "o", "fs"),
    "Get File Properties": row("HEAD /share/a.txt", "r", "o", "fs"),
    "Delete File": row("DELETE /share/a.txt", "d", "o", "fs"),
    "Copy File": row("PUT /share/a.txt", "cw", "o", "s", **COPY),
    "Rename File": row("PUT /share/a.txt?comp=rename", "cw", "o", "s", **RENAME),
}
BLOB = {
    "List Containers": row("GET /?comp=list", "l", "s"),
    "Create Container": row("PUT /share?restype=container", "cw", "c"),
    "Get Container Properties": row("GET /share?restype=container", "r", "c"),
    "Get Container Metadata": row("GET /share?restype=container&comp=metadata", "r", "c"),
    "Set Container Metadata": row("PUT /share?restype=container&comp=metadata", "w", "c"),
    "Delete Container": row("DELETE /share?restype=container", "d", "c"),
    "List Blobs": row("GET /share?restype=container&comp=list", "l", "c", "c"),
    "Put Blob": row("PUT /share/a.txt", "cw", "o", "bc", **PAGE),
    "Put Block": row("PUT /share/a.txt?comp=block&blockid=AAAA", "w", "o", "bc"),
    "Put Block List": row("PUT /share/a.txt?comp=blocklist", "w", "o", "bc"),
    "Set Blob Metadata": row("PUT /share/a.txt?comp=metadata", "w", "o", "bc"),
    "Set Blob Properties": row("PUT /share/a.txt?comp=properties", "w", "o", "bc"),
    "Get Blob Metadata": row("GET /share/a.txt?comp=metadata", "r", "o", "bc"),
    "Get Blob": row("GET /share/a.txt", "r", "o", "bc"),
    "Get Blob Properties": row("HEAD /share/a.txt", "r", "o", "bc"),
    "Delete Blob": row("DELETE /share/a.txt", "d", "o", "bc"),
    "Copy Blob": row("PUT /share/a.txt", "cw", "o", "c", **COPY),
}
CELLS = [("file", name) for name in FILE] + [("blob", name) for name in BLOB]


def signed(key: str, service: str, path: str, permissions: str, kind: str) -> dict[str, str]:
    """A signature with permissions: of the account for a type (`+o`), or of the service for an `sr` (`f`)."""
    if kind.startswith("+"):
        said = {"sp": permissions, "ss": service[0], "srt": kind[1:]}
        lines = ["local", *said.values(), "", END, "", "", VERSION, ""]
    else:
        said = {"sp": permissions, "sr": kind}
        place = path if kind in "fb" else path.partition("/")[0]
        lines = [permissions, "", END, f"/{service}/local/{place}".rstrip("/"), "", "", "", VERSION]
        lines += [*([kind, ""] if service == "blob" else []), *[""] * 5]
    return {**said, "se": END, "sv": VERSION, "sig": signature(key, "\n".join(lines))}


@pytest.fixture(scope="module")
def router(server: Running, tmp_path_factory: pytest.TempPathFactory) -> StorageRouter:
    parts = PartFiles(tmp_path_factory.mktemp("parts"))
    return StorageRouter(server.context, UnfinishedUploads(parts, server.world.backend))


def is_let_in(router: StorageRouter, service: str, found: Row, permissions: str, kind: str) -> bool:
    method, _, target = found.request.partition(" /")
    path, _, query = target.partition("?")
    asked = dict(pair.split("=") for pair in query.split("&") if pair)
    key = router.context.keys.of("local")[0]
    sent = {**asked, **signed(key, service, path, permissions, kind)}
    caller = RequestOrigin(datetime.now(timezone.utc), "127.0.0.1")
    try:
        headers = {**dict(found.header), "host": f"local.{service}.localhost"}
        router.authorize(ApiCall(method, f"/{path}", sent, headers), caller)
    except StorageApiError:
        return False
    return True


@pytest.mark.parametrize(("service", "operation"), CELLS)
def test_an_operation_needs_what_the_table_says(router: StorageRouter, service: str, operation: str) -> None:
    found = (FILE if service == "file" else BLOB)[operation]
    wrong = []
    for kind in ("+s", "+c", "+o", "+sco", *("fs" if service == "file" else "bc")):
        is_of_kind = found.account in kind if kind.startswith("+") else kind in found.scopes
        for some in SETS:
            expected = is_of_kind and bool(set(some) & set(found.any_of)) and set(found.source) <= set(some)
            if is_let_in(router, service, found, some, kind) is not expected:
                wrong.append((kind, some, expected))
    assert wrong == []


@pytest.mark.parametrize("kind", ["", "d", "bs", "x"])
@pytest.mark.parametrize("service", ["file", "blob"])
def test_signature_for_an_unknown_kind_of_resource_is_refused(
    router: StorageRouter, service: str, kind: str
) -> None:
    assert not is_let_in(router, service, row("GET /share/a.txt", "", ""), "rcwdl", kind)


@dataclass
class SharePlace:
    """A share or container of a test's own on a real server."""

    server: Running
    service: str
    name: str

    def ask(self, method: str, path: str, permissions: str, **more: object) -> requests.Response:
        """One request, with a signature for the whole share or container unless `kind` says another."""
        key, kind = self.server.context.keys.of("local")[0], more.pop("kind", "s")
        kind = kind if self.service == "file" else {"s": "c", "f": "b"}[kind]
        query = signed(key, self.service, f"{self.name}/{path}", permissions, kind)
        params = {**query, **more.pop("params", {})}
        return requests.request(method, self.url(path), params=params, **more)

    def url(self, path: str) -> str:
        return f"{self.server.url}/local/{self.name}/{path}"

    def create(self, path: str, permissions: str, size: int = 0, **more: object) -> requests.Response:
        headers = {"x-ms-type": "file", "x-ms-content-length": str(size)}
        if self.service == "blob":
            return self.ask("PUT", path, permissions, headers=PAGE, data=bytes(size), **more)
        return self.ask("PUT", path, permissions, headers=headers, **more)

    def rename(self, path: str, source: str, permissions: str, **more: object) -> requests.Response:
        headers = {"x-ms-type": "file", "x-ms-file-rename-source": source, **more.pop("headers", {})}
        return self.ask("PUT", path, permissions, headers=headers, params={"comp": "rename"}, **more)

    def files(self) -> dict[str, bytes]:
        storage = self.server.world.backend
        facet = storage.storage if self.service == "file" else storage.containers
        return {
            file.path: facet.download(self.name, file.path)
            for file in facet.list(self.name)
            if file.is_file and not Path(file.path).name.startswith(".part")
        }


@pytest.fixture(params=["file", "blob"])
def place(server: Running, request: pytest.FixtureRequest) -> Iterator[SharePlace]:
    """A place with the files `mine` and `other`, and a folder with a file."""
    backend, name = server.world.backend, f"may-{request.param}"
    facet = backend.storage if request.param == "file" else backend.containers
    facet.make(name)
    facet.upload(name, {"mine": b"mine", "other": b"other", "in/deep": b"deep"})
    yield SharePlace(server, request.param, name)
    facet.remove(name)


@pytest.fixture
def share(server: Running) -> Iterator[SharePlace]:
    storage = server.world.backend.storage
    storage.make("may-share")
    storage.upload("may-share", {"mine": b"mine", "other": b"other", "in/deep": b"deep"})
    yield SharePlace(server, "file", "may-share")
    storage.remove("may-share")


@pytest.mark.parametrize("size", [0, 6])
def test_permission_to_create_does_not_allow_replacing_a_file(place: SharePlace, size: int) -> None:
    before = place.files()
    for permissions in ("c", "cr", "cd"):
        assert place.create("mine", permissions, size).status_code == 403
        headers = {"x-ms-copy-source": place.url("other")}
        assert place.ask("PUT", "mine", f"{permissions}r", headers=headers).status_code == 403
    assert place.files() == before
    assert place.create("new", "c", size).status_code == 201
    assert place.create("mine", "w", 0).status_code == 201
    assert place.files()["mine"] == b""


def test_permission_to_create_cannot_abort_another_upload(share: SharePlace) -> None:
    share.create("new", "w", 6)
    assert share.create("new", "c", 6).status_code == 403
    headers = {"x-ms-range": "bytes=0-5", "x-ms-write": "update"}
    share.ask("PUT", "new", "w", headers=headers, params={"comp": "range"}, data=b"abcdef")
    assert share.files()["new"] == b"abcdef"


def test_rename_needs_permission_to_delete_the_source(share: SharePlace, server: Running) -> None:
    before = share.files()
    other = share.url("other")
    own = {
        permissions: server.url + signed_path(server, "may-share", "other", permissions)
        for permissions in ("rw", "d")
    }
    assert share.rename("new", other, "rwcd", kind="f").status_code == 403  # a signature for another file
    assert share.rename("new", other, "rcw").status_code == 403
    assert share.rename("new", own["rw"], "rcwd", kind="f").status_code == 403
    assert (
        share.rename("new", f"{other}?sig=AAAA&sp=d&sr=f&se=2999-01-01&sv=2018-11-09", "rcwd").status_code
        == 403
    )
    assert share.rename("new", own["d"], "rd", kind="f").status_code == 403  # the target
    assert share.files() == before
    assert share.rename("new", own["d"], "c", kind="f").status_code == 200
    assert share.files() == {"mine": b"mine", "new": b"other"}


def test_a_file_of_another_share_is_not_renamed_to_this_one(share: SharePlace, server: Running) -> None:
    storage, before = server.world.backend.storage, share.files()
    storage.make("elsewhere")
    storage.upload("elsewhere", {"other": b"elsewhere"})
    source = server.url + signed_path(server, "elsewhere", "other", "d")
    answer = share.rename("new", source, "rcwd")
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (400, "InvalidHeaderValue")
    assert (share.files(), storage.download("elsewhere", "other")) == (before, b"elsewhere")
    storage.remove("elsewhere")


def test_rename_onto_a_file_needs_permission_to_replace_it(share: SharePlace) -> None:
    before, headers = share.files(), {"x-ms-file-rename-replace-if-exists": "true"}
    own = share.server.url + signed_path(share.server, "may-share", "other", "d")
    for permissions in ("c", "w", "cd"):
        assert share.rename("mine", own, permissions, headers=headers, kind="f").status_code == 403
    assert share.files() == before
    assert share.rename("mine", own, "wd", headers=headers, kind="f").status_code == 200
    assert share.files() == {"mine": b"other"}


def test_a_signature_for_a_file_does_nothing_to_a_folder(share: SharePlace) -> None:
    own = share.server.url + signed_path(share.server, "may-share", "in", "rwd")
    assert share.rename("taken", own, "cwd", kind="f").status_code == 409
    ours = {"x-batchai-client": "1"}
    assert share.ask("DELETE", "in", "rcwdl", kind="f", headers=ours).status_code == 409
    assert share.ask("DELETE", "in", "rcwdl", kind="s", headers=ours).status_code == 409
    assert share.server.world.backend.storage.download("may-share", "in/deep") == b"deep"


def test_headers_of_our_own_client_do_nothing_with_a_signature(place: SharePlace) -> None:
    headers = {"x-batchai-client": "1", "x-batchai-service": "blob", "x-batchai-upload": "whole"}
    headers |= {"x-batchai-sha256": "0" * 64, "x-ms-range": "bytes=0-2"}
    answer = place.ask("PUT", "mine", "w", headers=headers, params={"comp": "range"}, data=b"abc")
    assert answer.status_code == (201 if place.service == "file" else 400)  # a range, as everybody writes it
    assert place.files()["mine"] == (b"abce" if place.service == "file" else b"mine")


@pytest.mark.parametrize("credential", [str, AzureSasCredential])
def test_the_genuine_library_renames_with_a_signature(share: SharePlace, credential: type) -> None:
    may, end = ShareSasPermissions(read=True, write=True, delete=True), datetime.now(timezone.utc)
    key = share.server.context.keys.of("local")[0]
    sas = generate_share_sas("local", share.name, key, may, end + timedelta(minutes=5))
    client = ShareClient(f"{share.server.url}/local", share.name, credential=credential(sas), retry_total=0)
    client.get_file_client("other").rename_file("new")
    client.get_directory_client("in").rename_directory("out")
    assert share.files() == {"mine": b"mine", "new": b"other"}
    with pytest.raises(HttpResponseError):
        client.get_file_client("mine").rename_file("out")
