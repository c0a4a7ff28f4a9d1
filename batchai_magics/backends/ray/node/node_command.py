"""Runs a shell command on a node while its client reads the output: `ADDRESS PYTHON NODE FOLDER COMMAND`.

It is connected to Ray, and relays between its own pipes and a program on the node. Standard input belongs to
the client: when it is closed, the command ends with everything that it started.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from pathlib import Path

from batchai_magics.backends.node.job_environment import submitter_environment
from batchai_magics.backends.node.node_programs import RUN_COMMAND, programs_folder, start_words
from batchai_magics.backends.ray.node import cluster

NEWS_S = 0.5  # how often the program checks whether the client is gone
_READ_SIZE = 1 << 16


class CommandProgram:
    """The command on the node, run by an actor. Its methods are called in several threads."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._changed = threading.Condition()
        self._output: list[tuple[bool, bytes]] = []
        self._open = 2

    def start(self, python: str, folder: str, env: dict[str, str], command: str) -> None:
        """Starts the command in its node's folder."""
        words = start_words(python, RUN_COMMAND, programs_folder(), section="ray")
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            [*words, "", command], cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._child = child
        for file in (child.stdout, child.stderr):
            assert file
            arguments = (file.fileno(), file is child.stderr)
            threading.Thread(target=self._read, args=arguments, daemon=True).start()

    def news(self, timeout_s: float) -> tuple[list[tuple[bool, bytes]], int | None]:
        """The new output as pairs (is from stderr, data), and the exit code once the command has ended."""
        assert self._child
        with self._changed:
            self._changed.wait_for(lambda: self._output or not self._open, timeout_s)
            output, self._output = self._output, []
            is_over = not self._open and not output
        return output, self._child.wait() if is_over else None

    def end(self) -> None:
        """Ends the command, by closing its input."""
        assert self._child
        assert self._child.stdin
        self._child.stdin.close()

    def _read(self, descriptor: int, is_error: bool) -> None:
        while data := os.read(descriptor, _READ_SIZE):
            with self._changed:
                self._output.append((is_error, data))
                self._changed.notify_all()
        with self._changed:
            self._open -= 1
            self._changed.notify_all()


def main() -> None:
    """Runs the command, and exits with its exit code."""
    address, python, node, folder, command = sys.argv[1:]
    streams = [os.dup(1), os.dup(2)]
    silent = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # Ray prints to both
        os.dup2(silent, number)
    cluster.connect(address)
    import ray

    programs = programs_folder()
    actor = cluster.command_actor(programs, node)
    home = ray.get(cluster.query_home(actor, programs))
    cluster.install(actor, programs, home)  # if that fails, the call below reports why
    env = submitter_environment(os.environ, str(Path(python).parent))
    ray.get(cluster.call(actor, "start", python, folder, env, command))
    is_ended, code = False, None
    while code is None:
        output, code = ray.get(cluster.call(actor, "news", NEWS_S))
        for is_error, data in output:
            os.write(streams[is_error], data)
        ready, _, _ = select.select([sys.stdin] * (not is_ended), [], [], 0)
        if ready and not os.read(sys.stdin.fileno(), _READ_SIZE):  # the client is gone
            is_ended = True
            cluster.call(actor, "end")
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
