"""What goes wrong in a round of misfortune, and what jobs may say of it then."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.local import process
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import JobResource
from benchmarks.chaos.kills import experiment, shown
from benchmarks.chaos.owners import own
from benchmarks.chaos.saves import save
from tests.default_resources import ensure_defaults

NODES = 2
WORK = "echo {name} >> $AZ_BATCHAI_MOUNT_ROOT/autoafs/ran && {then}"
SHARE = "batchaishare"
LOST = ("JobSupervisorLost", "JobLaunchFailed")


class Place:
    """A backend of its own, and the round that is going on."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self.dice = folder, dice
        self.home = folder / "home"
        self.settings = Settings(cluster_nodes=NODES)
        self.backend = LocalBackend(LocalSettings(home=self.home, disk_grace_s=1.0))
        self.gone: set[str] = set()  # deleted by the harm itself
        ensure_defaults(self.backend, self.settings)

    def id(self, name: str) -> ResourceId:
        """A job's."""
        return experiment(self.settings).child(Kind.JOB, name)

    def submit(self, name: str, then: str = "sleep 0.3") -> None:
        """One job that notes that it ran."""
        cluster = workspace_id(self.settings).child(Kind.CLUSTER, self.settings.cluster)
        properties = {
            "cluster": {"id": str(cluster)},
            "nodeCount": 1,
            "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
            "customToolkitSettings": {"commandLine": WORK.format(name=name, then=then)},
        }
        self.backend.create(self.id(name), JobSpec.from_wire({"properties": properties}))

    def watched(self) -> tuple[str, str] | None:
        """The key of a job that has a living supervisor, and that supervisor."""
        with self.backend.store.read() as db:
            query = "SELECT key, supervisor FROM job WHERE supervisor != '' AND ended IS NULL"
            alive = [(key, name) for key, name in db.execute(query) if process.is_alive(name)]
        return self.dice.choice(alive) if alive else None

    def ran(self) -> Counter[str]:
        """How often each job noted that it ran."""
        file = self.home / "shares" / "local" / SHARE / "ran"
        return Counter(file.read_text().split() if file.exists() else ())


def kill(place: Place, names: list[str]) -> None:
    """A supervisor is killed."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if found := place.watched():
            psutil.Process(process.pid_of(found[1])).kill()


def kill_starting(place: Place, names: list[str]) -> None:
    """Supervisors are killed as they start, before their identity is recorded; one job is to end then.

    The jobs come on top of the round's, when all nodes are free again.
    """
    wait_until_idle(place)
    new = [f"{names[0]}-{index}" for index in range(NODES + 1)]
    names += new
    with killed_at_start(place.dice):
        for name in new[:NODES]:
            place.submit(name)
    place.submit(new[NODES])  # the queue has to go on
    end = place.dice.choice((place.backend.terminate, place.backend.delete, None))
    if end:
        end(place.id(new[0]))
        place.gone.update({new[0]} if end == place.backend.delete else ())


def wait_until_idle(place: Place) -> None:
    """Waits until every job has ended."""
    while any(not job.state.is_final for job in shown(place.backend, place.settings)):
        time.sleep(0.02)


@contextlib.contextmanager
def killed_at_start(dice: random.Random) -> Iterator[None]:
    """Within it, what this process starts in the background is killed within a moment, told or not."""
    begin, start = process.DetachedProcess, process.start

    def begin_and_kill(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        child = begin(*given, **named)
        if dice.random() < 0.3:
            child.kill()
        return child

    def start_and_kill(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        child = start(*given, **named)
        if dice.random() < 0.3:  # while it loads, or when it has claimed the job
            time.sleep(dice.uniform(0.0, 0.2))
        child.kill()
        child.wait()
        return child

    process.DetachedProcess, process.start = begin_and_kill, start_and_kill
    try:
        yield
    finally:
        process.DetachedProcess, process.start = begin, start


def stop(place: Place, names: list[str]) -> None:
    """A supervisor is stopped, then its job is to end."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if found := place.watched():
            psutil.Process(process.pid_of(found[1])).suspend()
            place.backend.terminate(place.id(found[0].rpartition("/")[2]))


def lose(place: Place, names: list[str]) -> None:
    """The database goes while nobody looks."""
    place.backend.close()
    for file in place.home.glob("state.db*"):
        file.unlink(missing_ok=True)


def pipe(place: Place, names: list[str]) -> None:
    """A pipe that nobody writes to lies among a job's output, which is looked at."""
    job = place.id(names[0])
    shown = place.backend.show(job)
    assert isinstance(shown, JobResource)
    folder = place.home / "shares" / "local" / SHARE / shown.output_path_segment / "stdouterr"
    if folder.exists():
        os.mkfifo(folder / "pipe.txt")
        assert "pipe.txt" in [file.path for file in place.backend.files(job)]
        place.backend.tail(job, {})
        with contextlib.suppress(Exception):  # said to be no file; what counts is that it does not hang
            place.backend.read(FileRef(job, "pipe.txt"))


REPLACED = (
    "records/parameters.json",
    "records/headline.json",
    "telemetry/x.jsonl",
    "stdout.times",
    "logs.json",
)


def replace_records(place: Place, names: list[str]) -> None:
    """Records of a run become pipes, which everybody's lists and views read."""
    with replaced(place, names[0]) as files:
        for file in files:
            os.mkfifo(file)


def damage_records(place: Place, names: list[str]) -> None:
    """Records of a run become JSON that is nested too deeply, cannot be encoded, or is none."""
    bad = ("[" * 100_000, '{"\\ud800": 1}', "\0", '[{"path": [], "time": 1e300}]\n')
    with replaced(place, names[0]) as files:
        for file in files:
            file.write_text(place.dice.choice(bad))


@contextlib.contextmanager
def replaced(place: Place, name: str) -> Iterator[list[Path]]:
    """Removes files of a job's run, which are then written anew; whatever reads them answers afterwards."""
    job = place.id(name)
    record = place.backend.context.repository.get(job)
    files = [place.backend.layout.job(record.guid).root / each for each in REPLACED]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
    yield files
    assert place.backend.records
    assert place.backend.telemetry
    place.backend.records.labels([place.id(each) for each in place.ran()] or [job])
    place.backend.records.read(job, ["machines/", "parameters.json", "headline.json"])
    place.backend.telemetry.read(job)
    place.backend.tail(job, {})


def fill(place: Place, names: list[str]) -> None:
    """Not a byte is left, half the time without the reserve; one job is cancelled and one deleted."""
    ballast = place.folder / "ballast"
    take_all(ballast)
    if place.dice.random() < 0.5:
        place.backend.store.reserve.delete()
        take_all(ballast)
    place.backend.terminate(place.id(names[0]))
    place.backend.delete(place.id(names[1]))
    place.gone.add(names[1])
    ballast.unlink(missing_ok=True)


def take_all(ballast: Path) -> None:
    """Fills the disk."""
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 14))


Harm = Callable[[Place, list[str]], None]
HONEST: Mapping[Harm, tuple[str, ...]] = {
    kill: LOST,
    kill_starting: (*LOST, "JobTerminated"),
    stop: ("JobTerminated",),
    lose: (*LOST, "JobStateLost"),
    pipe: (),
    replace_records: ("SupervisorFailed",),  # one that was replaced before it began
    damage_records: (),
    fill: (*LOST, "JobTerminated", "DiskFull", "JobFailed", "JobPreparationFailed"),
    own: (),
    save: ("JobFailed", "JobTerminated"),
}
