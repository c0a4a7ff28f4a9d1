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

from batchai_magics.backends.machines import ssh_command
from batchai_magics.backends.machines.agent_frames import MARK_BYTES, BrokenStreamError, FrameStream
from batchai_magics.errors import ServiceError

LOGIN_TIMEOUT_S = 60.0  # what a login shell gets to be done with its profile
EXIT_TIMEOUT_S = 2.0


class Response(NamedTuple):
    """An answer, or a part of one."""

    head: Mapping[str, Any]
    data: bytes


class ConnectionLostError(Exception):
    """The connection ended before there was an answer."""


class SshConnection:
    """A connection that is up. Threads may ask at once; `failed` makes an error of what `ssh` said last."""

    def __init__(self, words: list[str], ready: str, failed: Callable[[str], ServiceError]) -> None:
        self._failed = failed
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[Response | None]] = {}
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

    def open(self, head: Mapping[str, Any], data: bytes = b"") -> PendingRequest:
        """Asks something; LostError when nobody is there any more."""
        number = next(self._numbers)
        answers: queue.SimpleQueue[Response | None] = queue.SimpleQueue()
        with self._lock:
            if not self.is_up:
                raise ConnectionLostError
            self._waiting[number] = answers
        try:
            self._frames.send({**head, "number": number}, data)
        except (OSError, ValueError):
            self.close()
            raise ConnectionLostError from None
        return PendingRequest(self, number, answers)

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
            self._ssh.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        self._said.close()

    def _shake_hands(self, ready: str) -> FrameStream:
        """Waits until our program is there, and tells it what to be."""
        mark = secrets.token_bytes(MARK_BYTES)
        overdue = threading.Event()
        timer = threading.Timer(LOGIN_TIMEOUT_S, self._give_up, [overdue])
        timer.daemon = True
        timer.start()
        try:
            reading, writing = _pipe(self._ssh.stdout), _pipe(self._ssh.stdin)
            while (line := reading.readline()).strip() != ready.encode():
                if not line:
                    raise OSError("nobody is there")
            writing.write(ssh_command.agent_program(mark))
            writing.flush()
        except OSError as error:
            raise self._start_failure(is_overdue=overdue.is_set()) from error
        finally:
            timer.cancel()
        return FrameStream(reading, writing, mark)

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
            limit = f"{LOGIN_TIMEOUT_S:g} s"
            said += f"\nits login shell is not done after {limit}: does its profile wait for something?"
        return self._failed(said)

    def _receive(self) -> None:
        try:
            while True:
                head, data = self._frames.receive()
                with self._lock:
                    answers = self._waiting.get(head["number"])
                if answers:
                    answers.put(Response(head, data))
        except (BrokenStreamError, OSError, ValueError):
            self.close()
        finally:
            _pipe(self._ssh.stdout).close()


class PendingRequest:
    """A question that was sent."""

    def __init__(self, link: SshConnection, number: int, answers: queue.SimpleQueue[Response | None]) -> None:
        self._link, self.number, self._answers = link, number, answers

    def next_response(self, timeout_s: float) -> Response:
        """The next part of the answer. queue.Empty when none came for so long; LostError when none will come.

        Raises the error that was raised at the other end.
        """
        frame = self._answers.get(timeout=timeout_s or None)
        if frame is None:
            raise ConnectionLostError
        if "failed" in frame.head:
            raise remote_error(frame.head["failed"], frame.head["words"])
        return frame

    def close(self) -> None:
        """Waits no longer."""
        self._link.forget(self.number)


def remote_error(name: str, words: str) -> OSError:
    """The error of the other end; its numbers of errors need not be ours."""
    return OSError(getattr(errno, name, errno.EIO), words)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe, "both are pipes"
    return pipe
