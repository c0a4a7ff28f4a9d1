"""Runs one process of a job. A program of its own, started as `python -I -S rank.py PLAN [INDEX]`.

It imports the standard library alone, so that it starts in milliseconds wherever it was copied to, with the
file of the Plan beside it. It gives the process its node's
environment, writes its output to the job's files in whole lines (so that ranks never glue), notes which
rank wrote what, records the exit code, and takes the process down with it when the launcher goes away.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING or __name__ != "__main__":
    from batchai_magics.launch.plan import LogFile, Plan, Process, ProcessExit
else:  # a program: the Plan lies beside it, or where the package has it
    _here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 pathlib doubles the start-up time
    sys.path[:0] = [_here, os.path.join(_here, "..", "..", "launch")]  # noqa: PTH118 as above
    from plan import Plan, ProcessExit

    del sys.path[:2]

MARK = "BATCHAI_JOB_GUID"  # in the environment of every process that a job starts
SPAN = struct.Struct("<QQq")  # start, end, rank: one record of a `.spans` file
STAMP = struct.Struct("<Qd")  # start, time: one of a `.times` file, of what stands from there on
STAMP_S = 0.1  # so exact they are
PIECE = 1 << 16
LONGEST_LINE = 16 << 20  # a longer one is cut, with a line end put in
IDLE_S = 0.2  # a lone process's unfinished line is shown after this
WATCH_S = 0.5  # how often the parent is looked at where the kernel does not tell
EX_IOERR = 74


class Stream:
    """One output stream of the process on its way to a file, in whole lines."""

    def __init__(self, log: LogFile, rank: int, *, grace_s: float) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(log.path, flags, 0o644)
        self._is_shared = bool(log.spans)
        self._spans = os.open(log.spans, flags, 0o600) if log.spans else -1
        self._times = os.open(log.times, flags, 0o600) if log.times else -1
        self._stamped_s = 0.0
        self._rank, self._grace_s = rank, grace_s
        self._pending: list[bytes] = []
        self._pending_size = 0

    def feed(self, data: bytes) -> None:
        """Takes what the process wrote; passes on whole lines and keeps the rest."""
        cut = data.rfind(b"\n") + 1
        if cut:
            self._pending.append(data[:cut])
            self._flush()
        if cut < len(data):
            self._pending.append(data[cut:])
            self._pending_size += len(data) - cut
        if self._pending_size > LONGEST_LINE:
            self.finish()

    def idle(self) -> None:
        """The process is quiet: show a progress line, and a lone process's unfinished line too."""
        rest = b"".join(self._pending)
        cut = rest.rfind(b"\r") + 1 if self._is_shared else len(rest)
        self._pending = [rest[:cut]]
        self._flush()
        if cut < len(rest):
            self._pending, self._pending_size = [rest[cut:]], len(rest) - cut

    def finish(self) -> None:
        """No more will come: an unfinished line is ended where another rank's would be glued to it."""
        if self._is_shared and self._pending and not self._pending[-1].endswith((b"\n", b"\r")):
            self._pending.append(b"\n")
        self._flush()

    def _flush(self) -> None:
        data = b"".join(self._pending)
        self._pending, self._pending_size = [], 0
        if not data:
            return
        if not self._is_shared:
            self._stamp(os.lseek(self._file, 0, os.SEEK_END))
            write_all(self._file, data, self._grace_s)
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            start = os.lseek(self._file, 0, os.SEEK_END)
            self._stamp(start)
            write_all(self._file, data, self._grace_s)
            write_all(self._spans, SPAN.pack(start, start + len(data), self._rank), self._grace_s)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _stamp(self, start: int) -> None:
        """Notes the time of what is about to be written, so that nobody reads it without."""
        now_s = time.time()
        if self._times >= 0 and abs(now_s - self._stamped_s) >= STAMP_S:
            self._stamped_s = now_s
            write_all(self._times, STAMP.pack(start, now_s), self._grace_s)


def write_all(file: int, data: bytes, grace_s: float) -> None:
    """Writes all of it; while the disk is full it waits, and gives up after `grace_s` seconds."""
    view = memoryview(data)
    deadline = time.monotonic() + grace_s
    while view:
        try:
            view = view[os.write(file, view) :]
            deadline = time.monotonic() + grace_s
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(min(0.2, grace_s))


