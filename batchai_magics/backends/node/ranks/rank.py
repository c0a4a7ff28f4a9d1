"""One process of a job: started in its own process group, its output read completely, its exit recorded."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import IO, NamedTuple

from batchai_magics.backends.node.ranks.leftovers import MARK
from batchai_magics.backends.node.ranks.output_streams import ProcessStream
from batchai_magics.launch.plan import Plan, Process, ProcessExit

READ_SIZE = 1 << 16
LINGER_S = 0.2  # how long leftover processes may keep its pipes open
RSS_UNIT = 1024 if sys.platform == "linux" else 1  # unit in bytes of ru_maxrss
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class Pipe:
    """The read end of a process's output pipe, and the stream for its data."""

    def __init__(self, file: IO[bytes], stream: ProcessStream) -> None:
        self.file, self.stream = file, stream
        os.set_blocking(file.fileno(), False)

    def forward(self, size: int = READ_SIZE) -> bool:
        """Forwards available data; False at end of file."""
        try:
            data = os.read(self.file.fileno(), size)
        except BlockingIOError:
            return True
        if data:
            self.stream.feed(data)
        return bool(data)

    def drain(self) -> None:
        """Forwards everything currently in the pipe and ends the stream, even if others still write."""
        size_bytes = self._pending_bytes
        for start in range(0, size_bytes, READ_SIZE):
            self.forward(min(READ_SIZE, size_bytes - start))
        self.stream.finish()

    def discard(self) -> None:
        """Counts what is in the pipe as lost."""
        self.stream.discard(self._pending_bytes)

    @property
    def _pending_bytes(self) -> int:
        """How many bytes are in the pipe."""
        if self.file.closed:
            return 0
        (size_bytes,) = struct.unpack("i", fcntl.ioctl(self.file, termios.FIONREAD, bytes(4)))
        return int(size_bytes)


class PmiEnvironment(NamedTuple):
    """The connection to the process manager: variables, and the descriptors that the process inherits.

    `descriptors` is None for all that this program itself inherited.
    """

    env: Mapping[str, str]
    descriptors: Sequence[int] | None = ()


class Rank:
    """A process that is running, or has ended while its last output is still being written."""

    def __init__(
        self, number: int, node: str, child: subprocess.Popen[bytes], streams: Sequence[ProcessStream]
    ) -> None:
        self.number = number
        self._node = node
        self._child = child
        files = [file for file in (child.stdout, child.stderr) if file]
        self.pipes = [Pipe(file, stream) for file, stream in zip(files, streams, strict=False)]
        self.end: ProcessExit | None = None
        self.is_drained = False
        self.linger_until = float("inf")

    @property
    def group(self) -> int:
        """Its process group."""
        return self._child.pid

    def reap(self) -> bool:
        """Whether the process has just ended; sets `end`, whose peak memory includes its reaped children."""
        if self.end:
            return False
        peak_bytes = None
        try:
            pid, status, usage = os.wait4(self._child.pid, os.WNOHANG)
        except ChildProcessError:  # something else reaped it
            self._child.poll()
        else:
            if pid:
                self._child.returncode = os.waitstatus_to_exitcode(status)
                peak_bytes = usage.ru_maxrss * RSS_UNIT
        code = self._child.returncode
        if code is None:
            return False
        code = 128 - code if code < 0 else code
        self.end = ProcessExit(self.number, self._node, code, time.time(), peak_bytes)
        self.linger_until = time.monotonic() + LINGER_S
        return True

    @property
    def is_quiet(self) -> bool:
        """Whether no process writes to its pipes any more, or the time for that is over."""
        is_over = self.end is not None and time.monotonic() >= self.linger_until
        return is_over or all(pipe.file.closed for pipe in self.pipes)

    @property
    def due_times_s(self) -> list[float]:
        """The times at which it must be updated without an event, on the monotonic clock."""
        due_times = [due_s for pipe in self.pipes if (due_s := pipe.stream.due_s)]
        return [*due_times, self.linger_until] if self.end else due_times

    def write_unfinished(self) -> None:
        """Writes unfinished lines that are due."""
        now_s = time.monotonic()
        for pipe in self.pipes:
            if (due_s := pipe.stream.due_s) and now_s >= due_s:
                pipe.stream.write_unfinished()

    @property
    def is_written(self) -> bool:
        """Whether all its output is in the files."""
        return self.is_drained and not any(pipe.stream.is_stuck for pipe in self.pipes)

    def drain(self) -> None:
        """Kills its leftover processes, and reads the rest of its output."""
        self.kill()
        for pipe in self.pipes:
            pipe.drain()
        self.is_drained = True

    def discard(self) -> None:
        """Counts its unread output as lost."""
        for pipe in self.pipes if not self.is_drained else ():
            pipe.discard()

    def wait(self) -> None:
        """Waits for a process that was killed."""
        self._child.wait()

    def kill(self) -> None:
        """Kills what remains of its process group."""
        try:
            os.killpg(self.group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # the whole group has ended
            return


def start(
    plan: Plan,
    process: Process,
    env: Mapping[str, str],
    *,
    pmi: PmiEnvironment,
    tmpdir: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Starts the process's shell command in its node's folder, in its own process group.

    Its environment consists of the given one, `tmpdir`, the node's, the process's and the process manager's.
    """
    node, output = plan.node_of(process), plan.output_of(process)
    is_one_log = output.stderr == output.stdout  # one pipe keeps the order of what is written
    return subprocess.Popen(
        ["/bin/bash", "-c", process.command],
        cwd=node.folder,
        env={**env, **tmpdir, **node.env, **process.env, **pmi.env, MARK: plan.guid},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if is_one_log else subprocess.PIPE,
        bufsize=0,
        close_fds=pmi.descriptors is not None,
        pass_fds=pmi.descriptors or (),
        preexec_fn=partial(become_own_group, signal.SIGKILL),
    )


def become_own_group(number: signal.Signals) -> None:
    """Runs in a child before its program: makes it a process group, and signals it when its parent dies."""
    os.setpgid(0, 0)
    die_with_parent(number)


def die_with_parent(number: signal.Signals) -> None:
    """Makes the kernel signal this process when its parent dies (on Linux; elsewhere, does nothing)."""
    if LIBC:
        LIBC.prctl(1, int(number), 0, 0, 0)
