"""A real Slurm on this machine: what a job costs beside `sbatch`, how it trains, how often Slurm is asked.

The controller schedules once a second; that is part of both times. Takes two minutes.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from statistics import median

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.machines.ssh_channel import SshChannel
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.backends.slurm.settings import SlurmSettings
from benchmarks.row import Row, table
from tests.backends.machines import real_sshd
from tests.backends.slurm.real_slurm import MPI_ENV, RealSlurm, skip_reason
from tests.contract.place import HOLD, Place, PlaceOptions
from tests.contract.places import place_on

ROUNDS = 7
WATCHED = 100  # jobs
WATCH_S = 30.0
TRIES = 3
RANKS = {"nodeCount": 2, "customToolkitSettings": None}
# As training does it: some work of each rank, then the sum of the gradients.
TRAINING = """
import time
import numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
weights, gradients = numpy.ones((256, 256), dtype="f4"), numpy.empty((256, 256), dtype="f4")
for step in range(130):
    if step == 10:
        world.Barrier()
        began = time.perf_counter()
    for _ in range(10):
        weights = numpy.tanh(weights @ weights)
    world.Allreduce(weights, gradients)
if not world.rank:
    print(120 / (time.perf_counter() - began), flush=True)
"""
MOST_CALLS = 12  # a minute: what an administrator should not have to notice


def rows() -> Iterator[Row]:
    """Each measure against what one does without us; nothing where there is no Slurm."""
    if reason := skip_reason():
        print(f"Slurm is not measured: {reason}.", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, running(Path(folder)) as slurm:
        with place_on(slurm, Path(folder), PlaceOptions()) as place:
            ours = median(_seconds(lambda number: _first_line(place, number)))
            bare = median(_seconds(lambda number: _bare_first_line(slurm, number)))
            yield Row("submit -> first line, median", ours, "sbatch", bare, "s")
            yield Row("submit -> first line, median", ours, "submitit", _submitit(slurm), "s")
            yield _training(place, slurm)
        with place_on(slurm, Path(folder) / "watched", PlaceOptions()) as place:
            calls = _calls_a_minute(place)
            yield Row(f"calls a minute, {WATCHED} watched jobs", calls, "the most", MOST_CALLS, "calls")
        yield from _over_ssh(slurm, Path(folder) / "far", ours, calls)


def _over_ssh(slurm: RealSlurm, folder: Path, near_s: float, near_calls: float) -> Iterator[Row]:
    """The same over a real ssh on this machine, against the login node; nothing where there is no sshd."""
    if reason := real_sshd.skip_reason():
        print(f"ssh is not measured: {reason}.", file=sys.stderr)
        return
    sshd = real_sshd.SHARED.get()
    try:
        with place_on(slurm, folder, PlaceOptions(), sshd=sshd) as place:
            far_s = median(_seconds(lambda number: _first_line(place, number)))
            yield Row("submit -> first line over ssh, median", far_s, "on the login node", near_s, "s")
        with place_on(slurm, folder / "watched", PlaceOptions(), sshd=sshd) as place:
            asked, runs = Questions(), sshd.log.count("Starting session")
            calls = _calls_a_minute(place, asked)
            runs = sshd.log.count("Starting session") - runs
            yield Row(f"calls a minute over ssh, {WATCHED} watched jobs", calls, "near", near_calls, "calls")
            yield Row(f"runs of ssh a minute, {WATCHED} watched jobs", runs, "kernels", 1, "runs")
            yield Row("questions over ssh for a look at all", asked.count / asked.looks, "jobs", WATCHED, "")
    finally:
        real_sshd.SHARED.stop()


class Questions:
    """Counts what is asked over ssh, and the looks that it is asked for."""

    def __init__(self) -> None:
        self.count, self.looks = 0, 0
        ask = SshChannel.request

        def counted(channel: SshChannel, *words: object, **asked: object) -> object:
            self.count += 1
            return ask(channel, *words, **asked)  # whatever is asked

        SshChannel.request = counted  # this program ends soon


@contextlib.contextmanager
def running(folder: Path) -> Iterator[RealSlurm]:
    """A Slurm of two nodes."""
    own = folder / "slurm"
    own.mkdir()
    slurm = RealSlurm(own, count=2)
    slurm.start()
    try:
        yield slurm
    finally:
        slurm.stop()


def _seconds(run: Callable[[int], None]) -> list[float]:
    times = []
    for number in range(ROUNDS):
        started = time.perf_counter()
        run(number)
        times.append(time.perf_counter() - started)
    return times


def _first_line(place: Place, number: int) -> None:
    file = FileRef(place.start("echo hello", f"job{number}"), "stdout.txt")
    while not place.backend.read(file).data:
        time.sleep(0.01)


def _bare_first_line(slurm: RealSlurm, number: int) -> None:
    log = slurm.folder / f"bare{number}"
    slurm.ask("sbatch", "--exclusive", f"--output={log}", "--wrap=echo hello")
    while not (log.exists() and log.read_bytes()):
        time.sleep(0.01)


def _submitit(slurm: RealSlurm) -> float:
    """The median with submitit, until its job's log has a line; NaN where it is not installed."""
    code = (
        "import submitit, sys, time; e = submitit.AutoExecutor(sys.argv[1]); t = time.perf_counter();"
        "j = e.submit(print, 'hello', flush=True)\n"
        "while 'hello' not in (j.stdout() or ''): time.sleep(0.01)\n"
        "print(time.perf_counter() - t)"
    )
    line = [sys.executable, "-c", code, str(slurm.folder / "submitit")]
    done = [_output(line, slurm) for _ in range(ROUNDS)]
    times = [float(text.split()[-1]) for text in done if text.strip()]
    return median(times) if times else nan


