"""Azure Files as its own library uses it, with keys and signatures, against a real server."""

from __future__ import annotations

import os

import pytest
import requests
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.storage.fileshare import (
    FileSasPermissions,
    ShareClient,
    ShareSasPermissions,
    ShareServiceClient,
    generate_file_sas,
    generate_share_sas,
)

from tests.server.running import Running
from tests.server.storage.files.clients import client, names, time_after

pytestmark = pytest.mark.slow

MIB = 1 << 20


def test_shares_are_made_once_listed_and_deleted(service: ShareServiceClient) -> None:
    made = service.create_share("made")
    with pytest.raises(ResourceExistsError) as caught:
        service.create_share("made")
    assert caught.value.error_code == "ShareAlreadyExists"
    assert "made" in [item.name for item in service.list_shares(name_starts_with="ma")]
    assert made.get_share_properties().name == "made"
    service.delete_share("made")
    with pytest.raises(ResourceNotFoundError):
        made.get_share_properties()


def test_folders_are_made_one_in_the_other_and_deleted_when_empty(share: ShareClient) -> None:
    share.create_directory("a")
    inner = share.create_directory("a/b c")
    assert inner.exists()
    with pytest.raises(ResourceNotFoundError) as caught:
        share.create_directory("x/y")
    assert caught.value.error_code == "ParentNotFound"
    with pytest.raises(ResourceExistsError) as caught:
        share.delete_directory("a")
    assert caught.value.error_code == "DirectoryNotEmpty"
    inner.delete_directory()
    share.delete_directory("a")
    assert names(share) == []


@pytest.mark.parametrize("size", [0, 1, 4 * MIB, 9 * MIB + 5])
def test_a_file_comes_back_as_it_was_sent(share: ShareClient, size: int) -> None:
    data, file = os.urandom(size), share.get_file_client("data.bin")
    file.upload_file(data, max_concurrency=3)
    assert file.get_file_properties().size == size
    assert file.download_file().readall() == data


def test_a_file_on_its_way_is_on_its_share_only_when_it_is_whole(server: Running, share: ShareClient) -> None:
    storage, name = server.world.backend.storage, f"filesacct/{share.share_name}"
    file = share.get_file_client("model.bin")
    file.upload_file(b"old")
    file.create_file(6)
    file.upload_range(b"def", offset=3, length=3)
    assert file.get_file_properties().size == 6
    assert file.download_file().readall() == b"\0\0\0def"
    assert storage.download(name, "model.bin") == b"old"
    file.upload_range(b"abc", offset=0, length=3)
    assert storage.download(name, "model.bin") == b"abcdef"
    assert names(share) == ["model.bin"]


def test_a_list_comes_in_pages_and_by_prefix(share: ShareClient) -> None:
    share.create_directory("logs")
    for number in range(7):
        share.get_file_client(f"logs/run-{number}.txt").upload_file(b"x" * number)
    share.get_file_client("logs/ä & <b>.txt").upload_file(b"")
    listed = list(share.list_directories_and_files("logs", name_starts_with="run-", results_per_page=3))
    assert [(item["name"], item["size"]) for item in listed] == [(f"run-{n}.txt", n) for n in range(7)]
    assert "ä & <b>.txt" in names(share, "logs")


def test_files_and_folders_get_other_names(share: ShareClient) -> None:
    share.create_directory("a").rename_directory("b")
    file = share.get_file_client("b/old.txt")
    file.upload_file(b"text")
    renamed = file.rename_file("b/new.txt")
    assert renamed.download_file().readall() == b"text"
    assert (names(share), names(share, "b")) == (["b"], ["new.txt"])
    share.get_file_client("b/other.txt").upload_file(b"")
    with pytest.raises(ResourceExistsError):
        renamed.rename_file("b/other.txt")
    renamed.rename_file("b/other.txt", overwrite=True)
    assert names(share, "b") == ["other.txt"]


