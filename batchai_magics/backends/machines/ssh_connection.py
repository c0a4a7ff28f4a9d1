"""One `ssh` process with the agent on its host: requests go out, responses come back in any order."""

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

LOGIN_TIMEOUT_S = 60.0  # for the profile of the login shell
EXIT_TIMEOUT_S = 2.0


class Response(NamedTuple):
    """A response, or a part of one that is streamed."""

    head: Mapping[str, Any]
    data: bytes


class ConnectionLostError(Exception):
    """The connection closed before the response arrived."""


class SshConnection:
    """An open connection that threads may share. `make_error` makes an error of the stderr of `ssh`."""

    def __init__(self, arguments: list[str], ready: str, make_error: Callable[[str], ServiceError]) -> None:
        self._make_error = make_error
        self._numbers = itertools.count(1)
        self._pending: dict[int, queue.SimpleQueue[Response | None]] = {}
        self._lock = threading.Lock()
        self.is_up = True
        # Not a pipe: a ControlPersist master would keep it open.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 open as long as the connection
        try:
            self._ssh = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,  # not interrupted by Ctrl-C
            )
        except OSError:
            self._stderr.close()
            raise
        self._frames = self._handshake(ready)
        threading.Thread(target=self._receive, daemon=True, name="batchai-ssh").start()

    def open(self, head: Mapping[str, Any], data: bytes = b"") -> PendingRequest:
        """Sends a request; raises ConnectionLostError if the connection has closed."""
        number = next(self._numbers)
        responses: queue.SimpleQueue[Response | None] = queue.SimpleQueue()
        with self._lock:
            if not self.is_up:
                raise ConnectionLostError
            self._pending[number] = responses
        try:
            self._frames.send({**head, "number": number}, data)
        except (OSError, ValueError):
            self.close()
            raise ConnectionLostError from None
        return PendingRequest(self, number, responses)

    def forget(self, number: int) -> None:
        """Discards the response to a request."""
        with self._lock:
            self._pending.pop(number, None)

    def close(self) -> None:
        """Closes it; the agent completes the requests it has received."""
        with self._lock:
            self.is_up = False
            pending, self._pending = self._pending, {}
        for responses in pending.values():
            responses.put(None)
        with contextlib.suppress(OSError):
            _pipe(self._ssh.stdin).close()
        try:
            self._ssh.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        self._stderr.close()

    def _handshake(self, ready: str) -> FrameStream:
        """Waits for the bootstrap program, and sends it the agent."""
        mark = secrets.token_bytes(MARK_BYTES)
        overdue = threading.Event()
        timer = threading.Timer(LOGIN_TIMEOUT_S, self._kill_overdue, [overdue])
        timer.daemon = True
        timer.start()
        try:
            reader, writer = _pipe(self._ssh.stdout), _pipe(self._ssh.stdin)
            while (line := reader.readline()).strip() != ready.encode():
                if not line:
                    raise OSError("nobody is there")
            writer.write(ssh_command.agent_program(mark))
            writer.flush()
        except OSError as error:
            raise self._start_failure(is_overdue=overdue.is_set()) from error
        finally:
            timer.cancel()
        return FrameStream(reader, writer, mark)

    def _kill_overdue(self, overdue: threading.Event) -> None:
        overdue.set()
        self._ssh.kill()

    def _start_failure(self, *, is_overdue: bool) -> ServiceError:
        self._ssh.wait()
        self._stderr.seek(0)
        stderr = self._stderr.read().decode(errors="replace")
        self.close()
        _pipe(self._ssh.stdout).close()
        if is_overdue:
            limit = f"{LOGIN_TIMEOUT_S:g} s"
            stderr += f"\nits login shell is not done after {limit}: does its profile wait for something?"
        return self._make_error(stderr)

    def _receive(self) -> None:
        try:
            while True:
                head, data = self._frames.receive()
                with self._lock:
                    responses = self._pending.get(head["number"])
                if responses:
                    responses.put(Response(head, data))
        except (BrokenStreamError, OSError, ValueError):
            self.close()
        finally:
            _pipe(self._ssh.stdout).close()


class PendingRequest:
    """A request that was sent."""

    def __init__(
        self, connection: SshConnection, number: int, responses: queue.SimpleQueue[Response | None]
    ) -> None:
        self._connection, self.number, self._responses = connection, number, responses

    def next_response(self, timeout_s: float) -> Response:
        """The next part of the response.

        Args:
            timeout_s: Seconds to wait; 0 waits without limit.

        Raises:
            queue.Empty: None arrived within `timeout_s`.
            ConnectionLostError: None will arrive.
            OSError: The operation failed on the host.
        """
        response = self._responses.get(timeout=timeout_s or None)
        if response is None:
            raise ConnectionLostError
        if "failed" in response.head:
            raise remote_error(response.head["failed"], response.head["words"])
        return response

    def close(self) -> None:
        """Stops waiting for the response."""
        self._connection.forget(self.number)


def remote_error(name: str, message: str) -> OSError:
    """An error of the host, by the name of its errno: the numbers differ between systems."""
    return OSError(getattr(errno, name, errno.EIO), message)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe, "both are pipes"
    return pipe
