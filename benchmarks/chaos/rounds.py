"""Rounds of misfortune: a few jobs, one thing that goes wrong, and every promise looked at afterwards.

Each round submits jobs and, at a random moment, kills a supervisor, kills those of new jobs as they start,
stops one and terminates its job, deletes the database, puts a pipe among a job's output, replaces or damages
a run's records, fills the disk and cancels and deletes on it, kills a server right after a user's PUT, or
kills processes that save artifacts.
Every job has to be listed, to end, to have run at most once, and to say honestly what became of it; deleting
has to work.

`python benchmarks/chaos/rounds.py [ROUNDS SEED HARM …]` prints what became of the jobs, and in which words.
Disks are only filled where this may mount one of its own (unshare).
"""

from __future__ import annotations

import faulthandler
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb

from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from benchmarks.chaos.harms import HONEST, Harm, Place, fill
from benchmarks.chaos.kills import code_of, shown, wait_until_gone

ROUNDS, SEED, JOBS = 1000, 20180501, 3
SMALL_DISK, SIZE = "CHAOS_SMALL_DISK", "64m"
PATIENCE_S = 300.0  # in which a round ends, or the stacks are printed and all is over
WORDS = 5  # messages shown of each end


@dataclass(frozen=True)
class Ends:
    """What became of the jobs of each harm, and the words in which they were told of it."""

    rounds: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    words: Mapping[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, harm: Harm, job: JobResource) -> None:
        """Counts one more job."""
        end = f"{harm.__name__}: {code_of(job) or job.state.value}"
        self.counts[end] += 1
        if message := message_of(job):
            self.words[end][re.sub(r"[0-9]+", "0", message)] += 1

    def __str__(self) -> str:
        lines = [f"{count:6} rounds of {harm}" for harm, count in sorted(self.rounds.items())]
        for end, count in sorted(self.counts.items()):
            lines += [f"{count:6} {end}"]
            lines += [f"{'':9}{often} x {message}" for message, often in self.words[end].most_common(WORDS)]
        return "\n".join(lines)


def message_of(job: JobResource) -> str:
    """Why a job failed, with the details; empty for one that did not."""
    errors = job.execution.errors if job.execution else ()
    details = [f"{detail.name}: {detail.value}" for error in errors[:1] for detail in error.details or ()]
    return "; ".join([*(error.message for error in errors[:1]), *details])


def play(rounds: int, seed: int, folder: Path, harms: list[Harm]) -> tuple[Ends, list[str]]:
    """All rounds; what became of the jobs, and every promise that was broken."""
    place = Place(folder, random.Random(seed))
    ends = Ends()
    faults: list[str] = []
    for number in range(rounds):
        faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
        harm = place.dice.choice(harms)
        ends.rounds[harm.__name__] += 1
        names = [f"r{number:04}-{index}" for index in range(JOBS)]
        try:
            jobs = one_round(place, harm, names)
        except Exception as error:  # noqa: BLE001 the next round is to be seen as well
            frames = extract_tb(error.__traceback__)
            where = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
            faults.append(f"round {number}, {harm.__name__}: {error!r} at {' > '.join(where)}")
            continue
        for job in jobs:
            ends.add(harm, job)
        faults += [f"round {number}, {harm.__name__}: {text}" for text in broken(place, harm, names, jobs)]
        for job in jobs:
            place.backend.delete(job.id)
        if number % 50 == 49:
            print(f"{number + 1} rounds, {len(faults)} promises broken", *faults, sep="\n", file=sys.stderr)
    faulthandler.cancel_dump_traceback_later()
    left = wait_until_gone(place.home)
    place.backend.close()
    return ends, faults + ([f"{left} processes left"] if left else [])


def one_round(place: Place, harm: Harm, names: list[str]) -> list[JobResource]:
    """The round's jobs, when the last has ended."""
    place.gone.clear()
    for name in names:
        place.submit(name)
    if place.dice.random() < 0.7:  # before the first has begun, or while some run
        wait_for_the_first(place, names)
    time.sleep(place.dice.uniform(0.0, 0.4))
    harm(place, names)
    while True:
        jobs = shown(place.backend, place.settings)
        if all(job.state.is_final for job in jobs):
            return jobs
        time.sleep(0.02)


def wait_for_the_first(place: Place, names: list[str]) -> None:
    """Waits until one of the jobs has noted that it runs."""
    deadline = time.monotonic() + PATIENCE_S / 2
    while not any(place.ran()[name] for name in names) and time.monotonic() < deadline:
        place.backend.show(place.id(names[0]))
        time.sleep(0.01)


def broken(place: Place, harm: Harm, names: list[str], jobs: list[JobResource]) -> list[str]:
    """The promises that a round broke."""
    ran, faults = place.ran(), []
    listed = {job.id.name for job in jobs}
    if listed != set(names) - place.gone:
        faults.append(f"listed are {sorted(listed)}")
    faults += [f"{name} ran {ran[name]} times" for name in names if ran[name] > 1]
    for job in jobs:
        is_good = job.state is ExecutionState.SUCCEEDED
        if is_good and not ran[job.id.name]:
            faults.append(f"{job.id.name} succeeded and never ran")
        if not is_good and code_of(job) not in HONEST[harm]:
            faults.append(f"{job.id.name} ended with {code_of(job)}: {message_of(job)}")
    return faults


def main(rounds: int = ROUNDS, seed: int = SEED, *only: str) -> int:
    """Plays all rounds and prints what became of them; 1 when a promise was broken."""
    may_mount = shutil.which("unshare") and not subprocess.run(["unshare", "-Urm", "true"]).returncode
    if may_mount and SMALL_DISK not in os.environ:
        os.environ[SMALL_DISK] = "1"
        os.execvp("unshare", ["unshare", "-Urm", sys.executable, *sys.argv])
    warnings.simplefilter("ignore", RuntimeWarning)  # of databases that were found again
    harms = [
        harm for harm in HONEST if (may_mount or harm is not fill) and (not only or harm.__name__ in only)
    ]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if may_mount:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", folder], check=True)
        began = time.perf_counter()
        ends, faults = play(rounds, seed, Path(folder), harms)
    print(f"{rounds} rounds in {time.perf_counter() - began:.0f} s, {len(faults)} promises broken")
    print(ends, *faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3]), *sys.argv[3:]))
