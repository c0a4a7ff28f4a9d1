"""The ssh agent: serves requests on standard input until the connection closes. Python 3.6."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from batchai_magics.backends.machines.agent_files import READ_OPERATIONS, WRITE_OPERATIONS
from batchai_magics.backends.machines.agent_frames import BrokenStreamError, FrameStream

CHUNK_BYTES = 1 << 16
EXIT_TIMEOUT_S = 10.0  # from the end of its standard input to SIGKILL
POLL_INTERVAL_S = 0.1


def hello() -> "Any":
    """The facts about this machine that the client needs."""
    home, environ = os.path.expanduser("~"), dict(os.environ)
    return {"user": os.getuid(), "home": home, "python": sys.executable, "environ": environ}, b""


def has(program: str) -> "Any":
    """Whether a program is on PATH."""
    return shutil.which(program) is not None, b""


def run(
    words: "list[str]",
    env: "dict[str, str]",
    folder: str,
    timeout_s: float,
    answer: "Any" = None,
) -> "Any":
    """Runs a command; returns [exit code, size of stdout], and stdout followed by stderr.

    With `answer`, a folder to create for the result, the command runs once: a repeated request returns the
    saved result.
    """
    if answer is None:
        return _run_to_end(words, env, folder, timeout_s)
    file = os.path.join(answer, "answer")
    try:
        os.mkdir(answer, 0o700)
    except FileExistsError:
        return _saved_result(file, timeout_s)
    (code, size), data = _run_to_end(words, env, folder, timeout_s)
    with os.fdopen(os.open(file + ".part", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as stream:
        stream.write(b"%d %d\n" % (code, size) + data)
    os.rename(file + ".part", file)
    return [code, size], data


def _run_to_end(words: "list[str]", env: "dict[str, str]", folder: str, timeout_s: float) -> "Any":
    child = _start(words, env, folder, subprocess.DEVNULL)
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise OSError(errno.ETIMEDOUT, "it took too long") from None
    return [child.returncode, len(out)], out + err


def _saved_result(file: str, timeout_s: float) -> "Any":
    """The saved result; waits for it, since the first request may still be running."""
    deadline = time.monotonic() + timeout_s
    while not os.path.exists(file):
        if time.monotonic() > deadline:
            raise OSError(errno.ETIMEDOUT, "it took too long")
        time.sleep(POLL_INTERVAL_S)
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
    """Commands whose output is being streamed, by the number of their request."""

    def __init__(self) -> None:
        self._children: dict[int, Any] = {}
        self._lock = threading.Lock()

    def start(
        self,
        number: int,
        words: "list[str]",
        env: "dict[str, str]",
        folder: str,
        forward: "Callable[[bool, bytes], None]",
    ) -> int:
        """Runs a command, forwards its output as it arrives, and returns its exit code."""
        child = _start(words, env, folder, subprocess.PIPE)
        with self._lock:
            self._children[number] = child
        errors = threading.Thread(target=_forward_output, args=(child.stderr, True, forward), daemon=True)
        errors.start()
        _forward_output(child.stdout, False, forward)
        errors.join()
        code: int = child.wait()
        with self._lock:
            self._children.pop(number, None)
        return code

    def end(self, number: int) -> None:
        """Closes the standard input of a command, and kills its process group if it does not exit."""
        with self._lock:
            child = self._children.get(number)
        if child is None:
            return
        child.stdin.close()
        try:
            child.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)

    def end_all(self) -> None:
        """Ends all running commands."""
        with self._lock:
            numbers = list(self._children)
        for number in numbers:
            self.end(number)


def _forward_output(pipe: "Any", is_error: bool, forward: "Callable[[bool, bytes], None]") -> None:
    while True:
        data = os.read(pipe.fileno(), CHUNK_BYTES)
        if not data:
            return
        forward(is_error, data)


MAX_CONCURRENT = 16
OPERATIONS = {
    operation.__name__: operation for operation in (*READ_OPERATIONS, *WRITE_OPERATIONS, hello, has, run)
}
TAKES_DATA = ("put", "put_new", "splice")


class RequestServer:
    """Serves requests concurrently."""

    def __init__(self, frames: "FrameStream") -> None:
        self._frames, self._commands = frames, RunningCommands()
        self._pool = ThreadPoolExecutor(MAX_CONCURRENT)

    def run(self) -> None:
        """Serves until the connection closes; requests that were received are completed."""
        try:
            while True:
                head, data = self._frames.receive()
                number, name = head.pop("number"), head.pop("ask")
                if name == "end":
                    threading.Thread(target=self._commands.end, args=(head["which"],), daemon=True).start()
                elif name == "start":
                    threading.Thread(target=self._respond, args=(number, self._start, (number, head))).start()
                else:
                    self._pool.submit(self._respond, number, self._perform, (name, head, data))
        except BrokenStreamError:
            pass
        self._commands.end_all()
        self._pool.shutdown()

    def _respond(self, number: int, act: "Any", arguments: "Any") -> None:
        try:
            value, data = act(*arguments)
            head = {"number": number, "value": value}
        except Exception as error:  # noqa: BLE001 sent to the client
            head, data = dict(_error_head(error), number=number), b""
        self._send(head, data)

    def _perform(self, name: str, head: "dict[str, Any]", data: bytes) -> "Any":
        if name == "several":
            return self._perform_batch(head["each"], data)
        if name in TAKES_DATA:
            head["data"] = data
        return OPERATIONS[name](**head)

    def _perform_batch(self, batch: "Any", data: bytes) -> "Any":
        """Performs requests in order up to the first that fails; returns their results."""
        results, pieces = [], []  # type: list[dict[str, Any]], list[bytes]
        for head, size in batch:
            piece, data = data[:size], data[size:]
            try:
                value, payload = self._perform(head.pop("ask"), head, piece)
            except Exception as error:  # noqa: BLE001 sent to the client
                results.append(_error_head(error))
                break
            results.append({"value": value, "size": len(payload)})
            pieces.append(payload)
        return results, b"".join(pieces)

    def _start(self, number: int, head: "dict[str, Any]") -> "Any":
        def forward(is_error: bool, data: bytes) -> None:
            self._send({"number": number, "error": is_error}, data)

        return self._commands.start(number, head["words"], head["env"], head["folder"], forward), b""

    def _send(self, head: "dict[str, Any]", data: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):  # the client has gone
            self._frames.send(head, data)


def _error_head(error: "Exception") -> "dict[str, Any]":
    """An error that the client raises again, by the name of its errno: the numbers differ between systems."""
    if isinstance(error, OSError) and error.errno is not None:
        name = errno.errorcode.get(error.errno, "EIO")
        return {"failed": name, "words": error.strerror or str(error)}
    return {"failed": "", "words": f"{type(error).__name__}: {error}"}


def main(requests: "Any", mark: bytes) -> None:
    """Serves the requests of an unbuffered binary file; responses go to standard output."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    RequestServer(FrameStream(requests, sys.stdout.buffer, mark)).run()