def main() -> NoReturn:
    """Runs the process that the plan and the launcher's rank name; exits as it did."""
    plan = Plan.read(sys.argv[1])
    process = plan.processes[int(sys.argv[2] if len(sys.argv) > 2 else rank_of_launcher())]
    die_with_parent(signal.SIGTERM)
    grace_s = plan.limits.disk_grace_s
    streams = [Stream(log, process.rank, grace_s=grace_s) for log in plan.output_of(process)]
    child = start(plan, process)
    signal.signal(signal.SIGTERM, lambda *_: take_down(child))
    try:
        pump(child, streams)
        code = child.wait()
    except OSError:  # the disk stayed full, or the folder is gone: the job cannot go on unseen
        take_down(child, EX_IOERR)
    finally:
        end_group(child)
    code = 128 - code if code < 0 else code
    record(plan, process, code)
    sys.exit(code)


def rank_of_launcher() -> str:
    """The rank that mpiexec gave this process, which it speaks to over a descriptor or over a port."""
    return os.environ.get("PMI_RANK") or os.environ["PMI_ID"]


def start(plan: Plan, process: Process) -> subprocess.Popen[bytes]:
    """Starts the process's shell command in its node's folder, in a process group of its own."""
    node = plan.node_of(process)
    env = {**os.environ, **node.env, **process.env, MARK: plan.guid, "TMPDIR": node.tmpdir}
    return subprocess.Popen(
        ["/bin/bash", "-c", process.command],
        cwd=node.folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        close_fds=False,  # the launcher's PMI connection is an inherited descriptor
        preexec_fn=become_own_group,
    )


def become_own_group() -> None:
    """In the child, before its program: its own group, gone when this program is killed."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGKILL)


def pump(child: subprocess.Popen[bytes], streams: list[Stream]) -> None:
    """Moves output until the process has ended and its pipes are empty."""
    parent, quiet_since = os.getppid(), 0.0
    with pipes_of(child, streams) as selector:
        while selector.get_map():
            if move(selector):
                quiet_since = time.monotonic()
                continue
            if os.getppid() != parent:
                take_down(child)
            for stream in streams:
                stream.idle()
            if child.poll() is not None and time.monotonic() - quiet_since > IDLE_S:
                break  # something it left behind holds the pipe open
    for stream in streams:
        stream.finish()


def pipes_of(child: subprocess.Popen[bytes], streams: list[Stream]) -> selectors.BaseSelector:
    """The process's pipes, each with the stream that it goes to."""
    selector = selectors.DefaultSelector()
    for pipe, stream in zip((child.stdout, child.stderr), streams, strict=True):
        assert pipe
        selector.register(pipe, selectors.EVENT_READ, stream)
    return selector


def move(selector: selectors.BaseSelector) -> bool:
    """Passes on what has come, and lets go of pipes that have ended; whether there was anything."""
    ready = selector.select(IDLE_S)
    for key, _ in ready:
        data = os.read(key.fd, PIECE)
        key.data.feed(data) if data else selector.unregister(key.fileobj)
    return bool(ready)


def record(plan: Plan, process: Process, code: int) -> None:
    """Leaves the exit code where the supervisor looks for it."""
    path = os.path.join(plan.exits, str(process.rank))  # noqa: PTH118 as above
    body = ProcessExit(process.rank, plan.node_of(process).id, code, time.time())
    with open(path + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123 as above
        json.dump(body._asdict(), file)
    os.replace(path + ".part", path)  # noqa: PTH105 as above


def take_down(child: subprocess.Popen[bytes], code: int = 128 + signal.SIGTERM) -> NoReturn:
    """Ends the process and all of its group at once, and this program with them."""
    end_group(child)
    os._exit(code)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """Kills what is left of the process's group."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # all of it has ended
        return


def die_with_parent(number: signal.Signals) -> None:
    """Has the system signal this process when its parent dies (Linux; elsewhere the parent is watched)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(number), 0, 0, 0)


if __name__ == "__main__":
    main()
