"""Requests that would cost much: refused before the work is done, while others are answered."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import ShareServiceClient

from batchai_magics.backends.service import extension_bodies
from batchai_magics.models.documents import key_spellings, spec_problems
from batchai_magics.server.storage.storage_resource import OWN_ACCOUNT
from tests.server.running import SUBSCRIPTION, WORKSPACE, Running
from tests.wire_bodies import plain_job
from tests.world import until

pytestmark = pytest.mark.slow
JOB = f"{WORKSPACE}/experiments/default/jobs/x"
STORE = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/batchaiStoreFiles"
FETCH = STORE.replace("StoreFiles", "FetchFiles")
SHARE = "batchaishare"
HUGE = 10**30
UNKNOWN: dict[str, object] = {f"key{number}": 1 for number in range(70_000)}


@pytest.fixture
def files(server: Running) -> ShareServiceClient:
    key = server.context.keys.of(OWN_ACCOUNT)[0]
    credential = {"account_name": OWN_ACCOUNT, "account_key": key}
    return ShareServiceClient(f"{server.url}/{OWN_ACCOUNT}", credential=credential, retry_total=0)


@pytest.mark.parametrize(
    "body",
    [{"properties": UNKNOWN}, {"properties": {}, **UNKNOWN}, {"properties": {"inputDirectories": [UNKNOWN]}}],
    ids=["inside", "beside", "deep"],
)
def test_only_a_few_of_many_unknown_keys_are_named_with_guesses(
    server: Running, body: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    guesses: list[str] = []

    def guess(word: str, choices: object) -> str:
        guesses.append(word)
        return ""

    for module in (spec_problems, key_spellings):
        monkeypatch.setattr(module, "did_you_mean", guess)
    answer = server.ask("PUT", JOB, data=json.dumps(body))
    assert answer.status_code == 400
    assert len(answer.content) < 100_000
    assert len(guesses) <= spec_problems.MAX_PROBLEMS


@pytest.mark.parametrize("value", [[1] * 200_000, [{"a": 1}] * 50_000], ids=["numbers", "objects"])
def test_a_list_is_not_checked_item_by_item_when_it_is_far_too_long(server: Running, value: list) -> None:
    answer = server.ask("PUT", JOB, json={"properties": {"environmentVariables": value}})
    assert answer.status_code == 400
    assert "expected at most 5,000 items" in answer.text
    assert len(answer.content) < 100_000


@pytest.mark.parametrize(
    "body",
    [{"nodeCount": HUGE}, {"constraints": {"maxWallClockTime": HUGE}}, {"nodeCount": -HUGE}],
)
def test_a_number_of_thirty_digits_is_refused_with_its_field(server: Running, body: dict) -> None:
    answer = server.ask("PUT", JOB, json={"properties": body})
    assert answer.status_code == 400
    assert next(iter(body)) in answer.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{JOB}/batchaiRead", {"path": "stdout.txt", "offset": HUGE}),
        (f"{JOB}/batchaiRead", {"path": "stdout.txt", "limit": HUGE}),
        (f"{JOB}/batchaiTail", {"positions": {"stdout.txt": HUGE}}),
        (f"{JOB}/batchaiTelemetry", {"after": HUGE**20}),
    ],
)
def test_huge_number_in_a_request_extension_is_refused(server: Running, path: str, body: dict) -> None:
    assert server.ask("POST", path, json=body).status_code == 400


@pytest.mark.parametrize(
    "records",
    [
        3,
        ["submission.json"],
        {"end.json": "{}"},
        {"submission.json": 1},
        {"labels.json": "[" * 100_000},
        {"labels.json": '{"parameters": {"\\ud800": 1}}'},
    ],
    ids=["number", "list", "of an end", "no text", "deep", "surrogate"],
)
def test_invalid_records_are_refused_before_the_job_is_created(server: Running, records: object) -> None:
    body = {**plain_job(f"{WORKSPACE}/clusters/default"), "batchaiRecords": records}
    answer = server.ask("PUT", JOB, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "InvalidRequestContent")
    assert server.ask("GET", JOB).status_code == 404


def test_pack_with_too_many_files_is_refused(server: Running) -> None:
    many = extension_bodies.pack_files({f"empty-{number}": b"" for number in range(40_000)})
    answer = server.ask("POST", STORE, params={"share": SHARE}, data=many)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "InvalidRequestContent")
    assert not [file for file in server.world.backend.storage.list(SHARE) if "empty" in file.path]


@pytest.mark.parametrize(
    "path",
    [
        *("d/" * 2000 + "f", "n" * 300, "a/" + "n" * 300 + "/b", "a\0b", "x/\ud800"),
        *("../x", "/../x", "a\\b"),
    ],
)
def test_a_path_that_no_file_on_a_share_can_have_is_refused(server: Running, path: str) -> None:
    sent = server.ask("POST", STORE, params={"share": SHARE}, data=extension_bodies.pack_files({path: b"x"}))
    assert sent.status_code == 400
    wanted = server.ask("POST", FETCH, params={"share": SHARE}, json={"paths": [path]})
    assert wanted.status_code == 400


def test_a_path_that_no_output_can_have_is_refused(server: Running) -> None:
    server.world.run("bounded --nodes 1 --processes 1")
    job = JOB.replace("/x", "/bounded")
    for path in ("a\0b", "d/" * 2000, "n" * 300):
        listed = {"outputdirectoryid": "stdouterr", "directory": path}
        assert server.ask("POST", f"{job}/listOutputFiles", params=listed).status_code == 400
        assert server.ask("POST", f"{job}/batchaiRead", json={"path": path}).status_code == 400


def test_a_file_used_as_a_folder_and_a_folder_used_as_a_file_are_conflicts(server: Running) -> None:
    for path, status in (("file", 200), ("file/below", 409), ("folder/file", 200), ("folder", 409)):
        body = extension_bodies.pack_files({path: b"x"})
        answer = server.ask("POST", STORE, params={"share": SHARE}, data=body)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("size", [4 << 40, 10**30], ids=["4 TiB", "30 digits"])
def test_a_size_that_no_disk_here_has_is_refused(files: ShareServiceClient, size: int) -> None:
    with pytest.raises(HttpResponseError) as caught:
        files.get_share_client(SHARE).get_file_client("huge").create_file(size)
    assert 400 <= caught.value.status_code < 500


def test_a_file_is_not_given_a_size_that_no_disk_here_has(files: ShareServiceClient) -> None:
    file = files.get_share_client(SHARE).get_file_client("grows")
    file.upload_file(b"x")
    with pytest.raises(HttpResponseError) as caught:
        file.resize_file(4 << 40)
    assert caught.value.status_code == 413
    assert file.download_file().readall() == b"x"


def test_two_hundred_cleared_megabytes_take_no_room(server: Running, files: ShareServiceClient) -> None:
    size = 200 << 20
    file = files.get_share_client(SHARE).get_file_client("cleared")
    file.create_file(size)
    file.clear_range(offset=0, length=size)
    place = server.world.home / "shares" / "local" / SHARE / "cleared"
    assert (place.stat().st_size, place.stat().st_blocks) == (size, 0)
    place.unlink()


def test_a_written_range_is_zeros_once_it_is_cleared(server: Running, files: ShareServiceClient) -> None:
    file = files.get_share_client(SHARE).get_file_client("written")
    file.upload_file(b"x" * 16_384)
    file.clear_range(offset=4096, length=8192)
    assert file.download_file().readall() == b"x" * 4096 + bytes(8192) + b"x" * 4096
    place = server.world.home / "shares" / "local" / SHARE / "written"
    assert place.stat().st_blocks * 512 < os.stat_result(place.stat()).st_size


JOBS = f"{WORKSPACE}/experiments/default/jobs"


def _answers(server: Running, is_over: Callable[[], bool]) -> Iterator[int]:
    """What another user gets, until all of the first one's requests are answered."""
    while True:
        yield server.ask("GET", JOBS).status_code
        if is_over():
            return


