"""Commands, at the other end of `ssh`: run to their end, or while somebody reads them. Python 3.6."""

import errno
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

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


class Started:
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
