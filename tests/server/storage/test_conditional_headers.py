"""Conditional headers of blobs: what each one requires, of each operation, also of two that race."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest
import requests

from batchai_magics.server.storage import storage_request
from batchai_magics.server.storage.storage_request import BlobVersion, http_date
from batchai_magics.server.storage.storage_resource import StorageApiError
from tests.patience import PATIENCE_S
from tests.server.running import Running, connected
from tests.server.storage.signed_urls import account_sas
from tests.world import until

NOW = datetime(2026, 11, 22, 12, 0, 0, 500_000, tzinfo=timezone.utc)
BEFORE, SAME, AFTER = (http_date(NOW + timedelta(seconds=seconds)) for seconds in (-1, 0, 1))
KEY = "blob/local/conditions/in/a.txt"
BLOB = BlobVersion('"0x1"', NOW)
MATCH, NONE_MATCH, MODIFIED, UNMODIFIED = (
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
)
# Conditions, and the status that a read and a write of BLOB, and a write of none, are refused with.
TABLE: list[tuple[dict[str, str], int | None, int | None, int | None]] = [
    ({}, None, None, None),
    ({MATCH: '"0x1"'}, None, None, 412),
    ({MATCH: "0x1"}, None, None, 412),
    ({MATCH: '"0x2"'}, 412, 412, 412),
    ({MATCH: "*"}, None, None, 412),
    ({MATCH: '"0x2", "0x1"'}, None, 400, 400),
    ({NONE_MATCH: '"0x1"'}, 304, 412, None),
    ({NONE_MATCH: '"0x2"'}, None, None, None),
    ({NONE_MATCH: "*"}, 400, 412, None),
    ({NONE_MATCH: '"0x2", "0x1"'}, 304, 400, 400),
    ({MODIFIED: BEFORE}, None, None, None),
    ({MODIFIED: SAME}, 304, 412, None),
    ({MODIFIED: AFTER}, 304, 412, None),
    ({UNMODIFIED: BEFORE}, 412, 412, None),
    ({UNMODIFIED: SAME}, None, None, None),
    ({UNMODIFIED: AFTER}, None, None, None),
    ({MODIFIED: "yesterday"}, 400, 400, 400),
    # If-None-Match || If-Modified-Since
    ({NONE_MATCH: '"0x1"', MODIFIED: BEFORE}, None, 412, None),
    ({NONE_MATCH: '"0x2"', MODIFIED: SAME}, None, None, None),
    ({NONE_MATCH: '"0x1"', MODIFIED: SAME}, 304, 412, None),
    # If-Match && If-Unmodified-Since; of a write, the first alone
    ({MATCH: '"0x1"', UNMODIFIED: BEFORE}, 412, None, 412),
    ({MATCH: '"0x2"', UNMODIFIED: SAME}, 412, 412, 412),
    ({MATCH: '"0x1"', NONE_MATCH: '"0x2"'}, None, 400, 400),
    ({MATCH: '"0x1"', MODIFIED: BEFORE}, None, 400, 400),
    ({"x-ms-if-tags": "a = 'b'"}, 400, 400, 400),
]


def refused(check: Callable[[], None]) -> int | None:
    try:
        check()
    except StorageApiError as error:
        return error.status
    return None


@pytest.mark.parametrize(("headers", "read", "write", "write_of_none"), TABLE)
def test_a_condition_refuses_what_the_table_says(
    headers: dict[str, str], read: int | None, write: int | None, write_of_none: int | None
) -> None:
    assert refused(lambda: storage_request.read_conditions(headers).check_read(BLOB)) == read
    assert refused(lambda: storage_request.write_conditions(headers).check_write(BLOB)) == write
    assert refused(lambda: storage_request.write_conditions(headers).check_write(None)) == write_of_none


@dataclass
class Blob:
    """A blob on a real server, by its address."""

    url: str
    query: dict[str, str]

    def ask(self, method: str, headers: dict[str, str] | None = None, **more: object) -> requests.Response:
        params = {**self.query, **more.pop("params", {})}
        return requests.request(method, self.url, params=params, headers=headers, **more)

    def put(self, data: bytes, **headers: str) -> requests.Response:
        return self.ask("PUT", {"x-ms-blob-type": "BlockBlob", **headers}, data=data)

    def tag(self) -> str:
        return self.ask("HEAD").headers["ETag"]


@pytest.fixture
def blob(server: Running, request: pytest.FixtureRequest) -> Iterator[Blob]:
    containers, name = server.world.backend.containers, "conditions"
    containers.make(name)
    found = Blob(f"{server.url}/local/{name}/in/a.txt", account_sas(server))
    assert found.put(b"first").status_code == 201
    yield found
    containers.remove(name)


LIST = "<BlockList><Latest>AAAA</Latest></BlockList>"
OPERATIONS: dict[str, Callable[[Blob, dict[str, str]], requests.Response]] = {
    "put": lambda blob, headers: blob.put(b"second", **headers),
    "put block list": lambda blob, headers: blob.ask("PUT", headers, data=LIST, params={"comp": "blocklist"}),
    "copy": lambda blob, headers: blob.ask("PUT", {"x-ms-copy-source": blob.url, **headers}),
    "set metadata": lambda blob, headers: blob.ask(
        "PUT", {"x-ms-meta-a": "1", **headers}, params={"comp": "metadata"}
    ),
    "set properties": lambda blob, headers: blob.ask(
        "PUT", {"x-ms-blob-content-type": "a/b", **headers}, params={"comp": "properties"}
    ),
    "delete": lambda blob, headers: blob.ask("DELETE", headers),
    "get": lambda blob, headers: blob.ask("GET", headers),
    "show": lambda blob, headers: blob.ask("HEAD", headers),
    "get metadata": lambda blob, headers: blob.ask("GET", headers, params={"comp": "metadata"}),
}
READS = ("get", "show", "get metadata")


@pytest.mark.slow
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_an_operation_whose_condition_is_not_met_changes_nothing(blob: Blob, operation: str) -> None:
    blob.ask("PUT", data=b"block", params={"comp": "block", "blockid": "AAAA"})
    tag, now = blob.tag(), datetime.now(timezone.utc)
    past, future = http_date(now - timedelta(days=1)), http_date(now + timedelta(days=1))
    is_read = operation in READS
    unmet = {MATCH: '"0x0"', NONE_MATCH: tag, MODIFIED: future, UNMODIFIED: past}
    for header, value in unmet.items():
        answer = OPERATIONS[operation](blob, {header: value})
        is_known = is_read and header in (NONE_MATCH, MODIFIED)
        assert (answer.status_code, answer.headers["x-ms-error-code"]) == (
            304 if is_known else 412,
            "ConditionNotMet",
        ), header
        assert (blob.tag(), blob.ask("GET").content) == (tag, b"first")
    for header, value in {MATCH: tag, NONE_MATCH: '"0x0"', MODIFIED: past, UNMODIFIED: future}.items():
        answer = OPERATIONS[operation](blob, {header: blob.tag() if header == MATCH else value})
        assert answer.ok, (header, answer.text)
        assert is_read or operation == "delete" or blob.tag() != tag
        blob.put(b"first")
        blob.ask("PUT", data=b"block", params={"comp": "block", "blockid": "AAAA"})


@pytest.mark.slow
def test_copy_checks_conditions_on_its_source(blob: Blob) -> None:
    target, tag, now = Blob(f"{blob.url}.copy", blob.query), blob.tag(), datetime.now(timezone.utc)
    past, future = http_date(now - timedelta(days=1)), http_date(now + timedelta(days=1))
    for header, value in {MATCH: '"0x0"', NONE_MATCH: tag, MODIFIED: future, UNMODIFIED: past}.items():
        answer = target.ask("PUT", {"x-ms-copy-source": blob.url, f"x-ms-source-{header}": value})
        assert (answer.status_code, answer.headers["x-ms-error-code"]) == (412, "ConditionNotMet"), header
        assert target.ask("HEAD").status_code == 404
    for header, value in {MATCH: tag, NONE_MATCH: '"0x0"', MODIFIED: past, UNMODIFIED: future}.items():
        answer = target.ask("PUT", {"x-ms-copy-source": blob.url, f"x-ms-source-{header}": value})
        assert answer.status_code == 202, (header, answer.text)


@pytest.mark.slow
def test_containers_check_time_conditions_and_ignore_etag_conditions(blob: Blob) -> None:
    container = Blob(blob.url.partition("/in/")[0], {**blob.query, "restype": "container"})
    future = http_date(datetime.now(timezone.utc) + timedelta(days=1))
    for header, value, status in ((MODIFIED, future, 412), (UNMODIFIED, future, 200), (MATCH, '"0x0"', 200)):
        answer = container.ask("PUT", {header: value}, params={"comp": "metadata"})
        assert answer.status_code == status, header
    assert (
        container.ask(
            "DELETE", {UNMODIFIED: http_date(datetime(1969, 1, 1, tzinfo=timezone.utc))}
        ).status_code
        == 412
    )
    assert container.ask("HEAD").status_code == 200


RACES: dict[str, Callable[[Blob, int, str], requests.Response]] = {
    "put": lambda blob, number, tag: blob.put(b"%d" % number, **{MATCH: tag}),
    "create": lambda blob, number, _: blob.put(b"%d" % number, **{NONE_MATCH: "*"}),
    "set metadata": lambda blob, number, tag: blob.ask(
        "PUT", {"x-ms-meta-by": str(number), MATCH: tag}, params={"comp": "metadata"}
    ),
    "delete": lambda blob, number, tag: blob.ask("DELETE", {MATCH: tag}),
}


@pytest.mark.slow
@pytest.mark.parametrize("race", list(RACES))
def test_of_writers_that_race_with_the_same_condition_one_wins(
    blob: Blob, server: Running, race: str
) -> None:
    crowd = 4
    if race == "create":
        blob.ask("DELETE")
    tag = blob.ask("HEAD").headers.get("ETag", "")
    with ThreadPoolExecutor(crowd) as pool:
        with server.context.metadata.exclusive(KEY):  # all of them look at the blob as it was
            writers = [pool.submit(RACES[race], blob, number, tag) for number in range(crowd)]
            until(lambda: server.open_requests() == crowd)
        statuses = [writer.result().status_code for writer in writers]
    assert sorted(statuses)[1:] == [409 if race == "create" else 404 if race == "delete" else 412] * 3
    winner = statuses.index(min(statuses))
    if race in ("put", "create"):
        assert blob.ask("GET").content == b"%d" % winner
    if race == "set metadata":
        assert blob.ask("HEAD").headers["x-ms-meta-by"] == str(winner)


@pytest.mark.slow
def test_our_own_client_changes_no_blob_while_a_condition_on_it_is_looked_at(
    blob: Blob, server: Running
) -> None:
    name, containers = "conditions", connected(server.url).containers
    ways = {
        "pack": lambda: containers.store_pack(name, {"in/b.txt": b"ours", "in/a.txt": b"ours"}),
        "whole": lambda: containers.upload_small(name, "in/a.txt", b"ours too"),
        "delete": lambda: containers.delete(name, "in/a.txt"),
    }
    for number, way in enumerate(ways.values()):
        with ThreadPoolExecutor(1) as pool:
            with server.context.metadata.exclusive(KEY):
                done = pool.submit(way)
                until(lambda: server.open_requests() == 1)  # it waits
                assert blob.ask("GET").content == [b"first", b"ours", b"ours too"][number]
            done.result(PATIENCE_S)
    assert blob.ask("GET").status_code == 404


@pytest.mark.slow
def test_a_blob_has_another_tag_after_each_change_and_the_same_for_the_next_server(
    blob: Blob, server: Running
) -> None:
    tags = [blob.tag()]
    for change in ("put", "set metadata", "set properties", "put"):
        OPERATIONS[change](blob, {})
        tags.append(blob.tag())
    assert len(set(tags)) == len(tags)
    listed = requests.get(
        blob.url.rpartition("/in")[0], params={**blob.query, "restype": "container", "comp": "list"}
    )
    assert tags[-1].strip('"') in listed.text


@pytest.mark.slow
def test_a_body_that_is_not_what_its_md5_says_makes_no_blob(blob: Blob) -> None:
    answer = blob.put(b"second", **{"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (400, "Md5Mismatch")
    assert blob.ask("GET").content == b"first"
    assert blob.put(b"", **{"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}).status_code == 201
