"""No byte of a log is lost or comes twice, whatever goes wrong while it is followed."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from typing import Any, cast

import pytest

from batchai_magics import follow
from batchai_magics.backends.azure.arm_client import TIMING
from batchai_magics.backends.azureml import job_logs
from batchai_magics.backends.azureml.azureml_backend import AzureMLBackend
from batchai_magics.follow import LogBytes, StateChanged
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState
from tests.azureml.stand_in import AzureStandIn
from tests.follow.event_steps import Pauses

FAULTS, RANKS = 50, 4
HASTE = 500  # how much faster than ours the clock of the backend's request budget is
LINE = re.compile(r"rank (\d) line (\d+) [=]+ end\Z")
JOB: dict[str, Any] = {
    "jobType": "Command",
    "command": "train",
    "environmentId": "azureml:image:1",
    "experimentName": "first",
    "resources": {"instanceCount": 2, "instanceType": "Standard_DS3_v2"},
    "distribution": {"distributionType": "PyTorch", "processCountPerInstance": 2},
}


class Writer(threading.Thread):
    """Writes to the logs of all ranks, in pieces that end inside lines, until there were enough faults."""

    def __init__(self, azure: AzureStandIn) -> None:
        super().__init__(daemon=True)
        self._azure, self.lines = azure, 0
        self.stop = threading.Event()

    def run(self) -> None:
        rest = dict.fromkeys(range(RANKS), b"")
        while len(self._azure.faults.happened) < FAULTS and not self.stop.wait(0.005):
            for rank in rest:
                text = (
                    rest[rank] + f"rank {rank} line {self.lines} {'=' * (self.lines % 97 + 1)} end\n".encode()
                )
                rest[rank] = self._write(rank, text, len(text) * 2 // 3)
            self.lines += 1
        for rank, text in rest.items():
            self._write(rank, text, len(text))
        self._azure.set_status("resnet", "Completed")

    def _write(self, rank: int, text: bytes, size: int) -> bytes:
        self._azure.write_log("resnet", f"user_logs/std_log_process_{rank:02}.txt", text[:size])
        return text[size:]


@pytest.mark.parametrize("seed", [1, 2])
def test_fifty_random_faults_lose_and_repeat_no_byte(
    azure: AzureStandIn,
    backend: AzureMLBackend,
    workspace: ResourceId,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    monkeypatch.setitem(cast("dict[str, float]", TIMING), "retry_backoff_factor", 0.0)
    # A rank falls silent for a third of a second of ours at times: its line is not unfinished for that.
    monkeypatch.setattr(job_logs, "_UNFINISHED_LINE_S", float("inf"))
    for part in (backend.logs, backend._recent):
        monkeypatch.setattr(part, "_clock", lambda: time.monotonic() * HASTE)
    connection = backend.connection
    connection.send(connection.request("PUT", "jobs/resnet", {"properties": JOB}))
    azure.set_status("resnet", "Running")
    job = workspace.child(Kind.EXPERIMENT, "first").child(Kind.JOB, "resnet")
    backend.show(job)
    writer, found = Writer(azure), defaultdict[str, bytearray](bytearray)
    writer.start()
    pause = threading.Event()
    events = follow.events(backend, job, stop=Pauses(lambda _: pause.wait(0.01)))
    last = next(events)  # a watch begins with an answer
    azure.faults.scatter(FAULTS, seed=seed)
    for event in events:
        if isinstance(event, LogBytes):
            assert not event.restarted
            found[event.file.path] += event.chunk.data
        last = event
    writer.stop.set()
    assert isinstance(last, StateChanged)
    assert last.job.state is ExecutionState.SUCCEEDED
    assert len(azure.faults.happened) == FAULTS
    seen: dict[int, list[int]] = defaultdict(list)
    for line in found["stdout.txt"].decode().splitlines():
        match = LINE.search(line)
        assert match, line
        seen[int(match[1])].append(int(match[2]))
    assert seen == {rank: list(range(writer.lines)) for rank in range(RANKS)}
