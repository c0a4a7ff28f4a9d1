"""Runs the program that watches a run, and signals it when the run is over."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.ranks.rank import die_with_parent
from batchai_magics.launch.outcome import RunAttempt
from batchai_magics.records import record_files
from batchai_magics.untrusted_files import read_json

WATCH = "batchai_magics.backends.folders.run_watch"  # whose `main` watches a run
STOP = "stop: "  # prefix of the line by which the program requests the end; the rest is the reason as JSON
_READ_SIZE = 1 << 16
_MAX_STARTS = 3  # of the program during one attempt of a run
_CONCURRENT, _NODE_TIMEOUT_S = 16, 60.0  # nodes that are asked at once, and how long one may take to answer
_END_S = 5.0  # for the job to end after a program that was told to end: it may exit first


class WatchProgram(NamedTuple):
    """The program that watches a run: the words that start it, and the log of its errors.

    `attempts` are those of the run, the current one last. Each of `stack_commands` runs `stack_dumps` on one
    node; without any, all nodes are on this machine.
    """

    start: Sequence[str]
    log: Path
    attempts: Sequence[RunAttempt]
    stack_commands: Sequence[Sequence[str]] = ()

    def command(self, root: Path) -> list[str]:
        """The command that watches the run in this folder."""
        times = [(len(attempt.nodes), attempt.started, attempt.ended) for attempt in self.attempts]
        return [*self.start, str(root), json.dumps(times), *map(shlex.join, self.stack_commands)]


class WatchProcess:
    """The program that watches a run; it is restarted if it dies before the run is over.

    A program that exports metrics is not restarted, since a restarted one reads the logs from the start:
    conditions and notifications tolerate that, but each number would be exported twice. `lost` is called
    once, with the reason why the run is no longer watched, a sentence without its period.
    """

    def __init__(
        self,
        program: WatchProgram,
        files: JobLayout,
        env: Mapping[str, str] | None = None,
        *,
        lost: Callable[[str], None],
    ) -> None:
        """Starts it for the run of these files."""
        self._args, self._log, self._env, self._lost = program.command(files.root), program.log, env, lost
        self._subject = "the conditions of this job are" if files.stop_if.exists() else "this job is"
        self._starts_left = 1 if _has_exports(files.records / record_files.WATCH) else _MAX_STARTS
        self._ended_s: float | None = None
        self._is_lost = False
        self._printed = b""
        self._start()

    def check(self) -> str:
        """Why the run is to be stopped, empty if it is not; restarts the program if it has died."""
        pipe, readable = self._child.stdout, select.poll()  # `select.select` takes no descriptor above 1023
        assert pipe
        readable.register(pipe, select.POLLIN)
        while readable.poll(0) and (data := os.read(pipe.fileno(), _READ_SIZE)):
            self._printed += data
        self._restart_if_dead()
        lines = self._printed.decode().splitlines()
        return next((json.loads(line.removeprefix(STOP)) for line in lines if line.startswith(STOP)), "")

    def close(self) -> list[str]:
        """Tells the program that the job has ended; returns a sentence for each thing that failed."""
        has_died = self._child.poll() is not None
        self._child.terminate()
        lines = (self._printed + self._child.communicate()[0]).decode().splitlines()
        notes = [line for line in lines if line and not line.startswith(STOP)]
        code = self._child.wait()
        is_early = self._is_lost or (has_died and code not in _ENDED_AS_TOLD)
        return [*notes, self._problem(code)] if is_early else notes

    def _restart_if_dead(self) -> None:
        """Restarts the program if it has died, or reports why the run is no longer watched."""
        code = self._child.poll()
        if code is None or self._is_lost:
            return
        now_s, earlier = time.monotonic(), self._child
        self._ended_s = now_s if self._ended_s is None else self._ended_s
        if code in _ENDED_AS_TOLD and now_s - self._ended_s < _END_S:
            return
        if self._starts_left:
            with contextlib.suppress(OSError):  # no process can be started: the run continues unwatched
                self._start()
        if self._child is earlier:
            self._is_lost = True
            self._lost(self._problem(code))
        elif earlier.stdout:
            earlier.stdout.close()

    def _start(self) -> None:
        self._starts_left -= 1
        self._ended_s = None
        with self._log.open("ab") as stream:
            self._child = subprocess.Popen(
                self._args,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=self._env,
                preexec_fn=_prepare,
            )

    def _problem(self, code: int) -> str:
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        return f"{self._subject} no longer watched: the watcher {how}, see {self._log}"


_ENDED_AS_TOLD = (0, -signal.SIGTERM)


def _has_exports(watch: Path) -> bool:
    try:
        return bool(read_json(watch).get("exports"))
    except (OSError, ValueError, AttributeError):  # the program itself reports a malformed file
        return False


def _signal_name(number: int) -> str:
    """The name of a signal, such as `SIGKILL`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end_signal() -> threading.Event:
    """In the program: an event that is set when the job has ended."""
    has_ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: has_ended.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    return has_ended


def stack_lines_from(commands: Iterable[Sequence[str]]) -> list[str]:
    """In the program: the output of commands that run `stack_dumps` on other nodes, run concurrently."""
    from concurrent.futures import ThreadPoolExecutor  # only the program itself needs threads

    with ThreadPoolExecutor(_CONCURRENT) as threads:
        return [*chain.from_iterable(threads.map(_stack_lines_from, commands))]


def _stack_lines_from(command: Sequence[str]) -> list[str]:
    """The lines that a command prints before its timeout; its input stays open until it ends."""
    reader, writer = os.pipe()
    try:
        printed = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_NODE_TIMEOUT_S, stdin=reader
        ).stdout
    except subprocess.TimeoutExpired:
        return []
    finally:
        os.close(reader)
        os.close(writer)
    return [line for line in printed.splitlines() if line.startswith("{")]


def _prepare() -> None:
    """Makes the program die with this process, and keeps a signal pending while it loads."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    die_with_parent(signal.SIGKILL)
