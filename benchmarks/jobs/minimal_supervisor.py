"""The least that a supervisor costs: a program without layers that keeps the promises of the local backend.

Its claim of the job is on the disk before anything of it runs; what it starts dies with it; logs are written
under locks; the exit, the end and the machine's packages are recorded. Nothing else: no cancelling, limits,
MPI, secrets, mounts, containers, telemetry, restarts, seals, full disks or errors.
"""

import ctypes
import fcntl
import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Callable

SUBREAPER, PARENT_DEATH = 36, 1  # of prctl
FOLDERS = ("exits", "work", "artifacts", "checkpoints", "telemetry", "machines")
libc = ctypes.CDLL(None)


def main() -> None:
    """Runs a job: `HOME`, and as a line on stdin its guid and command."""
    plan = json.loads(sys.stdin.readline())
    libc.prctl(SUBREAPER, 1, 0, 0, 0)
    database = sqlite3.connect(f"{sys.argv[1]}/state.db", isolation_level=None)
    database.execute("PRAGMA synchronous = FULL")
    change(database, plan["guid"], "running")
    job = f"{sys.argv[1]}/{plan['guid']}"
    for name in FOLDERS:
        os.makedirs(f"{job}/{name}", 0o700)
    record = os.open(f"{job}/exits/0", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(record, b" " * 512, 0)
    reader, writer = os.pipe()
    guard = fork(lambda: guard_group(reader, writer))
    child = subprocess.Popen(
        ["/bin/bash", "-c", plan["command"]],
        cwd=f"{job}/work",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    os.write(writer, child.pid.to_bytes(4, "little"))
    recorder = fork(lambda: record_packages(job))
    size = copy_output(child, job)
    body = json.dumps({"exit": child.wait(), "log": size}).encode()
    os.pwrite(record, b"%08x " % zlib.crc32(body) + body, 0)
    os.waitpid(recorder, 0)
    os.kill(guard, signal.SIGKILL)
    os.waitpid(guard, 0)
    with open(f"{job}/end.part", "wb") as file:
        file.write(body)
    os.rename(f"{job}/end.part", f"{job}/end.json")
    change(database, plan["guid"], "ended")
    os._exit(0)


def change(database: sqlite3.Connection, guid: str, state: str) -> None:
    """Sets the state of the job."""
    database.execute("BEGIN IMMEDIATE")
    values = state, os.getpid(), time.time(), guid
    database.execute("UPDATE job SET state = ?, supervisor = ?, changed = ? WHERE guid = ?", values)
    database.execute("COMMIT")


def fork(work: Callable[[], None]) -> int:
    """Does some work in a fork; returns its pid."""
    if pid := os.fork():
        return pid
    work()
    os._exit(0)


def guard_group(reader: int, writer: int) -> None:
    """Kills the process group that it is told of when the supervisor is gone."""
    os.setsid()
    os.close(writer)
    group = os.read(reader, 4)
    if group and not os.read(reader, 4):
        os.killpg(int.from_bytes(group, "little"), signal.SIGKILL)


def die_with_parent() -> None:
    """In the job's process: a group of its own, which is killed with the supervisor."""
    os.setpgid(0, 0)
    libc.prctl(PARENT_DEATH, signal.SIGKILL, 0, 0, 0)


def record_packages(job: str) -> None:
    """Writes the names of the installed packages."""
    import site

    site.main()
    names = [name for folder in sys.path if os.path.isdir(folder) for name in os.listdir(folder)]
    with open(f"{job}/machines/here.json", "w") as file:
        json.dump([name for name in names if name.endswith(".dist-info")], file)


def copy_output(child: subprocess.Popen[bytes], job: str) -> int:
    """Copies what the job prints to its logs; returns the size of all."""
    logs = {child.stdout.fileno(): f"{job}/stdout.txt", child.stderr.fileno(): f"{job}/stderr.txt"}
    files = {number: open(path, "ab", 0) for number, path in logs.items()}
    poll, size = select.poll(), 0
    for number in files:
        poll.register(number, select.POLLIN)
    while files:
        for number, _ in poll.poll():
            if data := os.read(number, 1 << 16):
                fcntl.flock(files[number], fcntl.LOCK_EX)
                size += files[number].write(data)
                fcntl.flock(files[number], fcntl.LOCK_UN)
            else:
                poll.unregister(number)
                files.pop(number).close()
    return size
