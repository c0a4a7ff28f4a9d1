"""A job's log files read back whole, from the end, by rank."""

import hashlib
import re
from dataclasses import replace

import pytest

from batchai_magics.backends.base import FileRef, Seal
from batchai_magics.errors import FileChangedError, StorageError
from batchai_magics.follow.failure_logs import WINDOW_BYTES
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import TAIL_BYTES, chunks, last_lines, tail_of
from batchai_magics.jobs.job_model import log_metrics
from tests.widgets.scripted_job import JOB, ScriptedBackend, step_line

STDOUT = FileRef(JOB, "stdout.txt")


@pytest.fixture
def backend(tmp_path):
    return ScriptedBackend(tmp_path)


@pytest.mark.parametrize(
    ("lines", "tail"), [(None, "1\n2\n3"), (0, ""), (1, "3"), (2, "2\n3"), (3, "1\n2\n3"), (9, "1\n2\n3")]
)
def test_the_tail_is_as_many_lines_as_asked(backend, lines, tail):
    backend.write("1\n2\n3")
    assert tail_of(backend, STDOUT, lines) == tail


def test_the_tail_of_an_empty_log_is_empty(backend):
    assert tail_of(backend, STDOUT, 3) == ""


@pytest.mark.parametrize("inside", range(8))
def test_a_tail_that_begins_in_another_piece_is_whole(backend, inside):
    tail = "def\n" + "g" * (TAIL_BYTES - 6 + inside) + "\n"  # a piece begins somewhere within or before it
    backend.write("abc\n" + tail)
    assert tail_of(backend, STDOUT, 2) == tail


def test_the_tail_of_a_long_log_reads_its_end_only(backend):
    backend.write("line\n" * TAIL_BYTES)
    offsets, read = [], backend.read

    def recording_read(file, offset=0, limit=1 << 20):
        offsets.append(offset)
        return read(file, offset, limit)

    backend.read = recording_read
    assert tail_of(backend, STDOUT, 2) == "line\n" * 2
    assert offsets == [0, 4 * TAIL_BYTES]


def test_the_last_lines_are_of_one_rank_where_ranks_are_known(backend):
    for number in range(3):
        for rank in (0, 1):
            backend.write(f"{number} of {rank}\n", rank=rank)
    assert last_lines(backend, STDOUT, 2) == ("2 of 0", "2 of 1")
    assert last_lines(backend, STDOUT, 2, rank=0) == ("1 of 0", "2 of 0")


def test_the_last_lines_of_a_rank_are_found_also_in_a_long_log(backend):
    backend.write("7 of 1\n", rank=1)
    backend.write("8 of 0\n" * WINDOW_BYTES, rank=0)
    assert last_lines(backend, STDOUT, 1, rank=1) == ("7 of 1",)


def test_chunks_are_the_whole_file_in_order(backend):
    backend.read_bytes = 4
    backend.write("0123456789")
    assert [chunk.data for chunk in chunks(backend, STDOUT)] == [b"0123", b"4567", b"89"]


def test_records_of_stderr_follow_those_of_stdout_where_no_times_are_known(backend):
    backend.write(step_line(3), "stderr.txt")
    backend.write(step_line(1))
    steps = [record.step for record in log_metrics(backend, JOB, {}).records]
    assert list(dict.fromkeys(steps)) == [1, 3]
    assert steps == sorted(steps)


def test_records_are_read_to_the_unended_last_line(backend):
    backend.write(step_line(1) + step_line(2, rank=1).removesuffix("\n"))
    places = [(record.step, record.rank) for record in log_metrics(backend, JOB, {}).records]
    assert list(dict.fromkeys(places)) == [(1, 0), (2, 1)]


# logs that lack something


def sealed(backend, seal):
    read = backend.read
    backend.read = lambda *asked: replace(read(*asked), seal=seal)


def seal_of(data, lost=0):
    return Seal(len(data), hashlib.sha256(data).hexdigest(), lost)


def test_a_complete_log_is_given_as_it_is(backend):
    backend.write("all\n")
    sealed(backend, seal_of(b"all\n"))
    assert tail_of(backend, STDOUT, None) == "all\n"


LACKS = "stdout.txt is not complete: "


@pytest.mark.parametrize(
    ("seal", "said"),
    [
        (seal_of(b"all of it\n"), f"{LACKS}6 of its 10 bytes are missing"),
        (seal_of(b"all\n", 1200), f"{LACKS}its last 1,200 bytes are missing: the disk did not take them"),
        (seal_of(b"ALL\n"), f"{LACKS}it was changed after the job had ended"),
        (Seal(), "The last log lines may be missing: the job was killed"),
    ],
)
def test_a_log_that_lacks_something_says_so(backend, tmp_path, seal, said):
    backend.write("all\n")
    sealed(backend, seal)
    assert tail_of(backend, STDOUT, None) == f"all\n\n[{said}]\n"
    job = Job(backend, JOB)
    with pytest.raises(StorageError, match=re.escape(said)):
        job.download("stdout.txt", tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []
    assert job.download("stdout.txt", tmp_path / "to", partial=True).read_text() == "all\n"


# files that become others while they are read


@pytest.mark.parametrize("lines", [None, TAIL_BYTES])
def test_a_log_that_is_written_anew_while_it_is_read_is_read_again(backend, tmp_path, lines):
    backend.read_bytes = TAIL_BYTES
    log = tmp_path / "stdout.txt"
    log.write_text("old\n" * TAIL_BYTES)
    read, reads = backend.read, []

    def recording_read(file, offset=0, limit=1 << 20):
        reads.append(offset)
        if len(reads) == 3:
            log.write_text("new\n" * (TAIL_BYTES + 1))
        return read(file, offset, limit)

    backend.read = recording_read
    assert tail_of(backend, STDOUT, lines) == "new\n" * (lines or TAIL_BYTES + 1)


def test_a_log_that_never_stays_the_same_is_said_to_change(backend, tmp_path):
    read = backend.read

    def fresh(file, offset=0, limit=1 << 20):
        (tmp_path / "new").write_text("x" * 1000)
        (tmp_path / "new").replace(tmp_path / "stdout.txt")
        return read(file, offset, limit)

    backend.read = fresh
    with pytest.raises(FileChangedError, match=r"stdout\.txt was cut or replaced"):
        tail_of(backend, STDOUT, None)
