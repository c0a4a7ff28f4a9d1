"""Collects the stacks of a job's ranks on this node: `python - GUID NODE [SECONDS HZ]`, this file on stdin.

Prints a line of JSON for each rank: its current stack, which is also appended to the record of the run; or
all stacks that it had within some seconds. Standard library only, for any Python from 3.6.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import IO, Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

SIGNAL = 50  # as in `stack_hook`
FILE = "/memfd:batchai-stacks"
TIMEOUT_S = 5.0  # for a process to answer
QUIET_S = 0.15  # a stack is complete when nothing was added for this long
POLL_S = 0.02
MAX_KEPT = 1 << 20  # bytes of stacks that stay in a process's file, for concurrent readers
PUNCH_HOLE = 0x02 | 0x01  # for fallocate, whose other flag keeps the size
CURRENT = "Current thread"  # faulthandler's heading of the thread that took the signal
KERNEL = b"ipykernel_launcher"  # in the command line of a notebook's kernel
FRAME = re.compile(r'  File "(?P<file>[^"]*)", line (?P<line>\d+) in ')
RUNNING, STOPPED, GONE = "R", ("T", "t"), ("Z", "X", "")  # states of a process
SPY_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*):(?P<line>\d+)\)$")
SPY_HZ, SPY_TIMEOUT_S = 50, 5.0  # how often py-spy samples, at 2 % of a core; for all to write their files
SPY_OPTIONS = ("--nonblocking", "--idle", "--threads", "--full-filenames", "--format", "raw")
MAX_FRAMES = 100  # of a stack, as faulthandler writes
MAX_STACKS, MAX_TEXT = 2000, 1 << 20  # different stacks reported of a rank, and their characters together
MAX_LINES, MAX_LINE = 2000, 200  # lines of source code reported, and characters of one
MAX_SOURCE = 1 << 22  # bytes of a file of source code that are read
MASK, MIN_SECRET = "***", 4  # as in `secret_masking`
RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK", "AZ_BATCHAI_TASK_INDEX")

Process = Tuple[int, Dict[str, str]]  # the pid, and the variables that it was started with
Stack = Tuple[str, Optional[bool]]  # its text, and whether the process was idle, if that is known


def main(guid: str, node: str, *sampling: str) -> None:
    """Prints the current stacks of the run's ranks on the node, or with `sampling` those of some seconds."""
    lines = sample_lines(guid, node, *map(float, sampling)) if sampling else stack_lines(guid, node)
    for line in lines:
        print(line, flush=True)


def stack_lines(guid: str, node: str = "") -> Iterator[str]:
    """A line of JSON for each rank of the run on the node, by default on all nodes of this machine."""
    for rank, processes in sorted(ranks_of(guid, node).items()):
        text, stopped = "", False
        answering = [process for process in processes if handles_signal(process[0])]
        for pid, env in sorted(answering, key=script_first)[:1]:
            stopped = is_stopped(pid)
            text = "" if stopped else stack_of(pid)
            append_to_record(env, rank, text)
        own_node = processes[0][1].get("AZ_BATCH_NODE_ID", "")
        yield json.dumps({"rank": rank, "node": own_node, "text": text, "stopped": stopped})


