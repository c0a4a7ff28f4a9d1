"""Processes that are killed while they replace a job's artifacts: what is listed is there, as recorded."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.jobs.job_handle import Job

if TYPE_CHECKING:
    from benchmarks.chaos.harms import Place

_KILLS = 4  # of the processes that save, which are started again
_PAUSE_S = 0.3  # the longest, between two kills
_SECONDS = 60.0  # for a process to save for the first time
_SCRIPT = """
import os, sys
from batchai_magics import save
for number in range(1, 1_000_000):
    path = f"model-{os.getpid()}.pt"
    with open(path, "wb") as file:
        file.write(number.to_bytes(4, "big") * (number % 7 * 20_000 + 1))
    save(path, "model.pt", step=number % 3)
"""
_SAVES = "for one in 1 2; do (until python3 {file}; do [ -e {file} ] || exit 1; done) & done; wait; exit 1"


def save(place: Place, names: list[str]) -> None:
    """Two processes of a rank replace the same artifacts, and are killed at random moments."""
    name = f"{names[0]}-saves"
    names.append(name)
    script = place.folder / f"{name}.py"
    script.write_text(_SCRIPT)
    place.submit(name, _SAVES.format(file=script))
    job = Job(place.backend, place.id(name))
    deadline = time.monotonic() + _SECONDS
    while len(job.artifacts()) < 3 and not job.show().state.is_final:
        assert time.monotonic() < deadline, f"{name} saves nothing"
        time.sleep(0.02)
    for kill in range(_KILLS):
        time.sleep(place.dice.uniform(0.0, _PAUSE_S))
        if kill == _KILLS - 1:
            script.unlink()
        for process in _saving(script):
            with contextlib.suppress(ProcessLookupError):  # it ended because its script is gone
                os.kill(process, signal.SIGKILL)
    place.backend.terminate(job.id)
    while not job.show().state.is_final:
        time.sleep(0.02)
    _check(job)


def _saving(script: Path) -> list[int]:
    found = psutil.process_iter(["pid", "cmdline"])
    return [one.pid for one in found if (one.info["cmdline"] or [])[-1:] == [str(script)]]


def _check(job: Job[LocalBackend]) -> None:
    listed = job.artifacts()
    assert [each.name for each in listed] == ["model.pt"] * 3, f"{job.name} lists {listed}"
    with tempfile.TemporaryDirectory() as folder:
        for each in listed:
            data = job.download(each, folder).read_bytes()
            found = (len(data), hashlib.sha256(data).hexdigest())
            assert found == (each.size_bytes, each.sha256), f"{job.name}: {each} has {found}"
