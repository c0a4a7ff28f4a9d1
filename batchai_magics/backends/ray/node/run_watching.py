"""The program beside a run that watches it: stop conditions, live exports, notifications.

Started as `ROOT PYTHON ADDRESS NODE=ID…`, as a child of the supervising actor: the folder of the run, the
Python that has Ray, the address of the cluster, and the nodes of the attempt.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path

from batchai_magics.backends.node import stack_dumps
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.start_line import own_folder, start_words
from batchai_magics.backends.node.watch_process import end_signal
from batchai_magics.backends.ray.node.run_files import SupervisedFiles
from batchai_magics.backends.service import private_files
from batchai_magics.models.prices import NodeTime

NODE_COMMAND = "batchai_magics.backends.ray.node.node_command"
_CONCURRENT = 16
_TIMEOUT_S = 60.0  # for a node to answer


def stack_lines(guid: str, nodes: Sequence[str], *, python: str, address: str) -> list[str]:
    """Where the ranks are, on each of the nodes, given as `NAME=ID`."""
    ask = partial(_lines_of_node, guid, python=python, address=address)
    with ThreadPoolExecutor(_CONCURRENT) as threads:
        return [*chain.from_iterable(threads.map(ask, nodes))]


def _lines_of_node(guid: str, node: str, *, python: str, address: str) -> list[str]:
    name, _, id = node.rpartition("=")
    start = start_words(python, NODE_COMMAND, own_folder(), section="ray", has_packages=True)
    command = shlex.join([sys.executable, stack_dumps.__file__, guid, name])
    words = [*start, address, sys.executable, id, str(Path(own_folder()).parent), command]
    try:
        with _open_input() as stdin:
            printed = subprocess.run(
                words, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, stdin=stdin
            ).stdout
    except subprocess.TimeoutExpired:
        return []
    return [line for line in printed.splitlines() if line.startswith("{")]


@contextmanager
def _open_input() -> Iterator[int]:
    """A standard input that does not end within the context."""
    reader, writer = os.pipe()
    try:
        yield reader
    finally:
        os.close(reader)
        os.close(writer)


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
