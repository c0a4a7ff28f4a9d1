"""One process of a job: started on its node in a group of its own, read to its last byte, and its end."""

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
from typing import IO, NamedTuple

from batchai_magics.backends.node.ranks.leftover_processes import MARK
from batchai_magics.backends.node.ranks.output_streams import Stream
from batchai_magics.launch.plan import Plan, Process, ProcessExit

PIECE = 1 << 16
LINGER_S = 0.2  # what a process leaves behind gets so long to close its pipes
RSS_UNIT = 1024 if sys.platform == "linux" else 1  # bytes that the system counts peaks in
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class Pipe:
    """The end of a pipe that a process writes to, and the stream that its bytes go to."""

    def __init__(self, file: IO[bytes], stream: Stream) -> None:
        self.file, self.stream = file, stream
        os.set_blocking(file.fileno(), False)

    def move(self, size: int = PIECE) -> bool:
        """Passes on some of what has come; False when no more will."""
        try:
            data = os.read(self.file.fileno(), size)
        except BlockingIOError:
            return True
        if data:
            self.stream.feed(data)
        return bool(data)

    def empty(self) -> None:
        """Passes on all that is in the pipe now and ends the stream, though others may still write to it."""
        left = self._pending_bytes
        for start in range(0, left, PIECE):
            self.move(min(PIECE, left - start))
        self.stream.finish()

    def lose(self) -> None:
        """Counts what is in the pipe as lost."""
        self.stream.lose(self._pending_bytes)

    @property
    def _pending_bytes(self) -> int:
        """How many bytes are in the pipe."""
        if self.file.closed:
            return 0
        (left,) = struct.unpack("i", fcntl.ioctl(self.file, termios.FIONREAD, bytes(4)))
        return int(left)


class Ticket(NamedTuple):
    """What a process gets to reach its process manager: variables, and the descriptors that it inherits.

    None stands for all descriptors that this program has inherited itself.
    """

    env: Mapping[str, str]
    descriptors: Sequence[int] | None = ()


class Rank:
    """A process that runs, or has ended and whose last output is still on its way."""

    def __init__(
        self, number: int, node: str, child: subprocess.Popen[bytes], streams: Sequence[Stream]
    ) -> None:
        self.number = number
        self._node = node
        self._child = child
        assert child.stdout
        assert child.stderr
        files = (child.stdout, child.stderr)
        self.pipes = [Pipe(file, stream) for file, stream in zip(files, streams, strict=True)]
        self.end: ProcessExit | None = None
        self.is_drained = False
        self.linger_until = float("inf")

    @property
    def group(self) -> int:
        """The process group that it leads."""
        return self._child.pid

    def reap(self) -> bool:
        """Whether the process has ended just now; how is in `end` from then on."""
        if self.end or (ended := _ended(self._child)) is None:
            return False
        code, peak_bytes = ended
        code = 128 - code if code < 0 else code
        self.end = ProcessExit(self.number, self._node, code, time.time(), peak_bytes)
        self.linger_until = time.monotonic() + LINGER_S
        return True

    @property
    def is_quiet(self) -> bool:
        """Whether nobody writes to its pipes any more, or who still does has had the time to end."""
        is_over = self.end is not None and time.monotonic() >= self.linger_until
        return is_over or all(pipe.file.closed for pipe in self.pipes)

    @property
    def dues_s(self) -> list[float]:
        """When it is to be looked after whatever comes, by the monotonic clock."""
        dues = [due_s for pipe in self.pipes if (due_s := pipe.stream.due_s)]
        return [*dues, self.linger_until] if self.end else dues

    def show_unfinished(self) -> None:
        """Shows the lines that it has begun some time ago."""
        now_s = time.monotonic()
        for pipe in self.pipes:
            if (due_s := pipe.stream.due_s) and now_s >= due_s:
                pipe.stream.show()

    @property
    def is_written(self) -> bool:
        """Whether its output is in the files."""
        return self.is_drained and not any(pipe.stream.is_stuck for pipe in self.pipes)

    def drain(self) -> None:
        """Kills what it has left behind, and takes the rest of its output."""
        self.kill()
        for pipe in self.pipes:
            pipe.empty()
        self.is_drained = True

    def lose(self) -> None:
        """Counts what it wrote and nobody has read as lost."""
        for pipe in self.pipes if not self.is_drained else ():
            pipe.lose()

    def wait(self) -> None:
        """Waits until a process that was killed is gone."""
        self._child.wait()

    def kill(self) -> None:
        """Kills what is left of its group."""
        try:
            os.killpg(self.group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # all of it has ended
            return


def start(
    plan: Plan,
    process: Process,
    env: Mapping[str, str],
    *,
    ticket: Ticket,
) -> subprocess.Popen[bytes]:
    """Starts the process's shell command in its node's folder, in a process group of its own.

    It gets what its ticket says besides the variables of the node and the plan.
    """
    node = plan.node_of(process)
    return subprocess.Popen(
        ["/bin/bash", "-c", process.command],
        cwd=node.folder,
        env={**env, **node.env, **process.env, **ticket.env, MARK: plan.guid, "TMPDIR": node.tmpdir},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        close_fds=ticket.descriptors is not None,
        pass_fds=ticket.descriptors or (),
        preexec_fn=_become_own_group,
    )


def _ended(child: subprocess.Popen[bytes]) -> tuple[int, int | None] | None:
    """The code of a process that has ended, and the most memory that it, or one that it waited for, had."""
    try:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
    except ChildProcessError:  # somebody else has seen its end
        code = child.poll()
        return None if code is None else (code, None)
    if not pid:
        return None
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss * RSS_UNIT


def _become_own_group() -> None:
    """In the child, before its program: its own group, gone when this program is killed."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGKILL)


def die_with_parent(number: signal.Signals) -> None:
    """Has the system signal this process when its parent dies (Linux; elsewhere the parent is watched)."""
    if LIBC:
        LIBC.prctl(1, int(number), 0, 0, 0)
