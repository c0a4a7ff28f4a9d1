"""What jobs wrote, at the addresses that a list of it gives."""

from __future__ import annotations

import pytest
import requests

from batchai_magics.backends.folders import mounts
from tests.server.running import WORKSPACE, Running
from tests.wire_bodies import plain_job
from tests.world import until

pytestmark = pytest.mark.slow
JOB = f"{WORKSPACE}/experiments/default/jobs/wrote"
SIZE = 3_000_000  # more than one piece


@pytest.fixture(scope="module")
def url(server: Running) -> str:
    """The address of a job's log."""
    server.world.run("wrote --nodes 1 --processes 1", f"print('x' * {SIZE - 1})")
    files = server.json("POST", f"{JOB}/listOutputFiles", params={"outputdirectoryid": "stdouterr"})
    return next(file["downloadUrl"] for file in files["value"] if file["name"] == "stdout.txt")


def test_whole_file_is_returned(url: str) -> None:
    answer = requests.get(url)
    assert (answer.status_code, answer.content) == (200, b"x" * (SIZE - 1) + b"\n")
    assert requests.head(url).headers["Content-Length"] == str(SIZE)


def test_files_of_the_same_path_on_a_share_and_a_container_are_told_apart(server: Running) -> None:
    job = f"{WORKSPACE}/experiments/default/jobs/twice"
    root = "$AZ_BATCHAI_MOUNT_ROOT"
    command = "; ".join(
        f"echo {id} > $AZ_BATCHAI_OUTPUT_{id}/same.txt; echo {id} > $AZ_BATCHAI_OUTPUT_{id}/{id}.txt"
        for id in ("ONE", "TWO")
    )
    outputs = [
        {"id": "ONE", "pathPrefix": f"{root}/{mounts.DEFAULT_MOUNT}"},
        {"id": "TWO", "pathPrefix": f"{root}/{mounts.CONTAINER_MOUNT}"},
    ]
    body = plain_job(f"{WORKSPACE}/clusters/default", command, outputDirectories=outputs)
    assert server.ask("PUT", job, json=body).ok
    until(lambda: server.json("GET", job)["properties"]["executionState"] == "succeeded")
    for id in ("ONE", "TWO"):
        files = server.json("POST", f"{job}/listOutputFiles", params={"outputdirectoryid": id})["value"]
        assert {file["name"] for file in files} == {"same.txt", f"{id}.txt"}
        for file in files:
            answer = requests.get(file["downloadUrl"])
            assert (answer.status_code, answer.text) == (200, f"{id}\n"), file["name"]


def test_a_file_that_is_rewritten_is_another_version(server: Running) -> None:
    """Of a download in ranges, no range is of another version than the first."""
    script = f"open(os.environ['AZ_BATCHAI_STDOUTERR_DIR'] + '/rewritten', 'wb').write(b'a' * {SIZE})"
    server.world.run("versions --nodes 1 --processes 1", f"import os; {script}")
    listing = f"{WORKSPACE}/experiments/default/jobs/versions/listOutputFiles"
    files = server.json("POST", listing, params={"outputdirectoryid": "stdouterr"})["value"]
    address = next(file["downloadUrl"] for file in files if file["name"] == "rewritten")
    (place,) = (server.world.home / "shares").rglob("rewritten")
    first = requests.get(address, headers={"Range": "bytes=0-9"})
    assert first.headers["Last-Modified"]
    condition = {"If-Match": first.headers["ETag"], "Range": "bytes=10-19"}
    assert requests.get(address, headers=condition).status_code == 206
    with place.open("r+b") as stream:  # of the same size, in the same file
        stream.write(b"b" * SIZE)
    second = requests.get(address, headers=condition)
    assert (second.status_code, second.headers["x-ms-error-code"]) == (412, "ConditionNotMet")
    assert requests.head(address).headers["ETag"] != first.headers["ETag"]


def test_url_of_a_file_is_not_valid_for_a_later_job_of_the_same_name(server: Running, url: str) -> None:
    assert server.ask("DELETE", JOB).status_code == 202
    until(lambda: server.ask("GET", JOB).status_code == 404)
    server.world.run("wrote --nodes 1 --processes 1", "print('another')")
    assert requests.get(url).status_code == 404


def test_links_and_pipes_are_told_to_our_own_client_alone(server: Running) -> None:
    make = "os.chdir(os.environ['AZ_BATCHAI_STDOUTERR_DIR']); os.mkfifo('pipe'); os.mkdir('folder')"
    server.world.run("odd --nodes 1 --processes 1", f"import os; {make}; os.symlink('/', 'link')")
    listing = f"{WORKSPACE}/experiments/default/jobs/odd/listOutputFiles"
    told = {}
    for who, headers in (("others", {}), ("ours", {"x-batchai-client": "1"})):
        query = {"outputdirectoryid": "stdouterr"}
        files = server.json("POST", listing, params=query, headers=headers)["value"]
        told[who] = {file["name"]: file["fileType"] for file in files}
    assert {told["others"].get(name) for name in ("pipe", "link")} == {None}
    assert told["others"]["folder"] == "directory"
    assert told["ours"] == {**told["others"], "pipe": "pipe", "link": "link"}
