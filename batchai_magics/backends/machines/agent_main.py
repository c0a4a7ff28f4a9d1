"""The ssh agent: serves requests on standard input until the connection closes. Python 3.6."""

import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from batchai_magics.backends.machines.agent_files import CHANGES, QUERIES
from batchai_magics.backends.machines.agent_frames import BrokenStreamError, FrameStream

PIECE_BYTES = 1 << 16
ENDING_S = 10.0  # what a command gets to end when nobody reads it any more
AGAIN_S = 0.1


def has(program: str) -> "Any":
    """Whether there is a program of that name."""
    return shutil.which(program) is not None, b""


def environment(own: "Any", more: "dict[str, str]") -> "dict[str, str]":
    """An environment: those variables of this program's that `own` names (None: all), and more."""
    kept = {name: text for name, text in os.environ.items() if own is None or name in own}
    return dict(kept, **more)


def run(
    words: "list[str]",
    own: "Any",
    more: "dict[str, str]",
    folder: str,
    timeout_s: float,
    answer: "Any" = None,
) -> "Any":
    """Runs a command to its end: its exit code, how much of the bytes is its output, and its errors behind.

    With a folder for its answer, which is made, it is run once: who asks again gets what is in there.
    """
    env = environment(own, more)
    if answer is None:
        return _ended(words, env, folder, timeout_s)
    file = os.path.join(answer, "answer")
    try:
        os.mkdir(answer, 0o700)
    except FileExistsError:
        return _kept(file, timeout_s)
    ended = _ended(words, env, folder, timeout_s)
    _keep(file, ended)
    return ended


def _ended(words: "list[str]", env: "dict[str, str]", folder: str, timeout_s: float) -> "Any":
    child = _start(words, env, folder, subprocess.DEVNULL)
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise OSError(errno.ETIMEDOUT, "it took too long") from None
    return [child.returncode, len(out)], out + err


def _keep(file: str, answer: "Any") -> None:
    (code, size), data = answer
    part = file + ".part"
    with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as stream:
        stream.write(b"%d %d\n" % (code, size) + data)
    os.rename(part, file)


def _kept(file: str, timeout_s: float) -> "Any":
    """What was kept; it may be that the first who was asked still runs it."""
    deadline = time.monotonic() + timeout_s
    while not os.path.exists(file):
        if time.monotonic() > deadline:
            raise OSError(errno.ETIMEDOUT, "it took too long")
        time.sleep(AGAIN_S)
    with open(file, "rb") as stream:
        code, size = map(int, stream.readline().split())
        return [code, size], stream.read()


def _start(words: "list[str]", env: "dict[str, str]", folder: str, stdin: int) -> "Any":
    program = shutil.which(words[0])
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "there is no such program", words[0])
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [program] + words[1:],
        env=env,
        cwd=folder or None,
        stdin=stdin,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )


class RunningCommands:
    """The commands that run while somebody reads them, by the number of who asked for them."""

    def __init__(self) -> None:
        self._children: dict[int, Any] = {}
        self._lock = threading.Lock()

    def start(
        self,
        number: int,
        words: "list[str]",
        env: "dict[str, str]",
        folder: str,
        tell: "Callable[[bool, bytes], None]",
    ) -> int:
        """Runs a command; tells what it writes as it comes, and gives its exit code."""
        child = _start(words, env, folder, subprocess.PIPE)
        with self._lock:
            self._children[number] = child
        errors = threading.Thread(target=_tell_all, args=(child.stderr, True, tell), daemon=True)
        errors.start()
        _tell_all(child.stdout, False, tell)
        errors.join()
        code: int = child.wait()
        with self._lock:
            self._children.pop(number, None)
        return code

    def end(self, number: int) -> None:
        """Ends a command: it sees the end of its input, and is killed when that does not help."""
        with self._lock:
            child = self._children.get(number)
        if child is None:
            return
        child.stdin.close()
        try:
            child.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)

    def end_all(self) -> None:
        """Ends all of them."""
        with self._lock:
            numbers = list(self._children)
        for number in numbers:
            self.end(number)


