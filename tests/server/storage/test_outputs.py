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
