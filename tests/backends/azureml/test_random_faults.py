"""No byte of a log is lost or comes twice, whatever goes wrong while it is followed."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from dataclasses import replace
from itertools import chain
from typing import cast

import pytest

from batchai_magics import follow
from batchai_magics.backends.azure.arm_client import TIMING
from batchai_magics.follow import LogBytes, StateChanged
from batchai_magics.models.states import ExecutionState
from tests.azureml.http_messages import Request, Response
from tests.azureml.stand_in import AzureStandIn
from tests.follow.event_steps import Pauses

FAULTS, RANKS = 50, 4
PAUSE_S = 5.0  # between two looks, by the clock of the backend's request budget
LINE = re.compile(r"rank (\d) line (\d+) [=]+ end\Z")


class Writer:
    """Writes to the logs of all ranks before each request for one, until there were enough faults.

    What it writes ends inside lines.
    """

    def __init__(self, azure: AzureStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        self._azure, self._answer, self.lines = azure, azure.blobs.answer, 0
        self._rest = dict.fromkeys(range(RANKS), b"")
        self._lock, self._is_done = threading.Lock(), False
        self._write()
        monkeypatch.setattr(azure.blobs, "answer", self._write_and_answer)

    def _write_and_answer(self, request: Request) -> Response:
        with self._lock:
            if not self._is_done:
                self._write()
        return self._answer(request)

    def _write(self) -> None:
        self._is_done = len(self._azure.faults.happened) >= FAULTS
        for rank, rest in self._rest.items():
            line = f"rank {rank} line {self.lines} {'=' * (self.lines % 97 + 1)} end\n"
            text = rest if self._is_done else rest + line.encode()
            size = len(text) if self._is_done else len(text) * 2 // 3
            self._azure.write_log("resnet", f"user_logs/std_log_process_{rank:02}.txt", text[:size])
            self._rest[rank] = text[size:]
        if self._is_done:
            self._azure.set_status("resnet", "Completed")
        else:
            self.lines += 1


@pytest.mark.parametrize("seed", [1, 2])
def test_fifty_random_faults_lose_and_repeat_no_byte(azure, backend, start, monkeypatch, seed):
    monkeypatch.setitem(cast("dict[str, float]", TIMING), "retry_backoff_factor", 0.0)
    # A rank falls silent for minutes of that clock at times: its line is not unfinished for that.
    backend.logs.intervals = replace(backend.logs.intervals, unfinished_line=float("inf"))
    now = 0.0

    def pause(_: float) -> None:
        nonlocal now
        now += PAUSE_S

    backend.logs.clock = lambda: now
    backend.recent.clock = lambda: now
    job = start(
        resources={"instanceCount": 2, "instanceType": "Standard_DS3_v2"},
        distribution={"distributionType": "PyTorch", "processCountPerInstance": 2},
    )
    backend.show(job)
    writer, found = Writer(azure, monkeypatch), defaultdict[str, bytearray](bytearray)
    events = chain.from_iterable(follow.events(backend, job, stop=Pauses(pause)))
    last = next(events)  # a watch begins with an answer
    azure.faults.scatter(FAULTS, seed=seed)
    for event in events:
        if isinstance(event, LogBytes):
            assert not event.restarted
            found[event.file.path] += event.chunk.data
        last = event
    assert isinstance(last, StateChanged)
    assert last.job.state is ExecutionState.SUCCEEDED
    assert len(azure.faults.happened) == FAULTS
    seen: dict[int, list[int]] = defaultdict(list)
    for line in found["stdout.txt"].decode().splitlines():
        match = LINE.search(line)
        assert match, line
        seen[int(match[1])].append(int(match[2]))
    assert seen == {rank: list(range(writer.lines)) for rank in range(RANKS)}
