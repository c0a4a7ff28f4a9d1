"""Slows the preflight's program on one node of a job down, as another program on that node would."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import psutil

from batchai_magics.backends.node.preflight_program import INDEX
from batchai_magics.records.preflight import PreflightReport

Job = TypeVar("Job")

RUN_S = 0.004  # between two looks at what the program has used
REST = 11  # times as long as it has used a processor, in which it is stopped
SETTLED_S = 20.0  # after that, a process runs no other program
TRIES = 5
NICENESS = 5  # on a busy machine it gets less than others whenever its stops come late


def found_alone(node: int, run: Callable[[int], tuple[Job, PreflightReport]]) -> tuple[Job, PreflightReport]:
    """The first of a few jobs whose preflight names that node alone: other load slows others at times."""
    for number in range(TRIES):
        job, report = run(number)
        if report.flagged == (report.nodes[node].node,):
            break
    return job, report


@contextlib.contextmanager
def throttled(guid: str, node: int) -> Iterator[None]:
    """Within it, what checks that node of that run is stopped most of the time."""
    is_over = threading.Event()
    thread = threading.Thread(target=_throttle, args=(guid, node, is_over))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _throttle(guid: str, node: int, is_over: threading.Event) -> None:
    found, known = None, set[int]()
    while found is None and not is_over.wait(RUN_S):
        found = program_of(guid, node, known)
    with contextlib.suppress(psutil.NoSuchProcess):
        if found:
            found.nice(max(NICENESS, found.nice()))
        while found and not is_over.is_set():
            before_s = _used_s(found)
            found.resume()
            while (used_s := _used_s(found) - before_s) <= 0 and not is_over.wait(RUN_S):
                continue
            found.suspend()
            is_over.wait(used_s * REST)
    with contextlib.suppress(psutil.NoSuchProcess):
        if found:
            found.resume()


def _used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def program_of(guid: str, node: int, known: set[int]) -> psutil.Process | None:
    """The program that checks a node; `known` are the processes that have turned out to be something else."""
    for pid in set(psutil.pids()) - known:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            words = process.cmdline()
            if words[-2:-1] and "preflight_program" in words[-2] and words[0] != "/bin/bash":
                variables = process.environ()
                if variables.get(INDEX) == str(node) and variables.get("BATCHAI_JOB_GUID") == guid:
                    return process
            if time.time() - process.create_time() > SETTLED_S:
                known.add(pid)
    return None
