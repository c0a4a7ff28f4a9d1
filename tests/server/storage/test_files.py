"""Azure Files as its own library uses it, against a real server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
import requests
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.storage.fileshare import (
    AccountSasPermissions,
    FileSasPermissions,
    ResourceTypes,
    ShareClient,
    ShareSasPermissions,
    ShareServiceClient,
    generate_account_sas,
    generate_file_sas,
    generate_share_sas,
)

from tests.server.running import Running

pytestmark = pytest.mark.slow
SOON = timedelta(minutes=5)
MIB = 1 << 20


@pytest.fixture(scope="module")
def account(server: Running) -> tuple[str, str]:
    """The name and key of an account that Azure Resource Manager has made."""
    path = "/subscriptions/{}/resourceGroups/files/providers/Microsoft.Storage/storageAccounts/filesacct"
    path = path.format(server.service.subscription)
    server.json("PUT", path, json={"location": "eastus", "sku": {"name": "Standard_LRS"}})
    return "filesacct", server.json("POST", f"{path}/listKeys")["keys"][1]["value"]


@pytest.fixture(scope="module")
def service(server: Running, account: tuple[str, str]) -> ShareServiceClient:
    return client(server, account[0], AzureNamedKeyCredential(*account))


@pytest.fixture
def share(service: ShareServiceClient, request: pytest.FixtureRequest) -> Iterator[ShareClient]:
    """A share of the test's own."""
    made = service.get_share_client(f"share-{abs(hash(request.node.name)) % 10**8}")
    made.create_share()
    yield made
    made.delete_share()


def client(server: Running, name: str, credential: object) -> ShareServiceClient:
    return ShareServiceClient(f"{server.url}/{name}", credential=credential, retry_total=0)


def names(share: ShareClient, folder: str = "", **more: object) -> list[str]:
    return [item["name"] for item in share.list_directories_and_files(folder, **more)]


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


def test_a_range_is_what_was_asked_for_and_none_lies_behind_the_end(share: ShareClient) -> None:
    file = share.get_file_client("log.txt")
    file.upload_file(b"0123456789")
    assert file.download_file(offset=3, length=4).readall() == b"3456"
    assert file.download_file(offset=8, length=100).readall() == b"89"
    with pytest.raises(HttpResponseError) as caught:
        file.download_file(offset=10, length=1)
    assert (caught.value.status_code, caught.value.error_code) == (416, "InvalidRange")


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


def test_a_log_grows_by_its_size_and_its_last_range(share: ShareClient) -> None:
    file = share.get_file_client("log.txt")
    file.create_file(0)
    for number, line in enumerate([b"one\n", b"two\n"]):
        file.resize_file(4 * (number + 1))
        file.upload_range(line, offset=4 * number, length=4)
    assert file.download_file().readall() == b"one\ntwo\n"


def test_a_range_that_is_cleared_is_zeros(share: ShareClient) -> None:
    file = share.get_file_client("data.bin")
    file.upload_file(b"x" * 1536)
    file.clear_range(offset=512, length=512)
    assert file.download_file().readall() == b"x" * 512 + bytes(512) + b"x" * 512


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


def test_a_file_that_is_deleted_is_gone(share: ShareClient) -> None:
    file = share.get_file_client("a.txt")
    file.upload_file(b"x")
    file.delete_file()
    assert not file.exists()
    with pytest.raises(ResourceNotFoundError):
        file.delete_file()


