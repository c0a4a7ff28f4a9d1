"""Plans of processes for tests, and the program that runs them."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil

from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.launch.plan import Limits, LogPaths, Output, Plan, PlanNode, Process, ProcessExit
from tests.world import until

PROGRAM = str(Path(__file__).with_name("ranks_program.py"))
GUID = f"guid-{os.getpid()}"  # what has one mark ends together: no other run of these tests may have it


def plan(folder: Path, *commands: str, stdout: LogPaths | None = None, own: Output | None = None) -> Path:
    """The plan of processes on one node."""
    (folder / "exits").mkdir()
    env = {"WHO": "node", "BOTH": "node"}
    made = Plan(
        guid=GUID,
        nodes=(PlanNode("node-0", str(folder), "/the/tmp", env),),
        processes=tuple(
            Process(rank, 0, command, env={"BOTH": "process"}, output=own)
            for rank, command in enumerate(commands)
        ),
        output=Output(stdout or LogPaths(str(folder / "stdout")), LogPaths(str(folder / "stderr"))),
        exits=str(folder / "exits"),
        python=sys.executable,
        limits=Limits(disk_grace_s=0.05),
    )
    made.write(str(folder / "plan.json"))
    return folder / "plan.json"


def start(
    plan_file: Path,
    *index: str,
    program: str = PROGRAM,
    max_file_bytes: int = resource.RLIM_INFINITY,
    **env: str,
) -> subprocess.Popen[bytes]:
    """Starts the ranks program, which fails to write beyond a size as on a full disk."""
    limits = (max_file_bytes, resource.RLIM_INFINITY)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", program, str(plan_file), *index],
        env=env,
        cwd="/",
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, limits),
    )


def exit_of(folder: Path, index: int = 0) -> ProcessExit:
    return next(end for end in exits_in(folder / "exits") if end.rank == index)


def started(folder: Path) -> int:
    """The process id that the process has written."""
    file = folder / "stdout"
    until(lambda: file.exists() and file.read_bytes().endswith(b"\n"))
    return int(file.read_text())


def is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False