def _tell_all(pipe: "Any", is_error: bool, tell: "Callable[[bool, bytes], None]") -> None:
    while True:
        data = os.read(pipe.fileno(), PIECE_BYTES)
        if not data:
            return
        tell(is_error, data)


AT_ONCE = 16
IDLE_S = 900.0  # after so long without a word it ends: the other end has gone, or starts it again
OPERATIONS = {operation.__name__: operation for operation in (*QUERIES, *CHANGES, has, run)}
WITH_BYTES = ("put", "put_new", "splice")


class RequestServer:
    """Questions become answers, many at once."""

    def __init__(self, frames: "FrameStream") -> None:
        self._frames, self._started = frames, RunningCommands()
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._busy = 0
        self._lock = threading.Lock()

    def run(self) -> None:
        """Answers until the other end has gone; what was asked is done all the same."""
        try:
            while self._is_asked():
                self._take(*self._frames.receive())
        except BrokenStreamError:
            pass
        self._started.end_all()
        self._pool.shutdown()

    def _is_asked(self) -> bool:
        """Waits for a question; False when nothing was asked for long, and nothing runs."""
        while not self._frames.wait_readable(IDLE_S):
            if not self._busy:
                return False
        return True

    def _take(self, head: "dict[str, Any]", data: bytes) -> None:
        number, name = head.pop("number"), head.pop("ask")
        if name == "end":
            threading.Thread(target=self._started.end, args=(head["which"],), daemon=True).start()
        elif name == "start":
            threading.Thread(target=self._answer, args=(number, self._start, (number, head))).start()
        else:
            self._pool.submit(self._answer, number, self._asked, (name, head, data))

    def _answer(self, number: int, act: "Any", arguments: "Any") -> None:
        with self._lock:
            self._busy += 1
        try:
            try:
                value, data = act(*arguments)
                answer = {"number": number, "value": value}
            except Exception as error:  # noqa: BLE001 whoever asked is told
                answer, data = dict(_told(error), number=number), b""
            self._send(answer, data)
        finally:
            with self._lock:
                self._busy -= 1

    def _asked(self, name: str, head: "dict[str, Any]", data: bytes) -> "Any":
        if name == "hello":
            return _hello(), b""
        if name == "several":
            return self._several(head["each"], data)
        if name in WITH_BYTES:
            head["data"] = data
        return OPERATIONS[name](**head)

    def _several(self, each: "Any", data: bytes) -> "Any":
        """The answers to questions, one after the other, up to the first that fails."""
        answers, pieces = [], []  # type: list[dict[str, Any]], list[bytes]
        for head, size in each:
            piece, data = data[:size], data[size:]
            try:
                value, told = self._asked(head.pop("ask"), head, piece)
            except Exception as error:  # noqa: BLE001 whoever asked is told
                answers.append(_told(error))
                break
            answers.append({"value": value, "size": len(told)})
            pieces.append(told)
        return answers, b"".join(pieces)

    def _start(self, number: int, head: "dict[str, Any]") -> "Any":
        env = environment(head["own"], head["more"])

        def tell(is_error: bool, data: bytes) -> None:
            self._send({"number": number, "error": is_error}, data)

        return self._started.start(number, head["words"], env, head["folder"], tell), b""

    def _send(self, head: "dict[str, Any]", data: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody is there any more
            self._frames.send(head, data)


def _hello() -> "dict[str, Any]":
    return {
        "user": os.getuid(),
        "host": socket.gethostname(),
        "home": os.path.expanduser("~"),
        "python": sys.executable,
        "version": list(sys.version_info[:3]),
        "environ": dict(os.environ),
    }


def _told(error: "Exception") -> "dict[str, Any]":
    """An error as the other end can raise it again; numbers of errors differ between systems."""
    if isinstance(error, OSError) and error.errno is not None:
        name = errno.errorcode.get(error.errno, "EIO")
        return {"failed": name, "words": error.strerror or str(error)}
    return {"failed": "", "words": f"{type(error).__name__}: {error}"}


def main(asking: "Any", mark: bytes) -> None:
    """Answers on standard output what is read, without a buffer, from a file."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    RequestServer(FrameStream(asking, sys.stdout.buffer, mark)).run()