def test_a_changed_body_is_noticed(server: Running, share: ShareClient) -> None:
    file = share.get_file_client("a.txt")
    file.create_file(3)
    with pytest.raises(HttpResponseError) as caught:
        file.upload_range(b"abc", offset=0, length=3, headers={"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert caught.value.error_code == "Md5Mismatch"


# who may


def later(delta: timedelta = SOON) -> datetime:
    return datetime.now(timezone.utc) + delta


def test_a_key_that_is_not_the_accounts_opens_nothing(server: Running, account: tuple[str, str]) -> None:
    forged = AzureNamedKeyCredential(account[0], "AAAA" + account[1][4:])
    with pytest.raises(ClientAuthenticationError) as caught:
        list(client(server, account[0], forged).list_shares())
    assert caught.value.error_code == "AuthenticationFailed"


def test_a_key_of_another_account_opens_nothing(server: Running, account: tuple[str, str]) -> None:
    with pytest.raises(HttpResponseError) as caught:
        list(client(server, "local", AzureNamedKeyCredential("local", account[1])).list_shares())
    assert caught.value.status_code == 403


def test_an_address_opens_its_file_and_nothing_else(
    server: Running, share: ShareClient, account: tuple[str, str]
) -> None:
    for name in ("mine.txt", "other.txt"):
        share.get_file_client(name).upload_file(b"text")
    may = FileSasPermissions(read=True)
    sas = generate_file_sas(account[0], share.share_name, ["mine.txt"], account[1], may, later())
    url = f"{server.url}/{account[0]}/{share.share_name}"
    assert requests.get(f"{url}/mine.txt?{sas}").content == b"text"
    assert requests.get(f"{url}/other.txt?{sas}").status_code == 403
    assert requests.delete(f"{url}/mine.txt?{sas}").status_code == 403


def test_an_address_is_worth_nothing_before_its_time_and_after_it(
    server: Running, share: ShareClient, account: tuple[str, str]
) -> None:
    share.get_file_client("mine.txt").upload_file(b"text")
    url = f"{server.url}/{account[0]}/{share.share_name}/mine.txt"
    may = FileSasPermissions(read=True)
    for start, end in ((None, later(-SOON)), (later(SOON), later(SOON * 2))):
        sas = generate_file_sas(account[0], share.share_name, ["mine.txt"], account[1], may, end, start=start)
        answer = requests.get(f"{url}?{sas}")
        assert (answer.status_code, answer.headers["x-ms-error-code"]) == (403, "AuthenticationFailed")


def test_a_signature_for_a_share_lists_and_writes_on_it(
    server: Running, share: ShareClient, account: tuple[str, str]
) -> None:
    may = ShareSasPermissions(read=True, write=True, create=True, list=True)
    sas = generate_share_sas(account[0], share.share_name, account[1], may, later())
    other = ShareClient(
        f"{server.url}/{account[0]}", share.share_name, credential=AzureSasCredential(sas), retry_total=0
    )
    other.get_file_client("a.txt").upload_file(b"text")
    assert names(other) == ["a.txt"]
    with pytest.raises(HttpResponseError):
        other.get_file_client("a.txt").delete_file()


def test_a_signature_for_an_account_opens_the_kinds_that_it_names(
    server: Running, share: ShareClient, account: tuple[str, str]
) -> None:
    may, objects = AccountSasPermissions(read=True, list=True), ResourceTypes(object=True)
    sas = generate_account_sas(*account, resource_types=objects, permission=may, expiry=later())
    share.get_file_client("a.txt").upload_file(b"text")
    url = f"{server.url}/{account[0]}"
    assert requests.get(f"{url}/{share.share_name}/a.txt?{sas}").content == b"text"
    assert requests.get(f"{url}/?comp=list&{sas}").status_code == 403


def test_no_path_leads_out_of_a_share(server: Running, share: ShareClient, account: tuple[str, str]) -> None:
    may = ShareSasPermissions(read=True, write=True, create=True, list=True)
    sas = generate_share_sas(account[0], share.share_name, account[1], may, later())
    for path in ("%2e%2e/%2e%2e/state.db", "a/..%2f..%2fx", "..%5cx", "%00"):
        url = f"{server.url}/{account[0]}/{share.share_name}/{path}?{sas}"
        prepared = requests.Request("GET", url).prepare()
        prepared.url = url
        with requests.Session() as session:
            answer = session.send(prepared)
        assert answer.status_code in (400, 403, 404), path


def test_a_new_key_makes_what_the_old_one_signed_worthless(server: Running) -> None:
    path = "/subscriptions/{}/resourceGroups/files/providers/Microsoft.Storage/storageAccounts/renewed"
    path = path.format(server.service.subscription)
    server.json("PUT", path, json={"location": "eastus"})
    old = server.json("POST", f"{path}/listKeys")["keys"][0]["value"]
    service = client(server, "renewed", AzureNamedKeyCredential("renewed", old))
    assert list(service.list_shares()) == []
    keys = server.json("POST", f"{path}/regenerateKey", json={"keyName": "key1"})["keys"]
    assert keys[0]["value"] != old
    with pytest.raises(ClientAuthenticationError):
        list(service.list_shares())


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
    expiry = datetime.now(timezone.utc) + SOON
    sas = generate_file_sas(
        account[0], share.share_name, ["mine"], account_key=account[1], permission=may_write, expiry=expiry
    )
    url = f"{server.url}/{account[0]}/{share.share_name}/mine?{sas}"
    answer = requests.put(url, headers={"x-ms-copy-source": share.get_file_client("secret").url})
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (404, "CannotVerifyCopySource")
    assert names(share) == ["secret"]
