"""Samples what the processes of a job use of this machine, from Linux's /proc.

A sample is a line of JSON. All but the momentary values are totals since the process started, so a missing
sample only costs resolution. On other systems there are no samples.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from batchai_magics.backends.node.ranks.gpus import Gpus
from batchai_magics.backends.node.ranks.leftovers import read_proc, stat_fields
from batchai_magics.backends.node.ranks.machine_recording import memory_bytes
from batchai_magics.launch.plan import Plan
from batchai_magics.untrusted_files import opener

VERSION = 1
MAX_CPU_SHARE = 0.002  # of one core: the limit of sampling, and of searching for processes
MIN_AGE_S = 0.25  # no search before: it takes as long as a short job, and a young rank has few processes
MAX_PERIOD_S = 60.0
DENSE_SAMPLES = 600  # taken before intervals grow
DENSE_BYTES = 2 << 20  # each time the file has grown by this much, the interval doubles
_TICK_S = 1 / (os.sysconf("SC_CLK_TCK") if sys.platform == "linux" else 100)
_PAGE = os.sysconf("SC_PAGE_SIZE") if sys.platform == "linux" else 4096
_IN_CONTAINERS = "what processes in containers use is told to the container engine alone"


class ProcessUsage(NamedTuple):
    """What a process has used: seconds and bytes since it started, except for its current memory."""

    cpu_s: float
    memory_bytes: int
    read_bytes: int
    written_bytes: int
    core_wait_s: float  # runnable, but without a core
    major_faults: int  # pages read from the disk


def sampler(plan: Plan, *, first_rank: int) -> Sampler | None:
    """The sampler of a plan's processes; None if it is disabled, unsupported or out of disk space."""
    if not plan.telemetry or sys.platform != "linux":
        return None
    try:
        return Sampler(plan, first_rank=first_rank)
    except OSError:  # a full disk: no job fails for lack of telemetry
        return None


class Sampler:
    """Writes samples of a plan's processes to a file, as often as is cheap."""

    def __init__(self, plan: Plan, *, first_rank: int) -> None:
        self._gpus = Gpus(plan)
        notes = [_IN_CONTAINERS] if plan.containers.engine else []
        notes += [self._gpus.note] if self._gpus.note else []
        os.makedirs(plan.telemetry, 0o700, exist_ok=True)  # noqa: PTH103 pathlib slows each rank
        path = f"{plan.telemetry}/{first_rank}.jsonl"
        self._file = opener(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._is_torn = False
        self._started_s = time.monotonic()
        self._members: dict[int, int] = {}  # pid → rank
        self._search_due, self.due_s = self._started_s + MIN_AGE_S, 0.0
        nodes = {process.rank: plan.node_of(process).id for process in plan.processes}
        self._write({"version": VERSION, "machine": os.uname().nodename, "nodes": nodes, "notes": notes})

    def sample_if_due(self, groups: Mapping[int, int]) -> None:
        """Samples the process groups of these ranks, if a sample is due."""
        now_s = time.monotonic()
        if now_s < self.due_s:
            return
        if not groups:
            self.due_s = now_s + MAX_PERIOD_S
            return
        began = time.thread_time()
        if now_s >= self._search_due:
            self._members = _members(groups)
            cost_s = time.thread_time() - began
            self._search_due = now_s + cost_s / MAX_CPU_SHARE
            began = time.thread_time()
        elif not self._members:
            self._members = {group: rank for rank, group in groups.items()}
        self._write(self._sample(groups))
        self.due_s = now_s + self._period_s(now_s - self._started_s, time.thread_time() - began)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)
        self._gpus.close()

    def _period_s(self, elapsed_s: float, cost_s: float) -> float:
        """The time until the next sample: at most a second at first, growing with the run's duration."""
        early_s = min(1.0, max(MIN_AGE_S, elapsed_s / 4))
        period_s = max(early_s, min(MAX_PERIOD_S, elapsed_s / DENSE_SAMPLES), cost_s / MAX_CPU_SHARE)
        return period_s * float(1 << (os.fstat(self._file).st_size // DENSE_BYTES))

    def _sample(self, groups: Mapping[int, int]) -> dict[str, Any]:
        gpus = self._gpus.sample()
        ranks: dict[int, list[float]] = {rank: [0.0] * 8 for rank in groups}
        for pid, rank in self._members.items():
            usage = _process_usage(pid)
            if usage and rank in ranks:
                row = ranks[rank]
                row[:] = [*map(sum, zip(row, (*usage, 1, gpus.memory.get(pid, 0)), strict=True))]
        # integers stay exact, seconds to the millisecond
        rows = [
            [rank, *(round(value, 3) if value % 1 else int(value) for value in row)]
            for rank, row in ranks.items()
        ]
        sample: dict[str, Any] = {"t": round(time.time(), 2), "ranks": rows, "machine": _machine()}
        return {**sample, "gpus": gpus.devices} if gpus.devices else sample

    def _write(self, line: Mapping[str, Any]) -> None:
        """Appends a line; a full disk drops it, and a partial line is terminated by the next one."""
        data = (b"\n" if self._is_torn else b"") + json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            self._is_torn = os.write(self._file, data) < len(data)
        except OSError:  # no job fails for lack of telemetry
            return


def _members(groups: Mapping[int, int]) -> dict[int, int]:
    """The ranks of the processes that belong to a rank, by process group or ancestry: pid → rank."""
    ranks = {group: rank for rank, group in groups.items()}
    parents: dict[int, tuple[int, int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 pathlib is slow
        if name.isdecimal() and (fields := stat_fields(int(name))):
            parents[int(name)] = int(fields[1]), int(fields[2])
    return {pid: rank for pid in parents if (rank := _rank_of(pid, parents, ranks)) is not None}


def _rank_of(pid: int, parents: Mapping[int, tuple[int, int]], ranks: Mapping[int, int]) -> int | None:
    for _ in range(64):  # no process tree is deeper; a reused pid causes no endless loop
        if pid not in parents:
            return None
        parent, group = parents[pid]
        if group in ranks:
            return ranks[group]
        pid = parent
    return None


def _process_usage(pid: int) -> ProcessUsage | None:
    """What a process has used; None if it is gone."""
    fields = stat_fields(pid)
    if not fields:
        return None
    counters = dict(line.split(b": ") for line in read_proc(f"/proc/{pid}/io").splitlines())
    waited = read_proc(f"/proc/{pid}/schedstat").split()
    return ProcessUsage(
        sum(map(int, fields[11:15])) * _TICK_S,
        int(fields[21]) * _PAGE,
        int(counters.get(b"rchar", 0)),
        int(counters.get(b"wchar", 0)),
        int(waited[1]) / 1e9 if len(waited) > 1 else 0.0,
        int(fields[9]),
    )


def _machine() -> list[float]:
    """The machine's load, its free memory, and its network traffic except for the loopback."""
    load = read_proc("/proc/loadavg").split(maxsplit=1)
    received = sent = 0
    for line in read_proc("/proc/net/dev").splitlines()[2:]:
        name, _, rest = line.partition(b":")
        if name.strip() != b"lo" and len(counts := rest.split()) > 8:
            received, sent = received + int(counts[0]), sent + int(counts[8])
    return [float(load[0]) if load else 0.0, memory_bytes("MemAvailable") or 0, received, sent]
