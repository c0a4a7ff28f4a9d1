"""One run of `ssh`, and our program at its other end: questions go there, answers come back, in any order."""

from __future__ import annotations

import contextlib
import errno
import itertools
import queue
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple

from batchai_magics.backends.machines import ssh_line
from batchai_magics.backends.machines.far.frames import MARK_BYTES, BrokenError, Frames
from batchai_magics.errors import ServiceError

START_S = 60.0  # what a login shell gets to be done with its profile
ENDING_S = 2.0


class Frame(NamedTuple):
    """An answer, or a part of one."""

    head: Mapping[str, Any]
    data: bytes


class LostError(Exception):
    """The connection ended before there was an answer."""


class Link:
    """A connection that is up. Threads may ask at once; `failed` makes an error of what `ssh` said last."""

    def __init__(self, words: list[str], ready: str, failed: Callable[[str], ServiceError]) -> None:
        self._failed = failed
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[Frame | None]] = {}
        self._lock = threading.Lock()
        self.is_up = True
        # No pipe: a connection that stays for others would hold it open.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 open as long as the link
        try:
            self._ssh = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                start_new_session=True,  # an interrupt at the keyboard is not for it
            )
        except OSError:
            self._said.close()
            raise
        self._frames = self._shake_hands(ready)
        threading.Thread(target=self._receive, daemon=True, name="batchai-ssh").start()

    def open(self, head: Mapping[str, Any], data: bytes = b"") -> Asked:
        """Asks something; LostError when nobody is there any more."""
        number = next(self._numbers)
        answers: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        with self._lock:
            if not self.is_up:
                raise LostError
            self._waiting[number] = answers
        try:
            self._frames.send({**head, "number": number}, data)
        except (OSError, ValueError):
            self.close()
            raise LostError from None
        return Asked(self, number, answers)

    def forget(self, number: int) -> None:
        """Nobody waits for that answer any more."""
        with self._lock:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """Ends it; what was asked is done there all the same."""
        with self._lock:
            self.is_up = False
            waiting, self._waiting = self._waiting, {}
        for answers in waiting.values():
            answers.put(None)
        with contextlib.suppress(OSError):
            _pipe(self._ssh.stdin).close()
        try:
            self._ssh.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        self._said.close()

    def _shake_hands(self, ready: str) -> Frames:
        """Waits until our program is there, and tells it what to be."""
        mark = secrets.token_bytes(MARK_BYTES)
        overdue = threading.Event()
        timer = threading.Timer(START_S, self._give_up, [overdue])
        timer.daemon = True
        timer.start()
        try:
            reading, writing = _pipe(self._ssh.stdout), _pipe(self._ssh.stdin)
            while (line := reading.readline()).strip() != ready.encode():
                if not line:
                    raise OSError("nobody is there")
            writing.write(ssh_line.program(mark))
            writing.flush()
        except OSError as error:
            raise self._start_failure(is_overdue=overdue.is_set()) from error
        finally:
            timer.cancel()
        return Frames(reading, writing, mark)

    def _give_up(self, overdue: threading.Event) -> None:
        overdue.set()
        self._ssh.kill()

    def _start_failure(self, *, is_overdue: bool) -> ServiceError:
        self._ssh.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        self.close()
        _pipe(self._ssh.stdout).close()
        if is_overdue:
            said += f"\nits login shell is not done after {START_S:g} s: does its profile wait for something?"
        return self._failed(said)

    def _receive(self) -> None:
        try:
            while True:
                head, data = self._frames.receive()
                with self._lock:
                    answers = self._waiting.get(head["number"])
                if answers:
                    answers.put(Frame(head, data))
        except (BrokenError, OSError, ValueError):
            self.close()
        finally:
            _pipe(self._ssh.stdout).close()


class Asked:
    """A question that was sent."""

    def __init__(self, link: Link, number: int, answers: queue.SimpleQueue[Frame | None]) -> None:
        self._link, self.number, self._answers = link, number, answers

    def next(self, timeout_s: float) -> Frame:
        """The next part of the answer. queue.Empty when none came for so long; LostError when none will come.

        Raises the error that was raised at the other end.
        """
        frame = self._answers.get(timeout=timeout_s or None)
        if frame is None:
            raise LostError
        if "failed" in frame.head:
            raise error_of(frame.head["failed"], frame.head["words"])
        return frame

    def close(self) -> None:
        """Waits no longer."""
        self._link.forget(self.number)


def error_of(name: str, words: str) -> OSError:
    """The error of the other end; its numbers of errors need not be ours."""
    return OSError(getattr(errno, name, errno.EIO), words)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe, "both are pipes"
    return pipe
