"""Starts the program that records a machine, once for each machine of a run, after its ranks."""

from __future__ import annotations

import contextlib
import os

from batchai_magics.launch.plan import Plan

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "machine_program.py")  # noqa: PTH100, PTH118, PTH120 pathlib slows each rank


def start(plan: Plan, *, rank: int = 0) -> int | None:
    """Starts the recording of this machine, whose ranks are running; returns its pid.

    None if the run records no machines, or another rank of this node starts it.
    """
    node = plan.processes[rank].node
    is_first = all(process.node != node for process in plan.processes[:rank])
    if not (plan.machines and is_first):
        return None
    python = plan.python
    words = [python, _PROGRAM, f"{plan.machines}/{os.uname().nodename}.json"]
    if plan.containers.engine:
        words.append("image")
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    with contextlib.suppress(OSError):  # no job fails for lack of a record
        return os.posix_spawnp(python, words, os.environ, file_actions=silent, setpgroup=0)
    return None