def _output(line: Sequence[str], slurm: RealSlurm) -> str:
    return subprocess.run(line, env=slurm.env, capture_output=True, text=True, check=False).stdout


def _training(place: Place, slurm: RealSlurm) -> Row:
    """Steps of training a second, of four ranks on two nodes: the median of some tries, taken in turns."""
    script = slurm.folder / "training.py"
    script.write_text(TRAINING)
    pairs = [(_steps_by_us(place, script, number), _steps_by_srun(slurm, script)) for number in range(TRIES)]
    ours, theirs = (median(rates) for rates in zip(*pairs, strict=True))
    return Row("training, 4 ranks on 2 nodes", ours, "srun --mpi=pmi2", theirs, "steps/s")


def _steps_by_us(place: Place, script: Path, number: int) -> float:
    settings = {"pythonScriptFilePath": str(script), "processCount": 4}
    id = place.start(name=f"training{number}", horovodSettings=settings, **RANKS)
    return float(place.log(place.wait(id).id))


def _steps_by_srun(slurm: RealSlurm, script: Path) -> float:
    tasks = ["srun", "--quiet", "--nodes=2", "--ntasks-per-node=2", "--exclusive", "--mpi=pmi2"]
    env = {**slurm.env, **MPI_ENV, "OMP_NUM_THREADS": "1"}
    line = [*tasks, sys.executable, str(script)]
    return float(subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout)


def _calls_a_minute(place: Place, questions: Questions | None = None) -> float:
    """How often Slurm is asked while many jobs are looked at five times a second, at the usual pace."""
    ids = [place.start(HOLD, f"watched{number}", nodeCount=2) for number in range(WATCHED)]
    counted = Counted.of(place.backend)
    Counted.calls = 0
    if questions:
        questions.count = 0
    deadline, started = time.monotonic() + WATCH_S, time.monotonic()
    while time.monotonic() < deadline:
        counted.status([*ids, place.cluster])
        if questions:
            questions.looks += 1
        time.sleep(0.2)
    return Counted.calls / (time.monotonic() - started) * 60


class Counted(SlurmBackend):
    """The backend at its usual pace; each question to Slurm is counted, once."""

    calls = 0
    _ask = staticmethod(SlurmClient._run)  # as it was before anything was counted

    @classmethod
    def of(cls, backend: object) -> Counted:
        """A second backend on the home of another one."""
        assert isinstance(backend, SlurmBackend)
        given = backend.settings
        ask = cls._ask

        def counted(self: SlurmClient, *words: object, **options: object) -> str:
            cls.calls += 1
            return ask(self, *words, **options)  # whatever is asked

        SlurmClient._run = counted  # this program ends soon
        plain = SlurmSettings()
        usual = replace(given, look_s=plain.look_s, lost_s=plain.lost_s)
        return cls(usual)


if __name__ == "__main__":
    print(table(rows()))
