"""Logs of jobs, and samples of what their ranks use, that are read while they grow."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.azureml import job_logs
from batchai_magics.backends.azureml.connection import BlobRange
from batchai_magics.backends.azureml.job_logs import CACHE_BYTES, JobLogs, LogJournal, WatchedLogs
from batchai_magics.backends.azureml.run_details import RankLog, RunDetails
from batchai_magics.backends.azureml.run_records import RunTelemetry
from batchai_magics.backends.base import Chunk, Span, WriteTime
from batchai_magics.models.resource_ids import Kind, ResourceId

JOB = ResourceId("s", "g", "w", Kind.JOB, "j", "e")
SINGLE = "user_logs/std_log.txt"
OUT = "stdout.txt"


@dataclass
class LogSource:
    """Run history and blob storage of one run. The clock only moves when a test moves it."""

    files: dict[str, bytearray] = field(default_factory=dict)
    status: str = "Running"
    now: float = 1000.0
    requests: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0

    def write(self, name: str, data: bytes) -> None:
        self.files.setdefault(name, bytearray()).extend(data)

    def clock(self) -> float:
        return self.now

    def run_of(self, id: ResourceId) -> str:
        return id.name

    def details(self, run: str) -> RunDetails:
        self.requests["details"] += 1
        logs = {name: f"{name}?sig" for name in self.files}
        return RunDetails.from_wire({"status": self.status, "logFiles": logs})

    def read_blob(self, url: str, offset: int, limit: int) -> BlobRange | None:
        name = url.partition("?")[0]
        self.requests[name] += 1
        if name not in self.files:
            return None
        data = bytes(self.files[name])
        found = data[offset : offset + limit]
        self.sent_bytes += len(found)
        return BlobRange(found, len(data), "", datetime.fromtimestamp(self.now, timezone.utc))


def ranked(rank: int, retry: str = "") -> str:
    return f"user_logs/{retry}std_log_process_{rank}.txt"


@pytest.fixture
def source() -> LogSource:
    return LogSource()


@pytest.fixture
def logs(source: LogSource) -> WatchedLogs:
    return JobLogs(source, source, clock=source.clock).watched(JOB)


def watch(logs: WatchedLogs, source: LogSource, seconds: int, step_s: float = 1.0) -> bytes:
    """What a watcher gets who asks once a step."""
    data = b""
    for _ in range(int(seconds / step_s)):
        chunk = logs.tail({"stdout.txt": len(data)}, 1 << 20).get("stdout.txt")
        data += chunk.data if chunk else b""
        source.now += step_s
    return data


def test_a_growing_log_is_read_once(logs, source):
    seen = b""
    for number in range(60):
        source.write(SINGLE, b"line %d\n" % number)
        chunk = logs.tail({"stdout.txt": len(seen)}, 1 << 20).get("stdout.txt")
        seen += chunk.data if chunk else b""
        source.now += 1
    source.status = "Completed"
    logs.has_ended = True
    seen += logs.read(OUT, len(seen), 1 << 20).data
    assert seen == bytes(source.files[SINGLE])
    assert source.sent_bytes == len(seen)


@pytest.mark.parametrize("count", [1, 2, 16])
def test_a_watched_job_costs_less_than_one_request_a_second(logs, source, count):
    for _ in range(300):
        for rank in range(count):
            source.write(ranked(rank), b"x\n")
        watch(logs, source, 1, 0.25)
    assert source.requests.total() <= 300 * job_logs.INTERVALS.requests_per_s + job_logs._BURST


def test_a_watched_log_grows_while_others_are_read_often(logs, source):
    source.write(ranked(0), b"zero\n")
    for _ in range(200):
        logs.read("stdout-0.txt", 0, 100)
    source.write(ranked(0), b"more\n")
    assert watch(logs, source, 15) == b"zero\nmore\n"


def test_each_byte_is_known_by_its_rank(logs, source):
    source.write(ranked(0), b"zero\n")
    source.write(ranked(1), b"one\n")
    source.status = "Completed"
    chunk = logs.read(OUT, 0, 100)
    assert (chunk.data, chunk.is_complete) == (b"zero\none\n", True)
    assert chunk.spans == (Span(0, 5, 0), Span(5, 9, 1))
    assert logs.read(OUT, 2, 5).spans == (Span(2, 5, 0), Span(5, 7, 1))


def test_reading_is_repeatable_while_several_logs_grow(logs, source):
    for number in range(9):
        source.write(ranked(number % 3), b"%d %d\n" % (number % 3, number))
        watch(logs, source, 3)
    first = logs.read(OUT, 0, 1000)
    source.write(ranked(0), b"more\n")
    watch(logs, source, 12)
    assert logs.read(OUT, 0, first.size).data == first.data
    assert logs.read(OUT, 0, 1000).data.startswith(first.data)
    assert logs.read(OUT, 0, 1000).generation == first.generation


def test_the_beginning_of_a_long_log_is_read_from_the_processes_again(logs, source):
    for number in range(20):
        source.write(ranked(number % 2), b"rank %d line %d " % (number % 2, number) + bytes(300_000) + b"\n")
        watch(logs, source, 2)
    source.status = "Completed"
    logs.has_ended = True
    whole, step = logs.read(OUT, 0, 2 * CACHE_BYTES).data, 700_007
    assert len(whole) > CACHE_BYTES
    again = b"".join(logs.read(OUT, offset, step).data for offset in range(0, len(whole), step))
    assert again == whole
    assert sorted(whole.split(b"\n")) == sorted(b"".join(map(bytes, source.files.values())).split(b"\n"))


def test_an_unfinished_line_is_shown_once_its_process_is_silent(logs, source):
    source.write(ranked(0), b"Continue? ")
    assert watch(logs, source, 3) == b""
    assert watch(logs, source, 9) == b"Continue? "
    source.write(ranked(0), b"yes\n")
    watch(logs, source, 12)
    assert logs.read(OUT, 0, 100).data == b"Continue? yes\n"


def test_a_process_has_its_own_log_over_all_attempts(logs, source):
    for rank in (0, 1):
        source.write(ranked(rank), b"%d first\n" % rank)
        source.write(ranked(rank, "retry_001/"), b"%d again\n" % rank)
    own = "stdout-1.txt"
    assert logs.read(own, 0, 100).data == b"1 first\n1 again\n"
    assert logs.read(own, 10, 4) == Chunk(b"agai", 10, 16, False)


@pytest.mark.parametrize("path", ["stdout-0.txt", "stdout-wk-0.txt"])
def test_the_log_of_a_lone_process_has_the_names_that_tutorials_stream(logs, source, path):
    source.write(SINGLE, b"hello\n")
    assert logs.read(path, 0, 100).data == b"hello\n"


def test_the_end_of_a_job_drains_all_logs_at_once(logs, source):
    for rank in range(32):
        source.write(ranked(rank), b"%d\n" % rank)
    watch(logs, source, 2)
    for rank in range(32):
        source.write(ranked(rank), b"last of %d" % rank)
    source.status = "Failed"
    logs.has_ended = True
    chunk = logs.read(OUT, 0, 10_000)
    assert chunk.is_complete
    assert chunk.size == sum(map(len, source.files.values()))
    sent = source.requests.total()
    logs.read(OUT, 0, 10_000)
    assert source.requests.total() == sent


def test_a_long_log_of_an_ended_job_is_read_piece_by_piece(logs, source):
    written = bytes(range(256)) * (100 << 10)
    source.write(SINGLE, written)
    source.status = "Completed"
    data = b""
    while chunk := logs.tail({"stdout.txt": len(data)}, 10 << 20).get("stdout.txt"):
        data += chunk.data
        assert chunk.size > chunk.end or chunk.is_complete  # else a reader would think it has all
    assert data == written


@pytest.mark.parametrize("name", ["user_logs/mpi_log.txt", "logs/batchai/stdouterr/stderr-job_prep.txt"])
def test_other_logs_of_a_job_are_tailed_beside_the_common_one(logs, source, name):
    path = name.rpartition("/")[2]
    source.write(name, b"no slots\n")
    source.write(SINGLE, b"hello\n")
    source.status = "Failed"
    assert {path: chunk.data for path, chunk in logs.tail({}, 100).items()} == {
        "stdout.txt": b"hello\n",
        path: b"no slots\n",
    }
    assert logs.tail({path: 9, "stdout.txt": 6}, 100) == {}
    assert logs.read(path, 3, 5).data == b"slots"


def test_bytes_have_the_time_at_which_they_were_written(logs, source):
    source.write(SINGLE, b"one\n")
    tails: list[Mapping[str, Chunk]] = [logs.tail({}, 100)]
    source.now += 5
    source.write(SINGLE, b"two\n")
    tails.append(logs.tail({"stdout.txt": 4}, 100))
    assert [tail["stdout.txt"].times for tail in tails] == [(WriteTime(0, 1000.0),), (WriteTime(4, 1005.0),)]


def test_a_replaced_log_is_read_from_its_start(logs, source):
    source.write(SINGLE, b"a long first log\n")
    first = logs.read(OUT, 0, 100)
    source.files[SINGLE] = bytearray(b"new\n")
    source.now += 20
    logs.read(OUT, first.end, 100)
    source.now += 20
    chunk = logs.tail({"stdout.txt": first.end}, 100)["stdout.txt"]
    assert (chunk.offset, chunk.data) == (0, b"new\n")
    assert chunk.generation != first.generation


def test_a_job_without_a_log_yet_has_an_empty_one(logs):
    assert logs.tail({}, 100) == {}
    assert logs.read(OUT, 0, 100) == Chunk(b"", 0, 0, False, generation=logs.read(OUT, 0, 1).generation)


# the common log that is composed of those of processes


ALONE = RankLog("user_logs/std_log.txt", 0, 0)
RANKS = [RankLog(f"user_logs/std_log_process_{rank}.txt", 0, rank, str(rank)) for rank in range(3)]


def text(journal: LogJournal) -> bytes:
    return journal.cached(0, journal.end) or b""


def test_a_lone_process_shows_an_unfinished_line_at_once():
    journal = LogJournal()
    journal.add(ALONE, b"Continue? ")
    assert text(journal) == b"Continue? "


def test_a_progress_bar_is_shown_while_it_is_drawn():
    journal = LogJournal()
    journal.add(RANKS[0], b"10%\r20%\r30%")
    assert text(journal) == b"10%\r20%\r"


def test_an_endless_line_is_not_held_back_for_ever():
    journal = LogJournal()
    journal.add(RANKS[0], b"x" * 70_000)
    assert journal.end == 70_000


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=12)), max_size=40))
def test_no_byte_is_lost_repeated_or_attributed_to_another_process(reads):
    journal = LogJournal()
    for rank, data in reads:
        journal.add(RANKS[rank], data)
    journal.finish()
    whole = text(journal)
    for rank, log in enumerate(RANKS):
        own = b"".join(data for writer, data in reads if writer == rank)
        segments = [segment for segment in journal.segments(0, journal.end) if segment.log == log]
        assert b"".join(whole[segment.start : segment.end] for segment in segments) == own
        assert all(
            own[segment.source :][: segment.end - segment.start] == whole[segment.start : segment.end]
            for segment in segments
        )
    assert sum(segment.end - segment.start for segment in journal.segments(0, journal.end)) == len(whole)


# samples of what ranks use: read in turns, once each, and told in order of time


@pytest.fixture
def telemetry(source: LogSource) -> RunTelemetry:
    return RunTelemetry(JobLogs(source, source, clock=source.clock))


def name(rank: int) -> str:
    return f"logs/batchai/telemetry/{rank}.jsonl"


def begin(source: LogSource, rank: int) -> None:
    nodes = {str(number): f"node-{number}" for number in range(3)} | {str(rank): f"vm-{rank}"}
    head = {"version": 1, "machine": f"m{rank}", "nodes": nodes, "notes": ["no GPUs"]}
    source.write(name(rank), json.dumps(head).encode() + b"\n")


def sample(source: LogSource, rank: int, time: float) -> None:
    line = {"t": time, "ranks": [[rank, 1.0, 2, 3, 4, 0.5, 6, 7, 8]], "machine": [0.5, 1, 2, 3]}
    source.write(name(rank), json.dumps(line).encode() + b"\n")


def times(telemetry: RunTelemetry, after: float = 0.0) -> list[float]:
    return [sample.time for sample in telemetry.read(JOB, after=after).samples]


def test_all_samples_of_an_ended_job_are_told_in_order(source, telemetry):
    for rank in (0, 1):
        begin(source, rank)
        sample(source, rank, 10.0 + rank)
        sample(source, rank, 12.0 + rank)
    source.status = "Completed"
    assert times(telemetry) == [10.0, 11.0, 12.0, 13.0]
    record = telemetry.read(JOB, after=11.0)
    assert [each.time for each in record.samples] == [12.0, 13.0]
    assert (record.nodes, record.notes) == ({0: "vm-0", 1: "vm-1"}, ("no GPUs",))
    assert source.requests[name(0)] == source.requests[name(1)] == 1


def test_ranks_that_are_read_later_lose_no_sample(source, telemetry):
    for rank in (0, 1):
        begin(source, rank)
        sample(source, rank, 10.0)
    told: list[float] = []
    for moment in range(11, 60):
        source.now += 1.0
        for rank in (0, 1):
            sample(source, rank, float(moment))
        told += times(telemetry, max(told, default=0.0))
    assert told == sorted(told)
    source.status = "Completed"
    source.now += 60.0
    told += times(telemetry, max(told))
    assert told == [float(moment) for moment in range(10, 60) for _ in (0, 1)]
    assert source.sent_bytes == sum(map(len, source.files.values()))
    assert source.requests.total() <= 49


def test_a_rank_that_has_exited_does_not_hold_up_the_others(source, telemetry):
    for rank in (0, 1):
        begin(source, rank)
        sample(source, rank, 10.0)
    source.write("logs/batchai/exits/1.json", b"{}")
    for moment in range(11, 60):
        source.now += 1.0
        sample(source, 0, float(moment))
        last = times(telemetry)
    assert last[-1] > 40.0


def test_a_line_that_a_lost_node_has_cut_is_left_out(source, telemetry):
    begin(source, 0)
    sample(source, 0, 10.0)
    source.write(name(0), b'{"t": 11.0, "ran\n')
    sample(source, 0, 12.0)
    source.write(name(0), b'{"t": 13.0')
    source.status = "Completed"
    assert times(telemetry) == [10.0, 12.0]
