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

from batchai_magics.backends.machines import ssh_connection
from batchai_magics.backends.machines.ssh_connection import (
    ConnectionLostError,
    Response,
    SshConnection,
    remote_error,
)
from batchai_magics.errors import ServiceError, UnreachableError

NOT_IDEMPOTENT = ("link", "symlink", "move", "unlink", "mkdir", "put_new")  # retried with `again`
_AMBIGUOUS_ERRORS = (
    errno.EEXIST,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
)  # misleading if an earlier request raised them, and not the last


class Request(NamedTuple):
    """An operation of the agent with its arguments, and binary data."""

    head: Mapping[str, Any]
    data: bytes

    def wire_head(self, *, is_retry: bool) -> dict[str, Any]:
        """The head to send; it marks a retry if the operation is not idempotent."""
        again = {"again": True} if is_retry and self.head["ask"] in NOT_IDEMPOTENT else {}
        return {**self.head, **again}


class RequestQueue(threading.local):
    """The requests that this thread sends with its next one; `context_count` counts open contexts."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.context_count = 0

    def drain(self) -> list[Request]:
        """Removes and returns the requests, oldest first."""
        requests, self.requests = self.requests, []
        return requests


def combined(requests: Sequence[Request], *, is_retry: bool) -> Request:
    """One request that performs all of these in order."""
    heads = [request.wire_head(is_retry=is_retry) for request in requests]
    if len(heads) == 1:
        return Request(heads[0], requests[0].data)
    batch = [[head, len(request.data)] for head, request in zip(heads, requests, strict=True)]
    return Request({"ask": "several", "each": batch}, b"".join(request.data for request in requests))


def last_response(requests: Sequence[Request], response: Response) -> Response:
    """The response to the last request; raises OSError, with its path, for the first that failed."""
    if len(requests) == 1:
        return response
    results = response.head["value"]
    for request, result in zip(requests, results, strict=False):
        if "failed" in result:
            raise _failure(request, result, is_last=request is requests[-1])
    size = results[-1]["size"]
    return Response(results[-1], response.data[len(response.data) - size :])


def _failure(request: Request, result: Mapping[str, Any], *, is_last: bool) -> OSError:
    """The error of a request; EIO replaces ENOENT and the like of an earlier request than the last."""
    error = remote_error(result["failed"], result["words"])
    if not is_last and error.errno in _AMBIGUOUS_ERRORS:
        error = OSError(errno.EIO, result["words"])
    error.filename = request.head.get("path")
    return error


RESPONSE_TIMEOUT_S = 60.0  # then the connection counts as lost
INITIAL_BACKOFF_S, MAX_BACKOFF_S = 1.0, 30.0
MAX_ATTEMPTS = 3  # of a request, each over a new connection
_MAX_FOLDER_LENGTH = 80  # Unix socket paths are short: ssh adds a name of 40 characters and a suffix


class SshChannel:
    """Requests to a host. `ssh` is the command line of the client, `python` the remote interpreter."""

    def __init__(self, host: str, *, ssh: str = "ssh", python: str = "python3") -> None:
        ssh_connection.check_host(host)
        self.host, self._ssh, self._python = host, shlex.split(ssh), python
        self._lock = threading.Lock()
        self._connection: SshConnection | None = None
        self._failed_attempts, self._retry_at = 0, 0.0
        self._failure: ServiceError | None = None
        self._control_path: str | None = None
        self._queue = RequestQueue()

    def request(
        self, name: str, data: bytes = b"", *, wait_s: float = RESPONSE_TIMEOUT_S, **arguments: Any
    ) -> Response:
        """Performs an operation on the host, after the queued requests of this thread.

        Args:
            name: The operation of the agent.
            data: Binary data of the operation.
            wait_s: Seconds without a response after which the connection counts as lost.
            **arguments: JSON values; the keyword arguments of the operation.

        Raises:
            OSError: The operation, or a queued one before it, failed on the host.
            UnreachableError: The connection was lost in every attempt.
        """
        return self._perform([*self._queue.drain(), Request({"ask": name, **arguments}, data)], wait_s)

    def send(self, name: str, data: bytes = b"", **arguments: Any) -> None:
        """Like `request`, without a result; within `pipelined` it is queued for the next request."""
        request = Request({"ask": name, **arguments}, data)
        if self._queue.context_count:
            self._queue.requests.append(request)
        else:
            self._perform([request], RESPONSE_TIMEOUT_S)

    @contextlib.contextmanager
    def pipelined(self) -> Iterator[None]:
        """A context in which `send` queues; the queue is flushed by the next request and on exit."""
        self._queue.context_count += 1
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError, ServiceError):  # the original error matters more
                self._flush()
            raise
        finally:
            self._queue.context_count -= 1
        self._flush()

    def _flush(self) -> None:
        if queued := self._queue.drain():
            self._perform(queued, RESPONSE_TIMEOUT_S)

    def _perform(self, requests: Sequence[Request], wait_s: float) -> Response:
        for number in range(MAX_ATTEMPTS):
            connection = self._open_connection()
            request = combined(requests, is_retry=number > 0)
            try:
                return last_response(requests, _response(connection, request.head, request.data, wait_s))
            except ConnectionLostError:
                continue
            except OSError as error:
                error.filename = error.filename or requests[-1].head.get("path")
                raise
        raise self._lost_error()

    def request_once(self, name: str, *, wait_s: float, **arguments: Any) -> Response:
        """Performs an operation that runs once even if requested again; retries for `wait_s` seconds."""
        self._flush()
        connection: SshConnection | None = self._open_connection()
        deadline = time.monotonic() + wait_s
        while True:
            try:
                connection = connection or self._open_connection()
                return _response(connection, {"ask": name, **arguments}, b"", wait_s)
            except (ConnectionLostError, UnreachableError) as error:
                if time.monotonic() > deadline:
                    raise self._lost_error() from error
                connection = None
                time.sleep(INITIAL_BACKOFF_S)

    def stream(self, name: str, *, tick_s: float, **arguments: Any) -> Generator[Response | None, None, Any]:
        """Yields the parts of a response, None after `tick_s` seconds without one; returns its value.

        Closing the generator cancels the operation on the host.
        """
        self._flush()
        connection = self._open_connection()
        try:
            request = connection.open({"ask": name, **arguments})
            try:
                while True:
                    try:
                        response = request.next_response(tick_s)
                    except queue.Empty:
                        yield None
                        continue
                    if "value" in response.head:
                        return response.head["value"]
                    yield response
            finally:
                request.close()
                with contextlib.suppress(ConnectionLostError):
                    connection.open({"ask": "end", "which": request.number}).close()
        except ConnectionLostError:
            raise self._lost_error() from None

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        with self._lock:
            if self._connection:
                self._connection.close()
            self._connection = None

    def _open_connection(self) -> SshConnection:
        with self._lock:
            if self._connection and self._connection.is_up:
                return self._connection
            if self._failure and time.monotonic() < self._retry_at:
                raise self._failure.with_traceback(None)
            try:
                self._connection = self._connect()
            except ServiceError as error:
                pause_s = min(MAX_BACKOFF_S, INITIAL_BACKOFF_S * 2**self._failed_attempts)
                self._failed_attempts, self._failure = self._failed_attempts + 1, error
                self._retry_at = time.monotonic() + pause_s
                raise
            self._failed_attempts, self._failure = 0, None
            return self._connection

    def _connect(self) -> SshConnection:
        if self._control_path is None:
            self._control_path = self._find_control_path()
        ready = f"batchai-{secrets.token_hex(8)}"
        arguments = ssh_connection.ssh_arguments(
            self._ssh, self.host, self._control_path, python=self._python, ready=ready
        )
        try:
            return SshConnection(arguments, ready, self._connection_error)
        except FileNotFoundError:
            hint = "Install OpenSSH's client, or name it: setting slurm.ssh_command."
            raise ServiceError(f"there is no program {self._ssh[0]}", code="NoSsh", hint=hint) from None

    def _connection_error(self, stderr: str) -> ServiceError:
        path = self._control_path
        master = ["-o", "ControlMaster=yes", "-o", f"ControlPath={path}", "-fN"] if path else []
        login = shlex.join([*self._ssh, *master, self.host])
        return ssh_connection.connection_error(self.host, stderr, python=self._python, login=login)

    def _lost_error(self) -> UnreachableError:
        text = f"the connection to {self.host} was lost, and lost again"
        return UnreachableError(text, code="HostUnreachable", hint="Try it again.")

    def _find_control_path(self) -> str:
        """The ControlPath to set; empty if the user configured one, or it is not supported."""
        try:
            line = [*self._ssh, "-G", "--", self.host]
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return ""
        if os.name != "posix" or ssh_connection.has_control_path(done.stdout):
            return ""
        return str(_socket_folder() / "%C")


def _socket_folder() -> Path:
    """A private folder whose path is short enough for a Unix socket in it."""
    user = os.getuid()
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        folder = Path(base or "/tmp") / f"batchai-ssh-{user}"
        if len(str(folder)) > _MAX_FOLDER_LENGTH:
            continue
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode) and status.st_uid == user and not status.st_mode & 0o077:
            return folder
    return Path(tempfile.mkdtemp(prefix="batchai-ssh-", dir="/tmp"))


def _response(connection: SshConnection, head: Mapping[str, Any], data: bytes, wait_s: float) -> Response:
    request = connection.open(head, data)
    try:
        return request.next_response(wait_s)
    except queue.Empty:
        connection.close()
        raise ConnectionLostError from None
    finally:
        request.close()
