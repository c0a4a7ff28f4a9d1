"""The process of a rank, with the output of this program, which the service has started and keeps."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from batchai_magics.backends.azureml.node.node_setup import write_log_file
from batchai_magics.backends.azureml.node.process_identity import ProcessIdentity
from batchai_magics.backends.node.outcome import NO_FAULT, Fault
from batchai_magics.backends.node.ranks import machine_recording, termination
from batchai_magics.backends.node.ranks.rank import RSS_UNIT, die_with_parent
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.telemetry_sampler import sampler
from batchai_magics.backends.node.ranks.trainer_file_log import trainer_file_log
from batchai_magics.backends.node.restarts import EndWarning
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import TRAINER_LOG, Plan, ProcessExit

_READ_SIZE = 1 << 16


class ServiceProcess:
    """The process of one rank; `watch` evaluates the job's stop conditions, if it has any."""

    notes: Sequence[str] = ()
    fault: Fault = NO_FAULT
    is_over = False  # the service ends the other processes of a job

    def __init__(
        self,
        plan: Plan,
        identity: ProcessIdentity,
        env: Mapping[str, str],
        *,
        folder: Path,
        signal_pipe: SignalPipe,
        watch: Any,
    ) -> None:
        self._plan, self._identity, self._env, self._folder = plan, identity, env, folder
        self._signal_pipe, self._watch = signal_pipe, watch
        self._numbers = trainer_file_log(_of_first_node(plan)) if identity.rank == 0 else None
        self._sampling = sampler(plan, first_rank=identity.rank)
        self._selector = selectors.DefaultSelector()
        self._selector.register(signal_pipe, selectors.EVENT_READ)
        self._end: ProcessExit | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._end is None

    @property
    def ends(self) -> Collection[ProcessExit]:
        """Its exit, once it has ended."""
        return [self._end] if self._end else []

    def start(self) -> None:
        """Starts it with this program's output; through a pipe if the stop conditions read that."""
        process = self._plan.processes[self._identity.rank]
        self._child = subprocess.Popen(
            ["/bin/bash", "-c", process.command],
            cwd=self._plan.node_of(process).folder,
            env={**self._env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if self._watch else None,
            stderr=subprocess.STDOUT if self._watch else None,
            close_fds=False,  # launchers of MPI hand descriptors down
            preexec_fn=_become_own_group,
        )
        if self._child.stdout:
            self._selector.register(self._child.stdout, selectors.EVENT_READ)
        self._recorder = machine_recording.start(self._plan, rank=self._identity.rank)

    def poll(self, timeout_s: float, /) -> set[int]:
        """Waits up to `timeout_s` for output, its exit or signals; returns the signals received."""
        output = self._child.stdout
        ready = [key.fileobj for key, _ in self._selector.select(timeout_s)]
        if output and output in ready and not self._forward():
            self._selector.unregister(output)
        self._read_numbers()
        if self._sampling:
            self._sampling.sample_if_due({self._identity.rank: self._child.pid})
        self._end = self._end or self._poll_exit()
        while self._end and output and self._forward():
            continue
        return self._signal_pipe.read()

    def warn(self, warning: EndWarning, reason: str) -> None:
        """Nothing: the service announces no end."""

    def end(self, *, patience_s: float, grace_s: float, is_hurried: Callable[[], bool]) -> None:
        """Ends it, and kills it if it has not exited after its grace."""
        if self.is_running:
            self._send(signal.SIGTERM)
        deadline_s = time.monotonic() + grace_s
        while self.is_running:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                self._send(signal.SIGKILL)
            self.poll(max(0.1, min(1.0, left_s)))

    def outcome(self) -> Outcome:
        """Its exit code; the service knows of the others."""
        return Outcome(self._end.exit_code if self._end else None)

    def close(self) -> None:
        """Kills what it has left behind, and records its exit with what the stop conditions have missed."""
        if self._sampling:
            self._sampling.close()
        if self._numbers:
            self._numbers.close()
        termination.kill(partial(termination.live_descendants, {self._recorder} if self._recorder else ()))
        if self._end:
            self._check_numbers()
            unchecked = {"unchecked": self._watch.unchecked} if self._watch else {}
            text = json.dumps({**self._end._asdict(), **unchecked})
            write_log_file(self._folder, f"exits/{self._identity.rank}.json", text)

    def _read_numbers(self) -> None:
        """Has numbers that trainers write into files join those that are printed."""
        if self._numbers:
            self._numbers.update_if_due()
            self._check_numbers()

    def _check_numbers(self) -> None:
        if self._watch and self._numbers:
            self._watch.read_file(Path(self._plan.output.stdout.path).with_name(TRAINER_LOG))

    def _forward(self) -> bool:
        """Copies output to the service, and to the stop conditions; False at its end."""
        assert self._child.stdout
        data = os.read(self._child.stdout.fileno(), _READ_SIZE)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]
        if data:
            self._watch.feed(data)
        return bool(data)

    def _poll_exit(self) -> ProcessExit | None:
        pid, status, usage = os.wait4(self._child.pid, os.WNOHANG)
        if not pid:
            return None
        code = self._child.returncode = os.waitstatus_to_exitcode(status)
        self._send(signal.SIGKILL)  # what it has left in its group
        code = 128 - code if code < 0 else code
        name, peak_bytes = self._identity.node_name, usage.ru_maxrss * RSS_UNIT
        return ProcessExit(self._identity.rank, name, code, time.time(), peak_bytes)

    def _send(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._child.pid, number)
        except (ProcessLookupError, PermissionError):  # the whole group has ended
            return


def _of_first_node(plan: Plan) -> Plan:
    """The part of the plan on the first node: others' files would have the same names."""
    return plan._replace(nodes=plan.nodes[:1], processes=tuple(p for p in plan.processes if not p.node))


def _become_own_group() -> None:
    """Runs in the child before its program: its own group, killed when this program dies."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGKILL)
