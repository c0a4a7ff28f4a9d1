"""The backend's connection to Ray: a program in a process of its own, which speaks JSON over pipes.

Ray aborts a process whose cluster disappears, and prints what it likes: neither may happen to a kernel.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.backends.node.node_programs import start_words
from batchai_magics.backends.ray.node.cluster import RayNode
from batchai_magics.backends.ray.node.run_files import Session
from batchai_magics.backends.ray.settings import RaySettings
from batchai_magics.errors import BatchAIError, CapabilityError, ServiceError

DRIVER = "batchai_magics.backends.ray.node.driver"
ANSWER_S = 10.0  # timeout of a response
START_S = 30.0  # how long the program may take to connect, or to start the runs that are due
REFUSED_S = 10.0  # pause before another connection is tried after a failed one
END_S = 90.0  # how long the program may take to end: actors that it has started must get their variables
UNAVAILABLE = "RayUnavailable"


class RayGateway:
    """Sends requests to the program, which is started on first use; `programs` returns its folder."""

    def __init__(self, settings: RaySettings, home: Path, programs: Callable[[], Path]) -> None:
        self._settings, self._home, self._programs = settings, home, programs
        self._lock = threading.Lock()
        self._program: subprocess.Popen[str] | None = None
        self._refusal, self._refused = BatchAIError(""), -REFUSED_S

    def connect(self) -> None:
        """Connects to the cluster, unless it is connected.

        Raises:
            CapabilityError: There is no Ray here, or it has another version than the cluster.
            ServiceError: No cluster answers.
        """
        with self._lock:
            self._refused = -REFUSED_S
            self._running()

    def nodes(self) -> Sequence[RayNode]:
        """The nodes of the cluster that are alive; ServiceError if it does not answer."""
        return [RayNode(**node) for node in self._ask("nodes")]

    def actors(self) -> Collection[str]:
        """The names of the supervising actors; ServiceError if the cluster does not answer."""
        return {*self._ask("actors")}

    def session(self) -> Session:
        """The cluster; ServiceError if it does not answer."""
        return Session(*self._ask("session"))

    def reconcile(self) -> None:
        """Starts the runs that can start, and records the ends of lost ones."""
        self._ask("reconcile", timeout_s=START_S)

    def wake(self, names: Sequence[str]) -> None:
        """Makes supervising actors read requests at once; otherwise, they do so within a second."""
        with contextlib.suppress(BatchAIError):
            self._ask("wake", [*names])

    def command(self, module: str, arguments: Sequence[str]) -> list[str]:
        """The command that runs a module's `main` with Ray: `arguments` follow the address of the cluster."""
        python = self._settings.ray_python or sys.executable
        words = start_words(python, module, self._programs(), section="ray", has_packages=True)
        return [*words, self._settings.address, *arguments]

    def close(self) -> None:
        """Ends the program; the actors that it has started keep running."""
        with self._lock:
            if program := self._program:
                self._program = None
                _end(program)

    def _ask(self, *request: object, timeout_s: float = ANSWER_S) -> Any:
        """The answer to a request; ServiceError if the cluster does not answer."""
        with self._lock:
            program = self._running()
            try:
                return _result(_exchange(program, request, timeout_s))
            except (OSError, EOFError) as error:
                self._program = None
                program.kill()
                _end(program)
                hint = "Ask again when the cluster is back; jobs that were lost with it are then reported."
                refusal = ServiceError("Ray does not answer", code=UNAVAILABLE, hint=hint)
                self._refusal, self._refused = refusal, time.monotonic()
                raise refusal from error

    def _running(self) -> subprocess.Popen[str]:
        """The program, connected; raises the error of the last connection if that failed just now."""
        if self._program:
            if self._program.poll() is None:
                return self._program
            _end(self._program)  # it was killed
            self._program = None
        if time.monotonic() - self._refused < REFUSED_S:
            raise self._refusal.with_traceback(None)
        try:
            self._program = self._started()
        except BatchAIError as refusal:
            self._refusal, self._refused = refusal, time.monotonic()
            raise
        return self._program

    def _started(self) -> subprocess.Popen[str]:
        """The program, started and connected."""
        with contextlib.ExitStack() as stack:
            try:
                words = self.command(DRIVER, [str(self._home), str(self._programs())])
                log = stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
            except OSError as error:  # a read-only home without the programs, or a full disk
                text = f"the program that connects to Ray cannot be started: {error}"
                raise ServiceError(
                    text, code=UNAVAILABLE, hint="Free some space, or choose a home that you can write."
                ) from error
            try:
                program = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,  # Ctrl-C is the kernel's
                )
            except OSError as error:
                text = f"setting ray.ray_python: {words[0]} cannot be run: {error.strerror}"
                raise CapabilityError(text, code="NoRay", hint="Name the Python that has Ray.") from None
            try:
                _result(_exchange(program, None, START_S))
            except BatchAIError:
                _end(program)
                raise
            except (OSError, EOFError) as error:
                program.kill()
                _end(program)
                log.seek(0)
                output = log.read().strip() or str(error) or "nothing"
                *_, last = lines = output.splitlines()
                text = f"the program that connects to Ray did not do so: {last}"
                raise ServiceError(text, code=UNAVAILABLE, hint="\n".join(lines[-10:])) from error
        return program


def _end(program: subprocess.Popen[str]) -> None:
    """Closes the program's input, and waits for its end."""
    assert program.stdin
    assert program.stdout
    with contextlib.suppress(OSError):
        program.stdin.close()
    try:
        program.wait(END_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
    program.stdout.close()


def _exchange(
    program: subprocess.Popen[str], request: Sequence[object] | None, timeout_s: float
) -> dict[str, Any]:
    """The program's answer to a request, or its greeting.

    Raises:
        EOFError: The program has ended.
        OSError: The request cannot be sent, or was not answered in time.
    """
    assert program.stdin
    assert program.stdout
    if request is not None:
        program.stdin.write(json.dumps(request) + "\n")
        program.stdin.flush()
    if not select.select([program.stdout], [], [], timeout_s)[0]:
        raise TimeoutError(f"no answer in {timeout_s:g} s")
    line = program.stdout.readline()
    if not line:
        raise EOFError
    answer: dict[str, Any] = json.loads(line)
    return answer


def _result(answer: dict[str, Any]) -> Any:
    """The result in an answer; raises the error that the program reports."""
    if "refusal" in answer:
        code, text, hint = answer["refusal"]
        kind = ServiceError if code == UNAVAILABLE else CapabilityError
        raise kind(text, code=code, hint=hint)
    if "error" in answer:
        raise ServiceError(f"Ray reports {answer['error']}", code=UNAVAILABLE)
    return answer["result"]
