"""Properties of a file's content, as azure-storage-file-share sets and reads them."""

from __future__ import annotations

import pytest
import requests
from azure.storage.fileshare import (
    ContentSettings,
    FileSasPermissions,
    ShareClient,
    ShareFileClient,
    generate_file_sas,
)

from batchai_magics.server.storage.storage_metadata import MetadataStore
from tests.server.running import Running, connected
from tests.server.storage.files.clients import time_after

pytestmark = pytest.mark.slow
NAMES = ("content_type", "content_encoding", "content_language", "content_disposition", "cache_control")
VALUES = ("text/csv", "gzip", "de", 'attachment; filename="a.csv"', "max-age=60")
FULL = ContentSettings(**dict(zip(NAMES, VALUES, strict=True)))
NONE = ("application/octet-stream", None, None, None, None)


def of(file: ShareFileClient) -> tuple[str | None, ...]:
    settings = file.get_file_properties().content_settings
    return tuple(getattr(settings, name) for name in NAMES)


def test_file_keeps_its_initial_properties_until_others_are_set(server: Running, share: ShareClient) -> None:
    file = share.get_file_client("data.csv")
    file.upload_file(b"1,2", content_settings=FULL)
    assert of(file) == VALUES
    file.resize_file(5)
    assert of(file) == VALUES
    kept = MetadataStore(server.world.home / "server" / "metadata.jsonl")
    assert (
        kept.record(f"file/filesacct/{share.share_name}/data.csv").properties["Cache-Control"] == "max-age=60"
    )
    file.set_http_headers(ContentSettings(content_language="fr"))
    assert of(file) == (NONE[0], None, "fr", None, None)
    file.upload_file(b"3,4")
    assert of(file) == NONE


def test_unfinished_upload_shows_its_properties_to_its_sender(share: ShareClient) -> None:
    file = share.get_file_client("data.csv")
    file.create_file(3, content_settings=FULL)
    assert of(file) == VALUES
    file.set_http_headers(ContentSettings(content_type="text/plain"))
    file.upload_range(b"abc", offset=0, length=3)
    assert of(file) == ("text/plain", None, None, None, None)


def test_copied_and_renamed_files_keep_their_properties(share: ShareClient) -> None:
    file, copy = share.get_file_client("data.csv"), share.get_file_client("copy.csv")
    file.upload_file(b"1,2", content_settings=FULL)
    copy.start_copy_from_url(file.url)
    assert of(copy) == VALUES
    assert of(file.rename_file("other.csv")) == VALUES
    assert of(copy.rename_file("new.csv", content_type="text/plain")) == ("text/plain", *VALUES[1:])


def test_signed_url_overrides_the_properties_of_its_file(
    server: Running, share: ShareClient, account: tuple[str, str]
) -> None:
    share.get_file_client("data.csv").upload_file(b"1,2", content_settings=ContentSettings("text/csv"))
    sas = generate_file_sas(
        account[0],
        share.share_name,
        ["data.csv"],
        account[1],
        FileSasPermissions(read=True),
        time_after(),
        content_disposition='inline; filename="b.csv"',
    )
    told = requests.get(f"{server.url}/{account[0]}/{share.share_name}/data.csv?{sas}").headers
    assert (told["Content-Type"], told["Content-Disposition"]) == ("text/csv", 'inline; filename="b.csv"')
    assert "Cache-Control" not in told


def test_our_own_client_gets_the_bytes_as_they_are(server: Running, share: ShareClient) -> None:
    data = b"not compressed at all"
    share.get_file_client("data.gz").upload_file(data, content_settings=FULL)
    storage = connected(server.url).storage
    assert storage.download(f"filesacct/{share.share_name}", "data.gz") == data


def test_metadata_of_a_file_are_read_with_a_get(
    server: Running, share: ShareClient, account: tuple[str, str]
) -> None:
    share.get_file_client("data.csv").upload_file(b"1,2", metadata={"run": "7"})
    may = FileSasPermissions(read=True)
    sas = generate_file_sas(account[0], share.share_name, ["data.csv"], account[1], may, time_after())
    answer = requests.get(f"{server.url}/{account[0]}/{share.share_name}/data.csv?comp=metadata&{sas}")
    assert (answer.content, answer.headers["x-ms-meta-run"]) == (b"", "7")
