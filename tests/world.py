"""The world of tests: a local backend in its own folder, and operations on it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

import psutil
import pytest

from batchai_magics import cell
from batchai_magics.backends.base import Backend
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import submit
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import Cluster
from tests.default_resources import ensure_defaults
from tests.patience import PATIENCE_S
from tests.wire_bodies import plain_cluster, plain_job

T = TypeVar("T")
MOMENT_S = 0.5
HAS_PROC = Path("/proc/self/environ").exists()
FOLLOWED: WeakSet[Backend] = WeakSet()  # reconciled by `until`, as the follow loop does


class World:
    """A local backend with the default resources, and shortcuts to run jobs on it."""

    def __init__(self, home: Path, *, limits: LocalSettings | None = None) -> None:
        self.home = home
        self.settings = Settings(provenance="none", sections={"local": LocalSettings(home=home)})
        self.backend = LocalBackend(replace(limits or LocalSettings(), home=home))
        FOLLOWED.add(self.backend)
        ensure_defaults(self.backend, self.settings)
        self.workspace = workspace_id(self.settings)
        self.experiment = self.workspace.child(Kind.EXPERIMENT, self.settings.experiment)
        self.cluster = self.workspace.child(Kind.CLUSTER, self.settings.cluster)

    def submit(self, line: str, script: str = "print('hello')", **names: object) -> Job:
        """Submits a cell of a notebook with these variables."""
        request = cell.parse(line, script, settings=self.settings, notebook=cell.Notebook(names=names))
        return submit(self.backend, request, self.settings).job

    def run(self, line: str, script: str = "print('hello')", **names: object) -> Job:
        """Submits a cell and waits for the end of its job."""
        return self.submit(line, script, **names).wait(PATIENCE_S)

    def start(self, command: str, name: str = "j", *, cluster: str = "default", **fields: object) -> Job:
        """Creates a job of the custom toolkit on one node."""
        body = plain_job(self.workspace.child(Kind.CLUSTER, cluster), command, **fields)
        self.backend.create(self.job_id(name), JobSpec.from_wire(body))
        return Job(self.backend, self.job_id(name))

    def make_cluster(self, count: int = 1, **fields: object) -> Cluster:
        """Creates the cluster `c`, of so many nodes."""
        spec = ClusterSpec.from_wire(plain_cluster(count, **fields))
        return self.backend.create(self.workspace.child(Kind.CLUSTER, "c"), spec)

    def resize(self, cluster: ResourceId, count: int) -> None:
        """Changes the number of a cluster's nodes."""
        scale = {"scaleSettings": {"manual": {"targetNodeCount": count}}}
        self.backend.update(cluster, ClusterPatch.from_wire({"properties": scale}))

    def job_id(self, name: str) -> ResourceId:
        """The id of a job of the default experiment."""
        return self.experiment.child(Kind.JOB, name)

    def guid(self, job: Job) -> str:
        """The guid of a job's run, which names its folder."""
        return job.show().output_path_segment.rpartition("/")[2]

    def supervisor(self, job: Job) -> psutil.Process:
        """The supervisor process of a job."""
        with self.backend.store.read() as db:
            (name,) = db.execute("SELECT supervisor FROM job WHERE key = ?", (job.id.key,)).fetchone()
        return psutil.Process(int(name.partition(":")[0]))

    def close(self) -> None:
        """Ends all jobs and waits until their processes are gone."""
        for resource in self.backend.list(self.experiment, Kind.JOB):
            if not resource.state.is_final:
                with contextlib.suppress(BatchAIError):
                    self.backend.terminate(resource.id)
                    Job(self.backend, resource.id).wait(PATIENCE_S)
        until(lambda: not self.backend.runner.reap() and not processes_of(self.home))
        FOLLOWED.discard(self.backend)
        self.backend.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    yield made
    made.close()


def until(ask: Callable[[], T]) -> T:
    """Polls until the result is true, and returns it; fails the test after PATIENCE_S.

    What takes longer than a moment is asked for less often: the questions take time from what is waited for.
    """
    began = time.monotonic()
    while not (answer := ask()):
        for backend in list(FOLLOWED):
            with contextlib.suppress(BatchAIError):
                backend.reconcile()
        waited_s = time.monotonic() - began
        assert waited_s < PATIENCE_S, f"still not so after {PATIENCE_S} s"
        time.sleep(0.02 if waited_s < MOMENT_S else 0.1)
    return answer


def files_containing(home: Path, text: str) -> list[str]:
    """The files below a folder that contain a text.

    They are read by another process: when a process closes a file of SQLite's, it loses SQLite's locks on it.
    Its command line does not show the text: a test beside this one may look for it in all command lines.
    """
    argv = ["grep", "-rlsaF", "--file=-", "--", str(home)]
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=False).stdout.splitlines()


def processes_of(home: Path) -> list[psutil.Process]:
    """All living processes of jobs in `home`, from supervisors to descendants of ranks."""
    found, folder, own = [], f"{home}/", os.getpid()
    for pid in psutil.pids():
        if pid == own or not _may_name(pid, os.fsencode(home)):
            continue
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            words = chain(process.cmdline(), process.environ().values())
            is_at_work = any(folder in f"{word}/" for word in words)
            if is_at_work and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _may_name(pid: int, text: bytes) -> bool:
    """Whether a text may be among a process's words: psutil takes three times as long to read all of them."""
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{pid}/{name}", "rb", 0) as file:  # noqa: PTH123 a Path takes as long again
                if text in file.read():
                    return True
        except OSError:  # no longer there, somebody else's, or no such folder on this system
            return not HAS_PROC
    return False


def senders_in(home: Path) -> list[psutil.Process]:
    """The living processes that deliver notifications of runs in `home`."""
    found = []
    for process in processes_of(home):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            found += [process] if "notification_sender" in str(process.cmdline()) else []
    return found


def is_alive(process: psutil.Process) -> bool:
    """Whether a process is still running; one that nobody has waited for yet is not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def is_reading_logs(process: psutil.Process) -> bool:
    """Whether a process has started to evaluate stop conditions: it then handles SIGTERM."""
    with contextlib.suppress(psutil.Error, OSError):
        words = " ".join(process.cmdline())
        if "run_watch" in words:
            status = Path(f"/proc/{process.pid}/status").read_text()
            return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def kill_watchers(home: Path) -> None:
    """Kills the processes that evaluate stop conditions of jobs in `home`."""
    for process in filter(is_reading_logs, processes_of(home)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it was killed before, and is gone now
            process.kill()
