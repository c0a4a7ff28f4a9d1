"""An `ssh` process with the agent on its host: command line, requests, responses in any order, errors."""

from __future__ import annotations

import base64
import contextlib
import errno
import itertools
import queue
import re
import secrets
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import IO, Any, NamedTuple

from batchai_magics.backends.machines.agent_frames import MARK_BYTES, BrokenStreamError, FrameStream
from batchai_magics.errors import CapabilityError, ServiceError, UnreachableError, UsageError

CONNECT_TIMEOUT_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT = 15, 15, 3
CONTROL_PERSIST_S = 60  # an idle master connection stays open for the next kernel
_PACKAGE = "batchai_magics.backends.machines"
_AGENT_MODULES = ("agent_frames", "agent_files", "agent_main")  # each may import those before it
_OPTIONS = {
    "BatchMode": "yes",  # never prompt
    "ConnectTimeout": CONNECT_TIMEOUT_S,
    "ServerAliveInterval": KEEPALIVE_INTERVAL_S,
    "ServerAliveCountMax": KEEPALIVE_COUNT,
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "RequestTTY": "no",
    "RemoteCommand": "none",
    "Compression": "yes",
    "LogLevel": "ERROR",
}
# Announces itself with the `ready` line, then reads the agent from standard input and runs it.
_BOOTSTRAP = """
import os, sys
sys.version_info >= (3, 6) or sys.exit("batchai: too old: Python %d.%d" % sys.version_info[:2])
out, asking = sys.stdout.buffer, os.fdopen(0, "rb", 0)
out.write(b"\\n{ready}\\n")
out.flush()
size = int(asking.readline())
text = b""
while len(text) < size:
    text += asking.read(size - len(text)) or sys.exit("batchai: nothing came")
exec(compile(text, "batchai", "exec"))
"""
_AGENT = """
import types
for name, text in {modules!r}:
    module = types.ModuleType(name)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules[{main!r}].main(asking, {mark!r})
"""


def check_host(host: str) -> None:
    """Raises UsageError for a host that `ssh` could take for an option."""
    if host.startswith("-") or re.search(r"\s", host):
        hint = "Write a host of ~/.ssh/config, or user@host."
        raise UsageError(f"setting slurm.ssh: {host!r} is not a host", hint=hint)


def ssh_arguments(ssh: Sequence[str], host: str, control_path: str, *, python: str, ready: str) -> list[str]:
    """The command line of `ssh`, multiplexed at `control_path` (empty: as the user configured it)."""
    options = {name: str(value) for name, value in _OPTIONS.items()}
    if control_path:
        options |= {
            "ControlMaster": "auto",
            "ControlPath": control_path,
            "ControlPersist": str(CONTROL_PERSIST_S),
        }
    option_words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    # For any login shell: bash reads the profile and starts Python.
    code = base64.b64encode(_BOOTSTRAP.format(ready=ready).encode()).decode()
    run = f'import base64; exec(base64.b64decode("{code}"))'
    start = f"exec {shlex.quote(python)} -I -u -c {shlex.quote(run)} <&3 >&4 3<&- 4>&-"
    shell = f"exec 3<&0 4>&1; exec bash -lc {shlex.quote(start)} </dev/null >&2"
    return [*ssh, *option_words, "--", host, f"exec sh -c {shlex.quote(shell)}"]


def agent_program(mark: bytes) -> bytes:
    """The source of the agent, preceded by its length."""
    modules = [(_PACKAGE.rsplit(".", count)[0], "") for count in (2, 1, 0)]
    for name in _AGENT_MODULES:
        source = resources.files(_PACKAGE).joinpath(f"{name}.py").read_text(encoding="utf-8")
        modules.append((f"{_PACKAGE}.{name}", source))
    text = _AGENT.format(modules=modules, main=f"{_PACKAGE}.agent_main", mark=mark).encode()
    return b"%d\n%s" % (len(text), text)


