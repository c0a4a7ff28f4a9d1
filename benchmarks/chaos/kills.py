"""Two hundred jobs on a cluster of four nodes while supervisors are killed at random: nothing may get lost.

Every job has to end, honestly, and to run at most once; jobs that nobody harms succeed, in the order in which
they were submitted. The time is held against that of the same jobs left in peace. The kills are seeded.

`python benchmarks/chaos/kills.py [JOBS KILLS SEED]` prints what became of the jobs.
"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from batchai_magics.backends.local import process
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from benchmarks.row import Row
from tests.default_resources import ensure_defaults

JOBS, KILLS, NODES, SEED = 200, 100, 4, 20180501
WORK = "echo {name} >> $AZ_BATCHAI_MOUNT_ROOT/autoafs/ran; sleep 0.1"
SHARE = "batchaishare"
HONEST = ("JobSupervisorLost", "JobLaunchFailed")  # what a job whose supervisor was killed ends with
PATIENCE_S = 600.0
PAUSE_S = 0.1  # the longest, between two kills


@dataclass(frozen=True)
class Count:
    """What became of the jobs. `late` is by how many places a job that ran was overtaken at most."""

    seconds: float
    kills: int
    ends: Counter[str]
    ran: int
    ran_twice: int
    lost: int
    dishonest: int
    late: int
    left: int

    def __str__(self) -> str:
        ends = ", ".join(f"{number} {how}" for how, number in sorted(self.ends.items()))
        faults = f"{self.lost} lost, {self.ran_twice} ran twice, {self.dishonest} ended dishonestly"
        return (
            f"{self.kills} supervisors killed in {self.seconds:.1f} s: {ends}; {self.ran} ran; {faults}; "
            f"overtaken by {self.late} at most; {self.left} processes left"
        )

    def check(self) -> Count:
        """Itself; raises AssertionError when a promise was broken."""
        faults = (self.lost, self.ran_twice, self.dishonest, self.left)
        assert not any(faults), str(self)
        assert self.late < 4 * NODES, str(self)  # a node may be slow to start a job
        return self


def rows() -> Iterator[Row]:
    """The time for all jobs, harmed and unharmed."""
    harmed, unharmed = run(JOBS, KILLS).check(), run(JOBS, 0).check()
    what = f"{JOBS} jobs, {harmed.kills} supervisors killed"
    yield Row(what, harmed.seconds, "the same jobs in peace", unharmed.seconds, "s")


def run(jobs: int, kills: int, seed: int = SEED) -> Count:
    """Submits the jobs, kills supervisors until so many are, waits for the end, and counts."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        settings = Settings(sections={"local": LocalSettings(home=home)}, cluster_nodes=NODES)
        backend = LocalBackend(LocalSettings(home=home))
        ensure_defaults(backend, settings)
        began = time.perf_counter()
        names = [f"j{number:03}" for number in range(jobs)]
        for name in names:
            submit(backend, settings, name)
        killed = kill_some(backend, settings, kills, random.Random(seed))
        ended = wait(backend, settings)
        seconds = time.perf_counter() - began
        ran = backend.storage.download(SHARE, "ran").decode().split()
        left = wait_until_gone(home)
        backend.close()
    return count(names, ended, ran, seconds=seconds, kills=killed, left=left)


def submit(backend: LocalBackend, settings: Settings, name: str) -> None:
    """One job that notes that it ran."""
    workspace = workspace_id(settings)
    properties = {
        "cluster": {"id": str(workspace.child(Kind.CLUSTER, settings.cluster))},
        "nodeCount": 1,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
        "customToolkitSettings": {"commandLine": WORK.format(name=name)},
    }
    backend.create(experiment(settings).child(Kind.JOB, name), JobSpec.from_wire({"properties": properties}))


def experiment(settings: Settings) -> ResourceId:
    """What the jobs belong to."""
    return workspace_id(settings).child(Kind.EXPERIMENT, settings.experiment)


def kill_some(backend: LocalBackend, settings: Settings, wanted: int, dice: random.Random) -> int:
    """Kills supervisors, one after the other, until so many are or no job is left; gives how many."""
    killed = 0
    while killed < wanted and any(not job.state.is_final for job in shown(backend, settings)):
        with backend.store.read() as db:
            query = "SELECT supervisor FROM job WHERE supervisor != '' AND ended IS NULL"
            alive = [name for (name,) in db.execute(query) if process.is_alive(name)]
        if alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(process.pid_of(dice.choice(alive))).kill()
                killed += 1
        time.sleep(dice.uniform(0.0, PAUSE_S))
    return killed


def wait(backend: LocalBackend, settings: Settings) -> list[JobResource]:
    """All jobs, when the last has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        jobs = shown(backend, settings)
        if all(job.state.is_final for job in jobs):
            return jobs
        assert time.monotonic() < deadline, "some jobs never end"
        time.sleep(0.05)


def shown(backend: LocalBackend, settings: Settings) -> list[JobResource]:
    """All jobs as they stand, after what dead supervisors left undone is done: reading does none of it."""
    backend.reconcile()
    return [job for job in backend.list(experiment(settings), Kind.JOB) if isinstance(job, JobResource)]


def wait_until_gone(home: Path) -> int:
    """How many processes of the jobs still run, after a while in which they may end."""
    deadline = time.monotonic() + 10.0
    while (left := living(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def living(home: Path) -> int:
    """How many processes work for jobs of this home."""
    found = 0
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            words = [*one.cmdline(), *one.environ().values()]
            found += one.pid != psutil.Process().pid and any(str(home) in word for word in words)
    return found


def count(
    names: list[str], jobs: list[JobResource], ran: list[str], *, seconds: float, kills: int, left: int
) -> Count:
    """Compares what was submitted, what was shown and what ran."""
    good = {job.id.name for job in jobs if job.state is ExecutionState.SUCCEEDED}
    codes = {job.id.name: code for job in jobs if (code := code_of(job))}
    dishonest = len(good - set(ran)) + sum(code not in HONEST for code in codes.values())
    return Count(
        seconds=seconds,
        kills=kills,
        ends=Counter([*codes.values(), *("succeeded" for _ in good)]),
        ran=len(ran),
        ran_twice=len(ran) - len(set(ran)),
        lost=len(set(names) - good - set(codes)),
        dishonest=dishonest,
        late=most_overtaken(names, ran),
        left=left,
    )


def code_of(job: JobResource) -> str:
    """Why a job failed; empty for one that did not."""
    return job.execution.errors[0].code if job.execution and job.execution.errors else ""


def most_overtaken(names: list[str], ran: list[str]) -> int:
    """By how many places a job that ran came later, or earlier, than its turn at most."""
    turns = [name for name in names if name in ran]
    return max((abs(place - ran.index(name)) for place, name in enumerate(turns)), default=0)


if __name__ == "__main__":
    print(run(*(int(word) for word in sys.argv[1:4]) if len(sys.argv) > 1 else (JOBS, KILLS)).check())