def ranks_of(guid: str, node: str) -> Dict[int, List[Process]]:
    """The processes of the run here, by rank; of all nodes if `node` is empty."""
    ranks: Dict[int, List[Process]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        env = environment(name)
        if env.get("BATCHAI_JOB_GUID") == guid and node in ("", env.get("AZ_BATCH_NODE_ID")):
            number = next((env[variable] for variable in RANKS if env.get(variable, "").isdigit()), "0")
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
    """Whether the process handles `SIGNAL`, which would kill it otherwise."""
    for line in content(str(pid), "status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (SIGNAL - 1) & 1) and bool(dump_of(pid))
    return False


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by a signal or a debugger: it cannot answer."""
    return state_of(pid) in STOPPED


def state_of(pid: int) -> str:
    """The state of a process's main thread, as a letter; empty if it has gone."""
    return content(str(pid), "stat").rpartition(b")")[2].decode().strip()[:1]


def script_first(process: Process) -> Tuple[bool, int, int]:
    """A sort key: first the Python that runs the rank's script, a notebook's kernel or else the oldest."""
    is_kernel = KERNEL in content(str(process[0]), "cmdline")
    fields = content(str(process[0]), "stat").rpartition(b")")[2].split()
    return (not is_kernel, int(fields[19]) if fields else sys.maxsize, process[0])


def dump_of(pid: int) -> str:
    """The file that the process writes its stacks to; empty if it has none."""
    folder = f"/proc/{pid}/fd"
    try:
        paths = [f"{folder}/{name}" for name in os.listdir(folder)]
        return next((path for path in paths if os.readlink(path).startswith(FILE)), "")
    except OSError:  # it has gone, or is another user's
        return ""


def stack_of(pid: int) -> str:
    """Signals a process to write its stacks, and returns them; empty if it does not answer."""
    try:
        path = dump_of(pid)
        before = os.stat(path).st_size
        os.kill(pid, SIGNAL)
        wait_for_growth(path, before)
        with open(path, "r+b", buffering=0) as file:
            file.seek(before)
            text = file.read()
            free_memory(file.fileno(), before + len(text))
            return text.decode(errors="replace")
    except OSError:  # it has gone
        return ""


def free_memory(file: int, end: int) -> None:
    """Frees the memory of a process's file up to `end`, except for the last part, which others may read."""
    if end > MAX_KEPT:
        with contextlib.suppress(ImportError, AttributeError):  # a Python or C library that lacks it
            import ctypes  # not every Python has it

            until = ctypes.c_long(end - MAX_KEPT)
            ctypes.CDLL(None).fallocate(file, PUNCH_HOLE, ctypes.c_long(0), until)  # if refused, all is kept


def wait_for_growth(path: str, before: int) -> None:
    """Waits until a file has grown and stopped growing."""
    size, changed = before, time.monotonic()
    deadline = changed + TIMEOUT_S
    while time.monotonic() < deadline and (size == before or time.monotonic() < changed + QUIET_S):
        time.sleep(POLL_S)
        now = os.stat(path).st_size
        if now != size:
            size, changed = now, time.monotonic()


def sample_lines(guid: str, node: str, seconds: float, rate_hz: float) -> Iterator[str]:
    """A line of JSON for each rank of the run on the node, with the stacks that it had in some seconds."""
    with tempfile.TemporaryDirectory(prefix="batchai-profile-") as folder, contextlib.ExitStack() as opened:
        ranks = sorted(ranks_of(guid, node).items())
        spying = ["--duration", str(max(1, round(seconds))), "--rate", str(max(SPY_HZ, round(rate_hz)))]
        samplers = [opened.enter_context(StackSampler(*rank, folder, spying)) for rank in ranks]
        signal.signal(signal.SIGTERM, end_sampling)
        begin = time.monotonic()
        with contextlib.suppress(SystemExit):
            for due in tick_times(begin, seconds, rate_hz):
                time.sleep(max(0.0, due - time.monotonic()))
                if not sum(sampler.sample() for sampler in samplers):  # any() would end at the first
                    break
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elapsed_s = time.monotonic() - begin
        deadline = time.monotonic() + SPY_TIMEOUT_S
        for sampler in samplers:
            yield json.dumps(sampler.result(elapsed_s, deadline))


def end_sampling(*_: object) -> None:
    """Handles the signal that the job ends: sampling stops, and the samples so far are printed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def tick_times(begin: float, seconds: float, rate_hz: float) -> Iterator[float]:
    """When to sample: once in each interval, at random, so as not to keep step with a loop."""
    tick = 0
    while tick < seconds * rate_hz:
        yield begin + (tick + random.random()) / rate_hz
        tick = max(tick + 1, int((time.monotonic() - begin) * rate_hz))
    yield begin + seconds


class StackSampler:
    """Samples the main thread of a rank's Python, with py-spy or by signals, without stopping it.

    A sample also counts for the preceding intervals in which the process did not answer: a signal to a
    process that hangs in the kernel is delivered when it returns.
    """

    def __init__(self, rank: int, processes: List[Process], folder: str, spying: List[str]) -> None:
        answering = [process for process in processes if handles_signal(process[0])]
        pythons = sorted(answering or filter(is_python, processes), key=script_first)
        self._rank, (self._pid, self._env) = rank, (pythons or processes)[0]
        self._stacks = Counter()  # type: Counter[Stack]
        self._ticks, self._stopped, self._unanswered = 0, 0, 0  # intervals: all, and those of them
        self._end, self._is_asked = 0, False
        self._is_idle, self._state = False, RUNNING
        self._file = None  # type: Optional[IO[bytes]]
        if answering:
            with contextlib.suppress(OSError):  # it has gone
                self._file = open(dump_of(self._pid), "r+b", buffering=0)  # noqa: SIM115 __exit__ closes it
                self._end = os.fstat(self._file.fileno()).st_size
        self._output = os.path.join(folder, str(rank))
        self._spy = start_spy(self._pid, self._env, [*spying, "--output", self._output]) if pythons else None

    def __enter__(self) -> "StackSampler":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()
        if self._spy and self._spy.poll() is None:
            self._spy.kill()
            self._spy.wait()

    def sample(self) -> bool:
        """Takes a sample, unless py-spy does; False if there is nothing left to sample."""
        self._state = state_of(self._pid) if self._state not in GONE else self._state
        if self._state in GONE:
            return False
        self._ticks += 1
        self._stopped += self._state in STOPPED
        if self._spy and self._spy.poll() in (None, 0):  # else it is refused
            return True
        if self._file is None:
            return False
        self._take_answer(self._file)
        if not self._is_asked and self._state not in STOPPED:
            self._is_asked, self._is_idle = True, self._state != RUNNING
            with contextlib.suppress(OSError):  # it has gone, as the next sample shows
                os.kill(self._pid, SIGNAL)
        self._unanswered += 1
        return True

    def result(self, elapsed_s: float, deadline: float) -> Dict[str, Any]:
        """The samples of the rank, as JSON; waits for py-spy until the deadline."""
        if self._file:
            self._take_answer(self._file)
        way, stacks, tick_s = "signal", self._stacks, elapsed_s / max(1, self._ticks)
        if self._spy and succeeds(self._spy, deadline):
            way, stacks = "py-spy", spy_stacks(self._output, self._pid)
        sample_count = sum(stacks.values())
        stacks = most_frequent_stacks(stacks)
        hide = masking(self._env)
        code = source_lines(self._pid, (text for text, _ in stacks))
        return {
            "rank": self._rank,
            "node": self._env.get("AZ_BATCH_NODE_ID", ""),
            "way": way,
            "seconds": elapsed_s,
            "stopped_s": self._stopped * tick_s,
            "silent_s": self._unanswered * tick_s,
            "unfinished": self._spy is not None and self._spy.poll() is None,
            "folder": self._env.get("BATCHAI_ARTIFACT_DIR", ""),
            "stacks": [[hide(text), is_idle, count] for (text, is_idle), count in stacks.items()],
            "other": sample_count - sum(stacks.values()),
            "code": {hide(frame): hide(line) for frame, line in code.items()},
        }

    def _take_answer(self, file: IO[bytes]) -> None:
        """Counts the stack that the process has written since the last signal, if there is one."""
        size = os.fstat(file.fileno()).st_size
        file.seek(self._end)
        _, marker, text = file.read(size - self._end).decode(errors="replace").rpartition(CURRENT)
        if marker:
            frames = [line for line in text.partition("\n\n")[0].splitlines() if FRAME.match(line)]
            self._stacks["\n".join([CURRENT, *frames]), self._is_idle] += self._unanswered
            self._unanswered, self._is_asked, self._end = 0, False, size
            free_memory(file.fileno(), size)


def is_python(process: Process) -> bool:
    """Whether a process runs a Python interpreter."""
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink("/proc/{}/exe".format(process[0]))).startswith("python")
    return False


def start_spy(pid: int, env: Dict[str, str], options: List[str]) -> "Optional[subprocess.Popen[bytes]]":
    """Starts py-spy, if it is beside the process's Python or on its PATH."""
    python = os.fsdecode(content(str(pid), "cmdline").partition(b"\0")[0])
    folders = [os.path.dirname(python), env.get("PATH", ""), os.environ.get("PATH", "")]
    program = shutil.which("py-spy", path=os.pathsep.join(filter(None, folders)))
    if program is None:
        return None
    return subprocess.Popen(
        [program, "record", "--pid", str(pid), *SPY_OPTIONS, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def succeeds(process: "subprocess.Popen[bytes]", deadline: float) -> bool:
    """Whether a process ends successfully before the deadline."""
    try:
        return process.wait(max(0.0, deadline - time.monotonic())) == 0
    except subprocess.TimeoutExpired:
        return False


def spy_stacks(path: str, pid: int) -> "Counter[Stack]":
    """The stacks of a process's main thread in py-spy's file, as faulthandler would write them."""
    stacks = Counter()  # type: Counter[Stack]
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            text, _, count = line.rpartition(" ")
            thread, *calls = text.split(";")
            if thread.endswith("MainThread") or "({})".format(pid) in thread:
                matches = filter(None, map(SPY_FRAME.match, reversed(calls[-MAX_FRAMES:])))
                form = '  File "{0[file]}", line {0[line]} in {0[function]}'
                stacks["\n".join([CURRENT, *map(form.format, matches)]), None] += int(count)
    return stacks


def most_frequent_stacks(stacks: "Counter[Stack]") -> "Counter[Stack]":
    """The most frequent stacks, at most `MAX_STACKS` and `MAX_TEXT` characters."""
    result, size = Counter(), 0  # type: Counter[Stack], int
    for stack, count in stacks.most_common(MAX_STACKS):
        size += len(stack[0])
        if size > MAX_TEXT:
            break
        result[stack] = count
    return result


def source_lines(pid: int, stacks: Iterable[str]) -> Dict[str, str]:
    """The lines of code in which the functions of stacks were, by `FILE:LINE`."""
    positions = {(match["file"], int(match["line"])) for text in stacks for match in FRAME.finditer(text)}
    code, known, lines = {}, "", []  # type: Dict[str, str], str, List[bytes]
    for file, line in sorted(positions)[:MAX_LINES]:
        if file != known:
            folder = "root" if file.startswith("/") else "cwd"
            text = source_of("/proc/{}/{}/{}".format(pid, folder, file.lstrip("/")))
            known, lines = file, text.splitlines()
        source = lines[line - 1] if 0 < line <= len(lines) else b""
        code["{}:{}".format(file, line)] = source.decode(errors="replace").strip()[:MAX_LINE]
    return code


def source_of(path: str) -> bytes:
    """The beginning of a file that a job names; empty if it is not a regular file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):  # it is not there, or no file has such a name
        return b""
    try:
        return os.read(file, MAX_SOURCE) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(file)


def masking(env: Dict[str, str]) -> Callable[[str], str]:
    """A function that replaces the secrets of a job in a text."""
    names = env.get("BATCHAI_SECRET_NAMES", "").split()
    values = sorted((env.get(name, "") for name in names), key=len, reverse=True)
    known = [re.escape(value) for value in values if len(value) >= MIN_SECRET]
    return lambda text: re.sub("|".join(known), MASK, text) if known else text


def append_to_record(env: Dict[str, str], rank: int, text: str) -> None:
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