_KEY_CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"
_KEY_UNKNOWN = "Host key verification failed"
_LOGIN_REFUSED = re.compile(r"Permission denied|Too many authentication failures|no mutual signature")
_UNREACHABLE = re.compile(
    r"Could not resolve hostname|Connection (?:refused|timed out|closed|reset)|No route to host"
    r"|Network is unreachable|Operation timed out|Broken pipe|not responding|kex_exchange|Temporary failure"
)
_NO_PYTHON = re.compile(
    r"python\S*: (?:command )?not found|: (?:cannot execute|No such file)|too old: Python"
)


def connection_error(host: str, stderr: str, *, python: str, login: str) -> ServiceError:
    """The error for a failed connection, from ssh's stderr.

    `login` is the command line that logs in, for hints.
    """
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    if "Could not resolve hostname" in stderr:
        hint = f"Check slurm.ssh, or name it in ~/.ssh/config: `Host {host}` and its HostName."
        return UnreachableError(f"there is no host {host!r}: {last}", code="HostUnknown", hint=hint)
    if _KEY_CHANGED in stderr:
        text = f"{host} has another host key than before"
        suggestions = (line for line in lines if line.startswith("ssh-keygen "))  # by some, such as Debian's
        forget = next(suggestions, "remove it from known_hosts")
        hint = f"Ask its administrator whether it was changed; if so: {forget}, then {login} once."
        return ServiceError(text, code="HostKeyChanged", hint=hint)
    if _KEY_UNKNOWN in stderr:
        text = f"the host key of {host} is not known here"
        hint = f"Log in once in a terminal and compare it: {login}"
        return ServiceError(text, code="HostKeyUnknown", hint=hint)
    if _LOGIN_REFUSED.search(stderr):
        text = f"{host} requires interactive authentication: {last}"
        hint = f"Give it a key (ssh-copy-id, ssh-add), or log in once, which is kept for us: {login}"
        return ServiceError(text, code="KeyRefused", hint=hint)
    if _UNREACHABLE.search(stderr):
        return UnreachableError(
            f"{host} cannot be reached: {last}", code="HostUnreachable", hint="Try it again."
        )
    if _NO_PYTHON.search(stderr):
        text = f"there is no Python 3.6 or later called {python!r} at {host}: {last}"
        return CapabilityError(
            text, code="NoPython", hint="Name one that is there: setting slurm.ssh_python."
        )
    hint = f"See what it prints in a terminal: {login}"
    return UnreachableError(f"ssh to {host} ended: {last or 'no message'}", code="HostUnreachable", hint=hint)


def has_control_path(configuration: str) -> bool:
    """Whether the user's own configuration (from `ssh -G`) multiplexes connections."""
    settings = dict(line.partition(" ")[::2] for line in configuration.splitlines())
    return settings.get("controlpath", "none").lower() != "none"


LOGIN_TIMEOUT_S = 60.0  # for the profile of the login shell
EXIT_TIMEOUT_S = 2.0


class Response(NamedTuple):
    """A response, or a part of one that is streamed."""

    head: Mapping[str, Any]
    data: bytes


class ConnectionLostError(Exception):
    """The connection closed before the response arrived."""


class SshConnection:
    """An open connection that threads may share; `make_error` builds the error from the stderr of `ssh`."""

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
        """Closes the connection; the agent completes the requests it has received."""
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
            writer.write(agent_program(mark))
            writer.flush()
        except OSError as error:
            self._ssh.wait()
            self._stderr.seek(0)
            stderr = self._stderr.read().decode(errors="replace")
            self.close()
            _pipe(self._ssh.stdout).close()
            if overdue.is_set():
                limit = f"{LOGIN_TIMEOUT_S:g} s"
                stderr += f"\nits login shell is not done after {limit}: does its profile wait for something?"
            raise self._make_error(stderr) from error
        finally:
            timer.cancel()
        return FrameStream(reader, writer, mark)

    def _kill_overdue(self, overdue: threading.Event) -> None:
        overdue.set()
        self._ssh.kill()

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
    """An OSError of the host, by the name of its errno: the numbers differ between systems."""
    return OSError(getattr(errno, name, errno.EIO), message)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe, "both are pipes"
    return pipe
