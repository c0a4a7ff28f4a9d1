"""What our own client asks of a job's files arrives with all that the backend knows of them."""

from __future__ import annotations

import base64

import pytest

from batchai_magics.backends.base import FileRef
from tests.server.running import WORKSPACE, Running

pytestmark = pytest.mark.slow
JOB = f"{WORKSPACE}/experiments/default/jobs/told"


@pytest.fixture(scope="module")
def chunk(server: Running):
    """What the backend itself gives of the log of a job that two ranks have written."""
    job = server.world.run("told --nodes 2 --processes 2 --toolkit mpi", "print('a line')")
    return server.world.backend.read(FileRef(job.id, "stdout.txt"))


def test_a_piece_has_its_ranks_and_times(server: Running, chunk) -> None:
    told = server.json("POST", f"{JOB}/batchaiRead", json={"path": "stdout.txt"})
    assert base64.b64decode(told["data"]) == chunk.data
    assert (told["offset"], told["size"], told["isComplete"]) == (0, chunk.size, True)
    assert told["spans"] == [[span.start, span.end, span.rank] for span in chunk.spans]
    assert told["times"] == [[written.start, written.time] for written in chunk.times]
    assert {span[2] for span in told["spans"]} == {0, 1}


def test_a_tail_has_the_new_bytes_of_every_log(server: Running, chunk) -> None:
    everything = server.json("POST", f"{JOB}/batchaiTail", json={})["value"]
    assert base64.b64decode(everything["stdout.txt"]["data"]) == chunk.data
    known = {path: piece["size"] for path, piece in everything.items()}
    assert server.json("POST", f"{JOB}/batchaiTail", json={"positions": known})["value"] == {}
    known["stdout.txt"] = 3
    (piece,) = server.json("POST", f"{JOB}/batchaiTail", json={"positions": known})["value"].values()
    assert (piece["offset"], base64.b64decode(piece["data"])) == (3, chunk.data[3:])


@pytest.mark.parametrize(
    "body", [{}, {"path": 1}, {"path": "x", "offset": -1}, {"path": "x", "limit": "x"}, {"path": "../x"}]
)
def test_what_makes_no_sense_is_refused(server: Running, chunk, body: dict) -> None:
    assert server.ask("POST", f"{JOB}/batchaiRead", json=body).status_code == 400
