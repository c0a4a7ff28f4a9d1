"""Azure Blob Storage, so far as tutorials and mounts need it, by its own library."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from urllib.parse import urlencode

import pytest
import requests

from batchai_magics.server.storage.sas import signature
from tests.server.clients import drive
from tests.server.running import Running

pytestmark = pytest.mark.slow
LARGE = (5 << 20) + 7


@pytest.fixture(scope="module")
def results(server: Running) -> dict:
    key = server.context.keys.of("local")[0]
    return drive("blob", "drive_blob.py", server.url, "local", key)


def test_containers_are_made_once_and_listed(results: dict) -> None:
    assert results["twice"] == [409, "ContainerAlreadyExists"]
    assert "data" in results["containers"]


def test_blobs_come_back_as_they_were_sent_whole_and_in_blocks(results: dict) -> None:
    assert results["read"] == [True, True, True]
    assert (results["range"], results["size"]) == ("ex", LARGE)


def test_a_blob_is_copied_to_a_name_with_folders_of_its_own(results: dict) -> None:
    assert results["copied"] == "text"


def test_existing_blob_is_not_replaced_without_overwrite(results: dict) -> None:
    assert results["once"] == [409, "BlobAlreadyExists"]


def test_blobs_are_listed_flat_in_pages_and_by_level(results: dict) -> None:
    assert results["all"] == [["a/b/large.bin", LARGE], ["a/small.txt", 4], ["top.txt", 3]]
    assert results["pages"] == [2, 1]
    assert results["level"] == ["a/b/", "a/small.txt"]


def test_absent_and_deleted_blobs_are_not_found(results: dict) -> None:
    assert results["absent"] == [404, "BlobNotFound"]
    assert results["left"] == ["a/b/large.bin", "a/small.txt"]


def test_a_container_keeps_its_metadata_until_it_is_deleted(results: dict) -> None:
    assert results["container"] == [{"team": "a"}, {"team": "b<&>"}, {"team": "b<&>"}]
    assert results["anew"] == {}


def test_a_blob_has_the_metadata_that_it_was_put_with_until_others_are_set(results: dict) -> None:
    assert results["blobs"] == [{"epoch": "1"}, {"epoch": "2"}, {"epoch": "1"}]
    assert results["set"] == {"epoch": "3"}
    assert (results["replaced"], results["again"]) == ({}, {})


def test_a_list_of_blobs_has_their_metadata_if_that_is_wanted(results: dict) -> None:
    assert results["with"] == {"whole": {"epoch": "1"}, "in/blocks": {"epoch": "2"}}
    assert results["without"] == {"whole": {}, "in/blocks": {}}


def test_metadata_that_cannot_be_kept_are_refused(results: dict) -> None:
    assert results["misnamed"] == [400, "InvalidMetadata"]
    assert results["unset"] == [404, "BlobNotFound"]


def test_a_blob_has_the_properties_that_it_was_put_with_until_others_are_set(results: dict) -> None:
    full = ["text/csv", "gzip", "de", 'attachment; filename="a.csv"', "max-age=60"]
    assert results["typed"] == results["typed-blocks"] == [full, full]
    assert results["retyped"] == [["text/plain", None, None, None, None]] * 2
    assert results["untyped"] == [["application/octet-stream", None, None, None, None]] * 2


def test_a_blob_that_was_changed_meanwhile_is_not_overwritten(results: dict) -> None:
    assert results["met"] is None
    assert results["unmet"] == [[412, "ConditionNotMet"]] * 6
    assert results["four"] == "four"


def test_page_and_append_blobs_are_refused_when_they_are_made(results: dict) -> None:
    assert results["paged"] == results["append"] == [400, "InvalidHeaderValue"]


def test_a_job_finds_a_blob_in_the_container_that_it_mounts(server: Running, results: dict) -> None:
    containers = server.world.backend.containers
    assert containers.download("data", "a/small.txt") == b"text"
    assert [file.path for file in containers.list("data", "a/b")] == ["a/b/large.bin"]


def test_an_address_opens_its_blob_and_nothing_else(server: Running, results: dict) -> None:
    url = f"{server.url}/local/data"
    assert requests.get(f"{url}/a/small.txt?{results['sas']}").content == b"text"
    assert requests.get(f"{url}/a/b/large.bin?{results['sas']}").status_code == 403


def test_blocks_that_were_never_sent_make_no_blob(server: Running) -> None:
    body = "<?xml version='1.0'?><BlockList><Latest>AAAA</Latest></BlockList>"
    path = blob_path(server, "never.bin", "cw")
    answer = requests.put(f"{server.url}{path}&comp=blocklist", data=body)
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (400, "InvalidBlockList")
    evil = "<!DOCTYPE a [<!ENTITY b 'c'>]><BlockList><Latest>&b;</Latest></BlockList>"
    assert requests.put(f"{server.url}{path}&comp=blocklist", data=evil).status_code == 400


def blob_path(server: Running, name: str, permissions: str) -> str:
    """The address of a blob of the container `data`, signed as a service SAS for a blob."""
    expiry = (datetime.now(timezone.utc) + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    server.world.backend.containers.make("data")
    lines = [
        permissions,
        "",
        expiry,
        f"/blob/local/data/{name}",
        "",
        "",
        "",
        "2018-11-09",
        "b",
        "",
        *[""] * 5,
    ]
    sig = signature(server.context.keys.of("local")[0], "\n".join(lines))
    query = {"sv": "2018-11-09", "sr": "b", "sp": permissions, "se": expiry, "sig": sig}
    return f"/local/data/{name}?{urlencode(query)}"
