"""A job's log files read back whole, from the end, by rank."""

import hashlib
import re
from dataclasses import replace

import pytest

from batchai_magics.backends.base import FileRef, Seal
from batchai_magics.errors import FileChangedError, StorageError
from batchai_magics.follow.job_errors import WINDOW_BYTES, last_lines, redacted_logs
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import TAIL_BYTES, tail_of
from batchai_magics.jobs.job_model import log_metrics
from tests.widgets.scripted_job import JOB, step_line

STDOUT = FileRef(JOB, "stdout.txt")


@pytest.mark.parametrize(
    ("lines", "tail"), [(None, "1\n2\n3"), (0, ""), (1, "3"), (2, "2\n3"), (9, "1\n2\n3")]
)
def test_the_tail_is_as_many_lines_as_asked(backend, lines, tail):
    backend.write("1\n2\n3")
    assert tail_of(backend, STDOUT, lines) == tail


@pytest.mark.parametrize("inside", [0, 1, 2, 3, 7])
def test_a_tail_that_begins_in_another_piece_is_whole(backend, inside):
    tail = "def\n" + "g" * (TAIL_BYTES - 6 + inside) + "\n"  # a piece begins somewhere within or before it
    backend.write("abc\n" + tail)
    assert tail_of(backend, STDOUT, 2) == tail


def test_the_tail_of_a_long_log_reads_its_end_only(backend):
    backend.write("line\n" * TAIL_BYTES)
    read, sizes = backend.read, []

    def recording_read(*asked):
        chunk = read(*asked)
        sizes.append(len(chunk.data))
        return chunk

    backend.read = recording_read
    assert tail_of(backend, STDOUT, 2) == "line\n" * 2
    assert sum(sizes) <= TAIL_BYTES + 1


def test_the_last_lines_are_of_one_rank_where_ranks_are_known(backend):
    for number in range(3):
        for rank in (0, 1):
            backend.write(f"{number} of {rank}\n", rank=rank)
    logs = redacted_logs(backend, JOB)
    assert last_lines(logs, STDOUT.path, 2) == ("2 of 0", "2 of 1")
    assert last_lines(logs, STDOUT.path, 2, rank=0) == ("1 of 0", "2 of 0")


def test_the_last_lines_of_a_rank_are_found_also_in_a_long_log(backend):
    backend.write("7 of 1\n", rank=1)
    backend.write("8 of 0\n" * WINDOW_BYTES, rank=0)
    assert last_lines(redacted_logs(backend, JOB), STDOUT.path, 1, rank=1) == ("7 of 1",)


def test_records_of_stderr_follow_stdout_if_no_times_are_known(backend):
    backend.read_bytes = 40  # several pieces, and the last line has no end
    backend.write(step_line(3, rank=1).removesuffix("\n"), "stderr.txt")
    backend.write(step_line(1))
    places = [(record.step, record.rank) for record in log_metrics(backend, JOB, {}).records]
    assert list(dict.fromkeys(places)) == [(1, 0), (3, 1)]
    assert places == sorted(places)


def sealed(backend, seal):
    read = backend.read
    backend.read = lambda *asked: replace(read(*asked), seal=seal)


def seal_of(data, lost=0):
    return Seal(len(data), hashlib.sha256(data).hexdigest(), lost)


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
    read = backend.read
    sealed(backend, seal_of(b"all\n"))
    assert tail_of(backend, STDOUT, None) == "all\n"
    backend.read = read
    sealed(backend, seal)
    assert tail_of(backend, STDOUT, None) == f"all\n\n[{said}]\n"
    job = Job(backend, JOB)
    with pytest.raises(StorageError, match=re.escape(said)):
        job.download("stdout.txt", tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []
    assert job.download("stdout.txt", tmp_path / "to", partial=True).read_text() == "all\n"


@pytest.mark.parametrize("lines", [None, TAIL_BYTES])
def test_a_log_that_is_written_anew_while_it_is_read_is_read_again(backend, lines):
    backend.read_bytes = TAIL_BYTES
    log = backend.folder / "stdout.txt"
    log.write_text("old\n" * TAIL_BYTES)
    read, reads = backend.read, []

    def recording_read(file, offset=0, limit=1 << 20):
        reads.append(offset)
        if len(reads) == 3:
            log.write_text("new\n" * (TAIL_BYTES + 1))
        return read(file, offset, limit)

    backend.read = recording_read
    assert tail_of(backend, STDOUT, lines) == "new\n" * (lines or TAIL_BYTES + 1)


def test_a_log_that_never_stays_the_same_is_said_to_change(backend):
    read = backend.read

    def fresh(file, offset=0, limit=1 << 20):
        (backend.folder / "new").write_text("x" * 1000)
        (backend.folder / "new").replace(backend.folder / "stdout.txt")
        return read(file, offset, limit)

    backend.read = fresh
    with pytest.raises(FileChangedError, match=r"stdout\.txt was cut or replaced"):
        tail_of(backend, STDOUT, None)
