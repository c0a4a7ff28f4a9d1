"""Samples of what ranks use are read in turns, once each, and told in order of time."""

from __future__ import annotations

import json

import pytest

from batchai_magics.backends.azureml.job_logs import JobLogs
from batchai_magics.backends.azureml.run_records import RunTelemetry
from tests.backends.azureml.log_source import JOB, LogSource


@pytest.fixture
def source() -> LogSource:
    return LogSource()


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
