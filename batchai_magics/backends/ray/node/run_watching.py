"""The program beside a run that watches it: stop conditions, live exports, notifications.

Started as `ROOT PYTHON ADDRESS NODE=ID…`, as a child of the supervising actor: the folder of the run, the
Python that has Ray, the address of the cluster, and the nodes of the attempt.
"""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.node import stack_dumps
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.start_line import own_folder, start_words
from batchai_magics.backends.node.watch_process import end_signal, stack_lines_from
from batchai_magics.backends.ray.node.run_files import SupervisedFiles
from batchai_magics.models.prices import NodeTime

NODE_COMMAND = "batchai_magics.backends.ray.node.node_command"


def stack_lines(guid: str, nodes: Sequence[str], *, python: str, address: str) -> list[str]:
    """Where the ranks are, on each of the nodes, given as `NAME=ID`."""
    start = start_words(python, NODE_COMMAND, own_folder(), section="ray", has_packages=True)
    home, program = str(Path(own_folder()).parent), [sys.executable, stack_dumps.__file__, guid]
    commands = []
    for name, _, id in (node.rpartition("=") for node in nodes):
        commands.append([*start, address, sys.executable, id, home, shlex.join([*program, name])])
    return stack_lines_from(commands)


def main() -> None:
    """Watches until the parent signals the end of the run; then prints what could not be done."""
    from batchai_magics.backends.folders import run_watch

    root, python, address, *nodes = sys.argv[1:]
    files, over = SupervisedFiles(JobLayout(Path(root))), end_signal()
    collect = partial(stack_lines, nodes=nodes, python=python, address=address)

    def stop(reason: str) -> None:
        private_files.write_new(files.stop, reason)  # the supervising actor looks for it every second

    times = [NodeTime(len(each.nodes), each.started, each.ended) for each in files.attempts]
    notes = run_watch.watch(files.job, over, stop, by=socket.gethostname(), times=times, collect=collect)
    print(*notes, sep="\n", flush=True)


if __name__ == "__main__":
    main()
