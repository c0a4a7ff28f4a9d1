"""Requests to an ssh host: pipelining, retries, and reconnecting with exponential backoff."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import secrets
import shlex
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.machines import ssh_command
from batchai_magics.backends.machines.ssh_connection import (
    ConnectionLostError,
    PendingRequest,
    Response,
    SshConnection,
    remote_error,
)
from batchai_magics.errors import ServiceError, UnreachableError

AGAIN = ("link", "symlink", "move", "unlink", "mkdir", "put_new")  # told that it may have been done already
_MISLEADING = (errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # of another path than is asked about


class Request(NamedTuple):
    """What the host is asked, and the bytes that go with it."""

    head: Mapping[str, Any]
    data: bytes

    def told(self, *, is_again: bool) -> dict[str, Any]:
        """Its head; where the answer was lost before, it may have been done already."""
        return {**self.head, "again": True} if is_again and self.head["ask"] in AGAIN else {**self.head}


class RequestPipeline(threading.local):
    """The questions that this thread holds back. Outside of `open` it holds back none."""

    def __init__(self) -> None:
        self._held: list[Request] = []
        self._depth = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Within it, questions may be held back."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def keeps(self, question: Request) -> bool:
        """Holds a question back, if that may be done now."""
        if self._depth:
            self._held.append(question)
        return bool(self._depth)

    def taken(self) -> list[Request]:
        """What was held back, the first one first; it is no longer."""
        held, self._held = self._held, []
        return held


def as_one(questions: Sequence[Request], *, is_again: bool) -> Request:
    """One question for all of these."""
    heads = [question.told(is_again=is_again) for question in questions]
    if len(heads) == 1:
        return Request(heads[0], questions[0].data)
    each = [[head, len(question.data)] for head, question in zip(heads, questions, strict=True)]
    return Request({"ask": "several", "each": each}, b"".join(question.data for question in questions))


def last_answer(questions: Sequence[Request], answer: Response) -> Response:
    """The answer to the last of these; OSError, with its path, for the first that failed."""
    if len(questions) == 1:
        return answer
    told = answer.head["value"]
    for question, each in zip(questions, told, strict=False):
        if "failed" in each:
            raise _failure(question, each, is_last=question is questions[-1])
    size = told[-1]["size"]
    return Response(told[-1], answer.data[len(answer.data) - size :])


def _failure(question: Request, told: Mapping[str, Any], *, is_last: bool) -> OSError:
    """The error of a question. What an earlier one says of its path must not pass for the last one's."""
    error = remote_error(told["failed"], told["words"])
    if not is_last and error.errno in _MISLEADING:
        error = OSError(errno.EIO, told["words"])
    error.filename = question.head.get("path")
    return error


RESPONSE_TIMEOUT_S = 60.0  # after which a connection that brings no answer counts as lost
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
MAX_ATTEMPTS = 3  # of a question, each over a connection of its own
_LONGEST_PATH = 80  # of a socket's folder: the name in it has 40 characters, and ssh adds some


