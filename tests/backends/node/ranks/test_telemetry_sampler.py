"""Samples of real processes: what they hold, how often they come, and what a line that is torn costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.folders import rank_files as reading
from batchai_magics.backends.node.ranks import telemetry_sampler
from batchai_magics.backends.node.ranks.gpus import Gpus, GpuSample
from batchai_magics.backends.node.ranks.telemetry_sampler import DENSE_BYTES, Sampler, sampler
from batchai_magics.launch.plan import LogPaths, Output, Plan, PlanNode, Process
from batchai_magics.models.telemetry_records import GpuUse, RankUse, TelemetryRecord
from tests.world import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of processes in /proc"),
]

BURNS = "while True: pass"
SLEEPS = "import time; time.sleep(600)"
ALLOCATES = "keep = bytearray(b'x') * (96 << 20); import time; time.sleep(600)"
STARTS_ANOTHER = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ALLOCATES!r}])"
LEAVES_ANOTHER = f"""
import os, time
if not os.fork():
    if not os.fork():
        {ALLOCATES}
    os._exit(0)
os.wait()
time.sleep(600)
"""
STARTS_A_GROUP = STARTS_ANOTHER.replace("'-c'", "'-c', 'import os; os.setsid(); exec(os.sys.argv[1])'")
WRITES = "import os\nwhile True: os.write(1, bytes(1 << 16))"

Start = Callable[[str], int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program as a rank is started: in a process group of its own."""
    children = []

    def start(code: str) -> int:
        argv = [sys.executable, "-c", code]
        children.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True))
        return children[-1].pid

    yield start
    for child in children:
        for below in psutil.Process(child.pid).children(recursive=True):
            below.kill()
        os.killpg(child.pid, 9)
        child.wait()


def plan(folder: Path, count: int = 2) -> Plan:
    node = PlanNode("n0", "/", "/tmp", {})
    processes = tuple(Process(rank, 0, "true") for rank in range(count))
    output = Output(LogPaths(""), LogPaths(""))
    return Plan("g", (node,), processes, output, exits="", python="", telemetry=str(folder / "telemetry"))


def record(folder: Path, after: float = 0.0) -> TelemetryRecord:
    return reading.read_telemetry(folder / "telemetry", after)


def sampled(folder: Path, groups: dict[int, int], is_enough: Callable[[dict[int, RankUse]], bool]) -> None:
    """Samples until the last sample is as it should be."""
    taking = Sampler(plan(folder, len(groups)), first_rank=0)

    def has_enough() -> bool:
        taking.sample_if_due(groups)
        samples = record(folder).samples
        return bool(samples) and is_enough({use.rank: use for use in samples[-1].ranks})

    until(has_enough)
    taking.close()


def test_usage_of_a_rank_includes_its_child_processes(tmp_path, start):
    codes = (BURNS, SLEEPS, WRITES, STARTS_ANOTHER, LEAVES_ANOTHER, STARTS_A_GROUP)

    def is_seen(uses: dict[int, RankUse]) -> bool:
        burns, sleeps, writes, *others = (uses[rank] for rank in range(len(codes)))
        return (
            burns.cpu_s > 1 + 2 * sleeps.cpu_s
            and writes.written_bytes > 1 << 22 > sleeps.written_bytes
            and all(use.processes == 2 for use in others)
            and all(use.memory_bytes > 96 << 20 > sleeps.memory_bytes for use in others)
        )

    sampled(tmp_path, {rank: start(code) for rank, code in enumerate(codes)}, is_seen)
    told = record(tmp_path)
    assert told.nodes == dict.fromkeys(range(len(codes)), "n0")
    assert told.notes == ()
    assert told.samples[0].machine == os.uname().nodename
    assert told.samples[0].use.available_bytes > 1 << 20
    assert TelemetryRecord.from_wire(json.loads(json.dumps(told.to_wire()))) == told


def test_samples_come_at_their_time_and_ever_more_seldom(tmp_path):
    taking = Sampler(plan(tmp_path), first_rank=0)
    periods = [taking._period_s(elapsed_s, 0.0) for elapsed_s in (0, 2, 60, 600, 6000, 1e6)]
    assert periods == [0.25, 0.5, 1.0, 1.0, 10.0, 60.0]
    assert taking._period_s(60, 0.01) == 5.0, "what costs 10 ms is done every five seconds"
    (file,) = (tmp_path / "telemetry").iterdir()
    with file.open("ab") as stream:
        stream.truncate(3 * DENSE_BYTES)
    assert taking._period_s(60, 0.0) == 8.0
    taking.close()


def test_without_a_usable_folder_nothing_is_sampled(tmp_path):
    taking = sampler(plan(tmp_path), first_rank=0)
    assert taking
    taking.close()
    assert sampler(plan(tmp_path)._replace(telemetry=""), first_rank=0) is None
    (tmp_path / "in the way").touch()
    assert sampler(plan(tmp_path / "in the way"), first_rank=0) is None


def test_gpus_are_told_where_the_machine_has_some(tmp_path, monkeypatch):
    class TwoGpus(Gpus):
        def sample(self) -> GpuSample:
            return GpuSample([[0, 97, 5 << 30], [1, None, 1 << 30]], {})

    monkeypatch.setattr(telemetry_sampler, "Gpus", TwoGpus)
    sampled(tmp_path, {0: os.getpid()}, bool)
    assert record(tmp_path).samples[-1].gpus == (GpuUse(0, 97, 5 << 30), GpuUse(1, None, 1 << 30))


def lines(folder: Path, times: list[float]) -> Path:
    """A file of samples that were taken at these times."""
    file = folder / "telemetry" / "0.jsonl"
    file.parent.mkdir()
    head = {"version": 1, "machine": "m", "nodes": {"0": "n0"}, "notes": []}
    rows = [
        {"t": time, "ranks": [[0, time, 1, 2, 3, 0.5, 0, 1, 0]], "machine": [1.0, 2, 3, 4]} for time in times
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in [head, *rows]))
    return file


def test_a_torn_line_is_passed_over_wherever_it_is(tmp_path):
    file = lines(tmp_path, [1.0, 2.0, 3.0])
    head, first, second, third = file.read_text().splitlines(keepends=True)
    file.write_text(head + first + second[:20] + "\n" + third + third[:30])
    assert [sample.time for sample in record(tmp_path).samples] == [1.0, 3.0]


def test_later_samples_are_found_without_reading_the_whole_file(tmp_path):
    times = [float(time) for time in range(5000)]
    lines(tmp_path, times)
    assert [sample.time for sample in record(tmp_path, after=4990.0).samples] == times[4991:]
    assert [sample.time for sample in record(tmp_path, after=20.5).samples] == times[21:]
    assert record(tmp_path, after=1e9).samples == ()


def test_missing_file_and_file_of_another_version_have_no_samples(tmp_path):
    assert record(tmp_path).samples == ()
    file = lines(tmp_path, [1.0])
    file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
    assert record(tmp_path).samples == ()