def test_a_changed_body_is_noticed(server: Running, share: ShareClient) -> None:
    file = share.get_file_client("a.txt")
    file.create_file(3)
    with pytest.raises(HttpResponseError) as caught:
        file.upload_range(b"abc", offset=0, length=3, headers={"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert caught.value.error_code == "Md5Mismatch"


def test_a_file_is_copied_on_the_server(service: ShareServiceClient, share: ShareClient) -> None:
    share.create_directory("in")
    share.get_file_client("in/old").upload_file(b"old" * 1000)
    target = share.get_file_client("new")
    target.upload_file(b"what was there")
    told = target.start_copy_from_url(share.get_file_client("in/old").url)
    assert told["copy_status"] == "success"
    assert target.download_file().readall() == b"old" * 1000
    other = service.create_share("copied")
    other.get_file_client("new").start_copy_from_url(target.url)
    assert other.get_file_client("new").download_file().readall() == b"old" * 1000
    service.delete_share("copied")


def test_what_is_no_file_of_the_account_is_not_copied(server: Running, share: ShareClient) -> None:
    share.create_directory("folder")
    server.world.backend.storage.upload("batchaishare", {"others.txt": b"others"})
    target = share.get_file_client("new")
    folder = share.get_directory_client("folder").url
    sources = [
        folder,
        f"{share.url}/nothere",
        f"{server.url}/local/batchaishare/others.txt",
        "https://a.b/c/d",
    ]
    for source in sources:
        with pytest.raises(HttpResponseError) as caught:
            target.start_copy_from_url(source)
        assert caught.value.status_code in (403, 404)
    assert not target.exists()


def test_an_address_of_one_file_copies_no_other_one(
    server: Running, share: ShareClient, account: tuple[str, str]
) -> None:
    share.get_file_client("secret").upload_file(b"secret")
    may_write = FileSasPermissions(read=True, create=True, write=True)
    sas = generate_file_sas(
        account[0],
        share.share_name,
        ["mine"],
        account_key=account[1],
        permission=may_write,
        expiry=time_after(),
    )
    url = f"{server.url}/{account[0]}/{share.share_name}/mine?{sas}"
    answer = requests.put(url, headers={"x-ms-copy-source": share.get_file_client("secret").url})
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (403, "AuthenticationFailed")
    assert names(share) == ["secret"]


def test_a_part_of_a_file_is_not_copied(share: ShareClient) -> None:
    source, target = share.get_file_client("a"), share.get_file_client("b")
    for file in (source, target):
        file.upload_file(file.file_name.encode())
    with pytest.raises(HttpResponseError, match="Only whole files are copied"):
        target.upload_range_from_url(source.url, 0, 1, 0)
    assert target.download_file().readall() == b"b"


def test_no_path_leads_out_of_a_share(server: Running, share: ShareClient, account: tuple[str, str]) -> None:
    may = ShareSasPermissions(read=True, write=True, create=True, list=True)
    sas = generate_share_sas(account[0], share.share_name, account[1], may, time_after())
    for path in ("%2e%2e/%2e%2e/state.db", "a/..%2f..%2fx", "..%5cx", "%00"):
        url = f"{server.url}/{account[0]}/{share.share_name}/{path}?{sas}"
        prepared = requests.Request("GET", url).prepare()
        prepared.url = url
        with requests.Session() as session:
            answer = session.send(prepared)
        assert answer.status_code in (400, 403, 404), path


def test_a_new_key_makes_what_the_old_one_signed_worthless(server: Running) -> None:
    path = "/subscriptions/{}/resourceGroups/files/providers/Microsoft.Storage/storageAccounts/renewed"
    path = path.format(server.context.subscription)
    server.json("PUT", path, json={"location": "eastus"})
    old = server.json("POST", f"{path}/listKeys")["keys"][0]["value"]
    service = client(server, "renewed", AzureNamedKeyCredential("renewed", old))
    assert list(service.list_shares()) == []
    keys = server.json("POST", f"{path}/regenerateKey", json={"keyName": "key1"})["keys"]
    assert keys[0]["value"] != old
    with pytest.raises(ClientAuthenticationError):
        list(service.list_shares())
