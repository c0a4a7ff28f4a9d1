"""Runs one process of a plan, as a task of `srun`: the one of the rank that Slurm gave this program.

Told to end, it ends its process kindly, keeps what that wrote last, and notes that it did not end by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from batchai_magics.backends.node import requirements
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.node.collection import Collection
from batchai_magics.backends.slurm.node.oom_kills import (
    KILLED,
    oom_kills,
    out_of_memory_folder,
    started_folder,
)
from batchai_magics.backends.slurm.node.run_files import RunFiles, cut_off_folder, is_followed, unkept_folder
from batchai_magics.launch.plan import Launcher, Plan

LOOK_S = 5.0  # between looks at whether the job has ended, or was begun again elsewhere
PATIENCE_S = 2.0  # what a disk gets to take the last output
ALONE = 78  # the exit code of a rank that Slurm has given no process manager
_MANAGERS = ("PMI_FD", "PMI_PORT", "PMIX_SERVER_URI2", "PMIX_SERVER_URI3", "PMIX_SERVER_URI41", "PMIX_RANK")


def main() -> None:
    """Runs the rank (`ROOT PLAN`), and ends as it did."""
    files, plan = RunFiles(Path(sys.argv[1])), Plan.read(sys.argv[2])
    rank = int(os.environ["SLURM_PROCID"])
    if is_alone(plan):
        sys.stderr.write("Slurm starts no process manager for MPI here: see the setting slurm.mpi\n")
        sys.exit(ALONE)
    collection = Collection(files, plan)
    if collection.is_wanted and (problem := make_own_folder(plan, rank)):
        sys.stderr.write(problem)
        sys.exit(os.EX_CANTCREAT)
    termination.adopt_orphans()
    note(started_folder(plan), rank)
    kills = oom_kills()
    is_told = False
    with contextlib.closing(Ranks(plan, SignalPipe(), env=os.environ | secrets_of(files, plan))) as ranks:
        ranks.start_one(rank)
        while ranks.is_running:
            if signal.SIGTERM in ranks.turn(LOOK_S) or files.end or is_followed(plan):
                is_told = True
                note(cut_off_folder(plan), rank)
                termination.end(ranks, patience_s=PATIENCE_S)
        note_unkept(plan, ranks.unwritable)
        termination.remove_containers(plan.containers.removals[rank : rank + 1], os.environ)
        code = ranks.ends[rank].exit_code if rank in ranks.ends else None
    if code == KILLED and oom_kills() > kills:
        note(out_of_memory_folder(plan), rank)
    termination.kill()
    if is_told:  # it may be Slurm that ends the run: then no other program comes to this node any more
        collection.collect_behind(rank)
    sys.exit(code if code is not None else os.EX_IOERR)


def make_own_folder(plan: Plan, rank: int) -> str:
    """Makes the folder that the rank starts in, on this node's own disk; what went wrong."""
    node = plan.node_of(plan.processes[rank])
    try:
        private_files.make_folder(Path(node.folder))
    except OSError as error:
        return f"slurm.scratch: {node.folder} cannot be made on {node.id}: {error.strerror}\n"
    outcome = requirements.directories(plan._replace(nodes=(node,)))
    return f"{outcome.sentence}\n" if outcome else ""


def is_alone(plan: Plan) -> bool:
    """Whether ranks of MPI would each be rank 0 of 1, without a word."""
    is_mpi = plan.launcher is Launcher.MPI and len(plan.processes) > 1
    return is_mpi and not any(os.environ.get(name) for name in _MANAGERS)


def secrets_of(files: RunFiles, plan: Plan) -> dict[str, str]:
    """The variables that hold the job's secrets, as far as the plan is to have them."""
    return {name: value for name, value in read_secrets(files.secrets).items() if name in plan.secrets}


def read_secrets(file: Path) -> dict[str, str]:
    """The variables in a file of secrets; none without one."""
    try:
        values: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return values


def note(folder: Path, number: int) -> None:
    """Notes something by an empty file: of a rank that it has started, or did not end by itself."""
    with contextlib.suppress(OSError):  # a full disk: its end tells as much
        (folder / str(number)).touch(mode=0o600)


def note_unkept(plan: Plan, problem: OSError | None) -> None:
    """Notes why output could not be kept, if it could not."""
    if problem and problem.errno:
        note(unkept_folder(plan), problem.errno)


if __name__ == "__main__":
    main()
