"""What jobs wrote, at the addresses that a list of it gives."""

from __future__ import annotations

import pytest
import requests

from tests.server.running import WORKSPACE, Running
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


def test_all_of_a_file_comes(url: str) -> None:
    answer = requests.get(url)
    assert (answer.status_code, answer.content) == (200, b"x" * (SIZE - 1) + b"\n")
    assert requests.head(url).headers["Content-Length"] == str(SIZE)


@pytest.mark.parametrize(
    ("range", "start", "end"),
    [("0-9", 0, 10), ("5-", 5, SIZE), (f"10-{SIZE * 2}", 10, SIZE), (f"{SIZE - 2}-", SIZE - 2, SIZE)],
)
def test_a_range_is_what_was_asked_for(url: str, range: str, start: int, end: int) -> None:
    answer = requests.get(url, headers={"Range": f"bytes={range}"})
    assert (answer.status_code, len(answer.content)) == (206, end - start)
    assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/{SIZE}"


def test_nothing_lies_behind_the_end(url: str) -> None:
    assert requests.get(url, headers={"Range": f"bytes={SIZE}-"}).status_code == 416


def test_an_address_is_for_one_file_and_for_reading(url: str) -> None:
    assert requests.get(url.replace("stdout.txt", "stderr.txt")).status_code == 403
    assert requests.put(url, data=b"x").status_code == 403


def test_a_job_of_the_same_name_is_another_one(server: Running, url: str) -> None:
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
