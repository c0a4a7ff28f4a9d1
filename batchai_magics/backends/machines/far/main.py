"""The program at the other end of `ssh`: it answers until nobody asks any more. Python 3.6."""

import contextlib
import errno
import os
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from batchai_magics.backends.machines.far import changing, commands, reading
from batchai_magics.backends.machines.far.commands import Started
from batchai_magics.backends.machines.far.frames import BrokenError, Frames

AT_ONCE = 16
IDLE_S = 900.0  # after so long without a word it ends: the other end has gone, or starts it again
KNOWN = (
    (reading, "status read digest names glob entries real access snapshot"),
    (changing, "put put_new splice link symlink move unlink rmtree mkdir touch chmod"),
    (commands, "has run"),
)
ASKED = {name: getattr(module, name) for module, names in KNOWN for name in names.split()}
WITH_BYTES = ("put", "put_new", "splice")


class Answering:
    """Questions become answers, many at once."""

    def __init__(self, frames: "Frames") -> None:
        self._frames, self._started = frames, Started()
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._busy = 0
        self._lock = threading.Lock()

    def run(self) -> None:
        """Answers until the other end has gone; what was asked is done all the same."""
        try:
            while self._is_asked():
                self._take(*self._frames.receive())
        except BrokenError:
            pass
        self._started.end_all()
        self._pool.shutdown()

    def _is_asked(self) -> bool:
        """Waits for a question; False when nothing was asked for long, and nothing runs."""
        while not self._frames.waits(IDLE_S):
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
        return ASKED[name](**head)

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
        env = commands.environment(head["own"], head["more"])

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
    Answering(Frames(asking, sys.stdout.buffer, mark)).run()
