"""The program beside a job's own that watches it: stop conditions, live exports, notifications.

Started as `ROOT ATTEMPT`, as a child of the program that runs the job.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from batchai_magics.backends.node import stack_dumps
from batchai_magics.backends.node.watch_process import end_signal, stack_lines_from
from batchai_magics.backends.slurm.node.run_files import RunFiles, Stop
from batchai_magics.launch.plan import Plan
from batchai_magics.models.prices import NodeTime


def stack_lines(guid: str, nodes: Sequence[str]) -> list[str]:
    """Where the ranks are on this node, the first of the attempt, and through srun on the others."""
    options = ["--overlap", "--mpi=none", "--input=none", "--quiet", "--cpu-bind=none"]
    srun = ["srun", "--nodes=1", "--ntasks=1", *options]
    program = [sys.executable, stack_dumps.__file__, guid]
    commands = [[*srun, f"--nodelist={node}", *program, node] for node in nodes[1:]]
    return [*stack_dumps.stack_lines(guid, nodes[0]), *stack_lines_from(commands)]


def main() -> None:
    """Watches until the parent signals the end of the job; then prints what could not be done."""
    from batchai_magics.backends.folders import run_watch

    files, attempt = RunFiles(Path(sys.argv[1])), int(sys.argv[2])
    over = end_signal()

    def stop(reason: str) -> None:
        files.ask_to_stop(attempt, Stop(reason, time.time()))
        os.kill(os.getppid(), signal.SIGTERM)  # the parent, which reads the stop request

    collect = partial(stack_lines, nodes=[node.id for node in Plan.read(str(files.layout.plan)).nodes])
    times = [NodeTime(len(each.nodes), each.started, each.ended) for each in files.attempts()]
    notes = run_watch.watch(files.layout, over, stop, by=socket.gethostname(), times=times, collect=collect)
    print(*notes, sep="\n", flush=True)


if __name__ == "__main__":
    main()