def test_of_the_pipes_of_a_job_none_keeps_another_user_waiting(server: Running) -> None:
    """The first user's job replaces its records; two hundred requests for them leave room for others."""
    pipes = "cd $BATCHAI_ARTIFACT_DIR/.. && mkfifo records/parameters.json telemetry/x.jsonl stdout.times"
    job = f"{JOBS}/pipes"
    body = plain_job(f"{WORKSPACE}/clusters/default", f"{pipes}; echo replaced")
    assert server.ask("PUT", job, json=body).ok
    until(lambda: server.json("GET", job)["properties"]["executionState"] == "succeeded")
    asks = [
        ("batchaiRecords", {"names": ["parameters.json"]}),
        ("batchaiTelemetry", {}),
        ("batchaiRead", {"path": "stdout.txt"}),
        ("batchaiTail", {"positions": {}}),
    ]

    def attack(number: int) -> int:
        name, body = asks[number % len(asks)]
        return server.ask("POST", f"{job}/{name}", json=body).status_code

    with ThreadPoolExecutor(16) as attackers:
        answers = [attackers.submit(attack, number) for number in range(200)]
        others = list(_answers(server, lambda: all(answer.done() for answer in answers)))
    assert {answer.result() for answer in answers} == {200}
    assert set(others) == {200}
