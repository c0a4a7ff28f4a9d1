"""Collects the Python stacks of a job's ranks on this node: `python - GUID NODE`, with this file on stdin.

Prints a line of JSON for each rank, and keeps each stack in the record of the run. Standard library only, for
any Python from 3.6.
"""

import json
import os
import sys
import time
from typing import Dict, Iterator, List, Tuple

SIGNAL = 50  # as in `stack_hook`
FILE = "/memfd:batchai-stacks"
TIMEOUT_S = 5.0  # for a process to answer
QUIET_S = 0.15  # a stack is complete when nothing was added for this long
POLL_S = 0.02
RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK", "AZ_BATCHAI_TASK_INDEX")

Process = Tuple[int, Dict[str, str]]  # the pid, and the variables that it was started with


def main(guid: str, node: str) -> None:
    """Prints where the ranks of the run on the node are."""
    for line in stack_lines(guid, node):
        print(line, flush=True)


def stack_lines(guid: str, node: str = "") -> Iterator[str]:
    """A line of JSON for each rank of the run on the node, by default on all nodes of this machine."""
    for rank, processes in sorted(ranks_of(guid, node).items()):
        text, stopped = "", False
        for pid, env in sorted((each for each in processes if handles_signal(each[0])), key=started)[:1]:
            stopped = is_stopped(pid)
            text = "" if stopped else stack_of(pid)
            keep(env, rank, text)
        own_node = processes[0][1].get("AZ_BATCH_NODE_ID", "")
        yield json.dumps({"rank": rank, "node": own_node, "text": text, "stopped": stopped})


def ranks_of(guid: str, node: str) -> Dict[int, List[Process]]:
    """The processes of the run here, by rank; of all nodes if `node` is empty."""
    ranks: Dict[int, List[Process]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        env = environment(name)
        if env.get("BATCHAI_JOB_GUID") == guid and node in ("", env.get("AZ_BATCH_NODE_ID")):
            number = next((env[each] for each in RANKS if env.get(each, "").isdigit()), "0")
            ranks.setdefault(int(number), []).append((int(name), env))
    return ranks


def environment(pid: str) -> Dict[str, str]:
    """The variables that a process was started with; none if it is another user's."""
    pairs = (entry.partition(b"=") for entry in content(pid, "environ").split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def content(pid: str, name: str) -> bytes:
    """A file of a process in /proc; empty if the process has gone."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def handles_signal(pid: int) -> bool:
    """Whether the process handles the signal, which would kill another."""
    for line in content(str(pid), "status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (SIGNAL - 1) & 1) and bool(dump_of(pid))
    return False


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by a signal or a debugger: it cannot answer."""
    return content(str(pid), "stat").rpartition(b")")[2].split()[:1] in ([b"T"], [b"t"])


def started(process: Process) -> Tuple[int, int]:
    """When a process was started: the oldest Python of a rank runs its script."""
    fields = content(str(process[0]), "stat").rpartition(b")")[2].split()
    return (int(fields[19]) if fields else sys.maxsize, process[0])


def dump_of(pid: int) -> str:
    """The file that the process writes its stacks to; empty if it has none."""
    folder = f"/proc/{pid}/fd"
    try:
        paths = [f"{folder}/{name}" for name in os.listdir(folder)]
        return next((path for path in paths if os.readlink(path).startswith(FILE)), "")
    except OSError:  # it has gone, or is another user's
        return ""


def stack_of(pid: int) -> str:
    """Asks a process for its stacks; empty if it does not answer."""
    try:
        path = dump_of(pid)
        before = os.stat(path).st_size
        os.kill(pid, SIGNAL)
        wait_for_growth(path, before)
        with open(path, "rb") as file:
            file.seek(before)
            return file.read().decode(errors="replace")
    except OSError:  # it has gone
        return ""


def wait_for_growth(path: str, before: int) -> None:
    """Waits until a file has grown and grows no more."""
    size, changed = before, time.monotonic()
    deadline = changed + TIMEOUT_S
    while time.monotonic() < deadline and (size == before or time.monotonic() < changed + QUIET_S):
        time.sleep(POLL_S)
        now = os.stat(path).st_size
        if now != size:
            size, changed = now, time.monotonic()


def keep(env: Dict[str, str], rank: int, text: str) -> None:
    """Adds a stack to the record of the run."""
    folder = os.path.join(os.path.dirname(env.get("BATCHAI_ARTIFACT_DIR", "")), "records", "stacks")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with open(os.open(f"{folder}/{rank}.txt", flags, 0o600), "a") as file:
            file.write("# {}\n{}\n".format(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), text))
    except OSError as error:  # a full disk: the stack is printed all the same
        print(f"the stack of rank {rank} is not in the record: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