class SshChannel:
    """Questions to a host. `ssh` is the line that starts `ssh`, `python` the Python there."""

    def __init__(self, host: str, *, ssh: str = "ssh", python: str = "python3") -> None:
        ssh_command.check_host(host)
        self.host, self._ssh, self._python = host, shlex.split(ssh), python
        self._lock = threading.Lock()
        self._link: SshConnection | None = None
        self._pauses, self._until = 0, 0.0
        self._failure: ServiceError | None = None
        self._shared: str | None = None
        self._configuration = ""  # what `ssh -G` says of the host
        self._outbox = RequestPipeline()

    def request(
        self, name: str, data: bytes = b"", *, wait_s: float = RESPONSE_TIMEOUT_S, **asked: Any
    ) -> Response:
        """What the host answers; the error that it raised there, or UnreachableError.

        A connection that is lost meanwhile is made again, and it is asked again. What this thread has told
        before comes with it, and may fail as well.
        """
        return self._asked([*self._outbox.taken(), Request({"ask": name, **asked}, data)], wait_s)

    def send(self, name: str, data: bytes = b"", **asked: Any) -> None:
        """The same for what has no answer; within `at_once` it may be told later, with what comes next."""
        question = Request({"ask": name, **asked}, data)
        if not self._outbox.keeps(question):
            self._asked([question], RESPONSE_TIMEOUT_S)

    @contextlib.contextmanager
    def pipelined(self) -> Iterator[None]:
        """Within it, what this thread tells is held back until it asks; all has been told at its end."""
        try:
            with self._outbox.open():
                yield
        except BaseException:
            with contextlib.suppress(OSError, ServiceError):  # what went wrong first says more
                self._tell_held()
            raise
        self._tell_held()

    def _tell_held(self) -> None:
        if held := self._outbox.taken():
            self._asked(held, RESPONSE_TIMEOUT_S)

    def _asked(self, questions: Sequence[Request], wait_s: float) -> Response:
        for number in range(MAX_ATTEMPTS):
            link = self._up()
            question = as_one(questions, is_again=number > 0)
            try:
                return last_answer(questions, _answer(link, question.head, question.data, wait_s))
            except ConnectionLostError:
                continue
            except OSError as error:
                error.filename = error.filename or questions[-1].head.get("path")
                raise
        raise self._lost()

    def request_once(self, name: str, *, wait_s: float, **asked: Any) -> Response:
        """The answer to what the host does once, however often it is asked for within `wait_s`."""
        self._tell_held()
        link: SshConnection | None = self._up()
        deadline = time.monotonic() + wait_s
        while True:
            try:
                return _answer(link or self._up(), {"ask": name, **asked}, b"", wait_s)
            except (ConnectionLostError, UnreachableError) as error:
                if time.monotonic() > deadline:
                    raise self._lost() from error
                link = None
                time.sleep(FIRST_PAUSE_S)

    def stream(self, name: str, *, tick_s: float, **asked: Any) -> Generator[Response | None, None, Any]:
        """The parts of an answer as they come, None where none came for so long; at last the answer's value.

        When it is closed the host hears that nobody reads any more.
        """
        self._tell_held()
        link = self._up()
        try:
            question = link.open({"ask": name, **asked})
            try:
                return (yield from _parts(question, tick_s))
            finally:
                question.close()
                with contextlib.suppress(ConnectionLostError):
                    link.open({"ask": "end", "which": question.number}).close()
        except ConnectionLostError:
            raise self._lost() from None

    def close(self) -> None:
        """Ends the connection; the next question makes another."""
        with self._lock:
            if self._link:
                self._link.close()
            self._link = None

    def _up(self) -> SshConnection:
        with self._lock:
            if self._link and self._link.is_up:
                return self._link
            if self._failure and time.monotonic() < self._until:
                raise self._failure.with_traceback(None)
            try:
                self._link = self._made()
            except ServiceError as error:
                pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._pauses)
                self._pauses, self._failure = self._pauses + 1, error
                self._until = time.monotonic() + pause_s
                raise
            self._pauses, self._failure = 0, None
            return self._link

    def _made(self) -> SshConnection:
        if self._shared is None:
            self._shared = self._socket()
        ready = f"batchai-{secrets.token_hex(8)}"
        words = ssh_command.ssh_arguments(
            self._ssh, self.host, self._shared, python=self._python, ready=ready
        )
        try:
            return SshConnection(words, ready, self._failed)
        except FileNotFoundError:
            hint = "Install OpenSSH's client, or name it: setting slurm.ssh_command."
            raise ServiceError(f"there is no program {self._ssh[0]}", code="NoSsh", hint=hint) from None

    def _failed(self, said: str) -> ServiceError:
        shared = (
            ["-o", "ControlMaster=yes", "-o", f"ControlPath={self._shared}", "-fN"] if self._shared else []
        )
        login = shlex.join([*self._ssh, *shared, self.host])
        forget = ssh_command.forget_key_command(self.host, self._configuration)
        return ssh_command.connection_error(self.host, said, python=self._python, login=login, forget=forget)

    def _lost(self) -> UnreachableError:
        text = f"the connection to {self.host} was lost, and lost again"
        return UnreachableError(text, code="HostUnreachable", hint="Try it again.")

    def _socket(self) -> str:
        """Where connections to the host are shared: as the user has said, or in a folder of our own."""
        try:
            line = [*self._ssh, "-G", "--", self.host]
            told = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return ""
        self._configuration = told.stdout
        if os.name != "posix" or ssh_command.has_control_path(told.stdout):
            return ""
        return str(_own_folder() / "%C")


def _own_folder() -> Path:
    """A folder that nobody else can look into, with a path that is short enough for a socket in it."""
    user = os.getuid()
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        folder = Path(base or "/tmp") / f"batchai-ssh-{user}"
        if len(str(folder)) > _LONGEST_PATH:
            continue
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077:
            return folder
    return Path(tempfile.mkdtemp(prefix="batchai-ssh-", dir="/tmp"))


def _answer(link: SshConnection, head: Mapping[str, Any], data: bytes, wait_s: float) -> Response:
    question = link.open(head, data)
    try:
        return question.next_response(wait_s)
    except queue.Empty:
        link.close()
        raise ConnectionLostError from None
    finally:
        question.close()


def _parts(question: PendingRequest, tick_s: float) -> Generator[Response | None, None, Any]:
    while True:
        try:
            frame = question.next_response(tick_s)
        except queue.Empty:
            yield None
            continue
        if "value" in frame.head:
            return frame.head["value"]
        yield frame
