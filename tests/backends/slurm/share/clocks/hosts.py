"""Hosts whose clocks are ten minutes apart, on one shared folder."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.file_repository import FileClock
from batchai_magics.backends.service.runner import Run, RunStatus
from batchai_magics.backends.slurm.node.run_files import RunFiles, SlurmSubmission
from batchai_magics.backends.slurm.queries import QueryCache
from batchai_magics.backends.slurm.runs import Runs
from batchai_magics.backends.slurm.settings import SlurmSettings
from tests.backends.slurm.scripted_slurm import ScriptedClient

OFF_S = 600.0
LOST_S = 30.0
GUID = "guid"
either_way = pytest.mark.parametrize("off_s", [-OFF_S, OFF_S], ids=["behind", "ahead"])


@contextlib.contextmanager
def clock_off(off_s: float) -> Iterator[None]:
    """Within it, the clock of this host is wrong by so much."""
    real = time.time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + off_s)
        yield


class Host:
    """A host that reconciles one job."""

    def __init__(self, home: Path, slurm: ScriptedClient) -> None:
        layout, clock = Layout(home), FileClock(home / "clock")
        self.answers = QueryCache(slurm, home / "asked", 10.0, clock)
        self.runs = Runs(layout, slurm, self.answers, SlurmSettings(home=home, lost_s=LOST_S))
        self.files = RunFiles(layout.job(GUID).root)

    def made(self) -> Run:
        """The job, created by this host just now."""
        self.files.root.mkdir(parents=True)
        self.files.bundle.write_text("{}")
        return Run(GUID, "j", time.time(), {})

    def submitted(self) -> Run:
        """The job, created by this host just now and submitted as number 1."""
        job = self.made()
        self.files.note_submission(1, SlurmSubmission("1", time.time()))
        return job

    def passes(self, seconds: float) -> None:
        """Ages all files of the job by this many seconds."""
        for file in self.files.root.iterdir():
            written = file.stat().st_mtime - seconds
            os.utime(file, (written, written))


def error_of(status: RunStatus) -> str:
    return status.result.errors[0]["code"] if status.result else ""
