"""Metadata as azure-storage-file-share sets and reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import ShareClient, ShareDirectoryClient, ShareFileClient, ShareServiceClient

from batchai_magics.errors import StorageError
from batchai_magics.server.storage.storage_metadata import MetadataStore, StorageRecord
from tests.server.running import Running, connected
from tests.server.storage.files.conftest import account, service, share

__all__ = ["account", "service", "share"]
pytestmark = pytest.mark.slow
RUN = {"run": "7", "model": "ResNet 50"}


def of(client: ShareDirectoryClient | ShareFileClient) -> dict[str, str]:
    """What a folder or file says of itself."""
    is_file = isinstance(client, ShareFileClient)
    return (client.get_file_properties() if is_file else client.get_directory_properties()).metadata


def test_share_keeps_its_initial_metadata_until_other_is_set(service: ShareServiceClient) -> None:
    share = service.create_share("noted", metadata=RUN)
    assert share.get_share_properties().metadata == RUN
    share.set_share_metadata({"other": "ä&b".encode().hex()})
    assert share.get_share_properties().metadata == {"other": "c3a42662"}
    listed = {item.name: item for item in service.list_shares(include_metadata=True)}
    assert listed["noted"].metadata == {"other": "c3a42662"}
    assert not next(iter(service.list_shares(name_starts_with="noted"))).metadata
    share.delete_share()


def test_folder_keeps_its_metadata_when_it_is_renamed(share: ShareClient) -> None:
    folder = share.create_directory("in", metadata=RUN)
    share.get_file_client("in/log").upload_file(b"text", metadata={"of": "log"})
    folder.set_directory_metadata({"run": "8"})
    renamed = folder.rename_directory("out")
    assert of(renamed) == {"run": "8"}
    assert of(share.get_file_client("out/log")) == {"of": "log"}
    share.get_file_client("out/log").delete_file()
    renamed.delete_directory()
    assert of(share.create_directory("out")) == of(share.create_directory("in")) == {}


def test_file_keeps_its_metadata_until_its_content_is_replaced(share: ShareClient) -> None:
    file = share.get_file_client("model.bin")
    file.upload_file(b"old", metadata={"epoch": "1"})
    assert of(file) == {"epoch": "1"}
    file.create_file(6, metadata={"epoch": "2"})
    file.upload_range(b"abc", 0, 3)
    file.set_file_metadata({"epoch": "3"})
    assert of(file) == {"epoch": "3"}
    file.upload_range(b"def", 3, 3)
    assert (of(file), file.download_file().properties.metadata) == ({"epoch": "3"}, {"epoch": "3"})
    file.set_file_metadata({})
    assert of(file) == {}
    file.upload_file(b"", metadata=RUN)
    assert of(file) == RUN
    file.upload_file(b"new")
    assert of(file) == {}


def test_copy_has_the_metadata_of_its_source_unless_it_is_given_its_own(share: ShareClient) -> None:
    source, target = share.get_file_client("a"), share.get_file_client("b")
    source.upload_file(b"text", metadata=RUN)
    target.start_copy_from_url(source.url)
    assert of(target) == RUN
    target.start_copy_from_url(source.url, metadata={"copied": "yes"})
    assert of(target) == {"copied": "yes"}
    assert of(source.rename_file("b", overwrite=True)) == RUN


def test_upload_of_this_client_drops_earlier_metadata(
    server: Running, share: ShareClient, tmp_path: Path
) -> None:
    for name in "ab":
        share.get_file_client(name).upload_file(b"old", metadata=RUN)
    storage, name = connected(server.url).storage, f"filesacct/{share.share_name}"
    storage.upload_small(name, "a", b"new")
    storage.store_pack(name, {"b": b"new"})
    assert of(share.get_file_client("a")) == of(share.get_file_client("b")) == {}


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"1st": "x"}, "InvalidMetadata"),
        ({"a-b": "x"}, "InvalidMetadata"),
        ({"a": "x" * 9000}, "MetadataTooLarge"),
    ],
)
def test_invalid_names_and_too_large_metadata_are_refused(
    share: ShareClient, metadata: dict, code: str
) -> None:
    file = share.get_file_client("a")
    with pytest.raises(HttpResponseError) as caught:
        file.upload_file(b"text", metadata=metadata)
    assert (caught.value.status_code, caught.value.error_code) == (400, code)
    assert not file.exists()


def test_the_next_server_knows_them_and_forgets_half_a_line(tmp_path: Path) -> None:
    file = tmp_path / "metadata.jsonl"
    first = MetadataStore(file)
    for key in ("file/local/a", "file/local/a/b", "file/local/ab"):
        first.set(key, StorageRecord({"of": key}))
    typed = StorageRecord(properties={"Content-Type": "text/csv"}, revision="1a", changed=1.5)
    first.set("blob/local/typed", typed)
    first.move("file/local/a", "file/local/c")
    first.forget("file/local/ab")
    with file.open("a") as stream:
        stream.write('\n["file/local/d", {"metadata": {"of')
    after = MetadataStore(file)
    assert after.record("file/local/c/b").metadata == {"of": "file/local/a/b"}
    assert [after.record(f"file/local/{name}").metadata for name in ("a", "ab", "d")] == [{}, {}, {}]
    assert (after.record("blob/local/typed"), after.record("blob/local/typed").metadata) == (typed, {})
    assert len(file.read_text().strip().splitlines()) == 3


@pytest.mark.parametrize(
    "line", ['["file/local/a", {"run": "7"}]', '["file/local/a", {}, {"revision": "1a"}]']
)
def test_metadata_of_another_version_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "metadata.jsonl").write_text(f"{line}\n")
    with pytest.raises(StorageError, match="another version"):
        MetadataStore(tmp_path / "metadata.jsonl")
