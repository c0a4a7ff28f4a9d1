"""Runs one process of a job, as the service has started it: prepares the node, runs, records the exit."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from batchai_magics.backends.azureml.node.job_variables import RUN, SPEC, unpacked
from batchai_magics.backends.azureml.node.node_setup import SetupBarrier, write_records
from batchai_magics.backends.azureml.node.process_identity import (
    ProcessIdentity,
    cores,
    environment,
    identity_of,
)
from batchai_magics.backends.node.outcome import STOP_IF, stopped, time_limit_reached
from batchai_magics.backends.node.ranks import machine_recording, termination
from batchai_magics.backends.node.ranks.leftovers import MARK
from batchai_magics.backends.node.ranks.rank import RSS_UNIT, die_with_parent
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.telemetry_sampler import sampler
from batchai_magics.backends.node.ranks.temporary_folder import ROOT, TMPDIR, TemporaryFolder, is_given
from batchai_magics.backends.node.ranks.trainer_file_log import trainer_file_log
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import TRAINER_LOG, Plan, ProcessExit

TICK_S = 1.0
STOPPED_CODE = 143
_READ_SIZE = 1 << 16


def run(folder: str, arguments: Sequence[str]) -> int:
    """Runs the process of this rank; returns its exit code.

    Args:
        folder: The folder in which the service has started it.
        arguments: `in:ID=PATH` and `out:ID=PATH`: where the service has mounted inputs and outputs.
    """
    env = dict(os.environ)
    bundle = unpacked(env.pop(RUN))
    env.pop(SPEC, None)
    plan = Plan.from_json(bundle["plan"])
    identity = identity_of(env, plan, socket.gethostname())
    bindings = identity.bindings(plan, folder, cores())
    plan = plan.resolved(bindings)
    paths = dict(argument.split("=", 1) for argument in arguments)
    env |= {f"AZ_BATCHAI_INPUT_{name[3:]}": path for name, path in paths.items() if name.startswith("in:")}
    setup = SetupBarrier(Path(folder), bundle["share"], bundle["mounts"], paths)
    preparation = Plan.from_json(bundle["preparation"]).resolved(bindings) if bundle["preparation"] else None
    temporary = TemporaryFolder()
    if not is_given(plan, plan.node_of(plan.processes[identity.rank])):
        env[TMPDIR] = temporary.path(env.get(TMPDIR) or ROOT)
    ours = partial(_process_env, env, plan, identity, folder)
    try:
        failure = setup.once(lambda: _prepare(setup, plan, preparation, ours(), identity, bundle["records"]))
        if failure:
            return _fail(Path(folder), failure)
        return RankRun(plan, identity, ours(), _watch(bundle, identity.rank, plan), Path(folder)).run()
    finally:
        temporary.remove()


def _process_env(
    env: Mapping[str, str], plan: Plan, identity: ProcessIdentity, folder: str
) -> dict[str, str]:
    process = plan.processes[identity.rank]
    of_process = {**process.env, MARK: plan.guid}
    inputs = {name: value for name, value in env.items() if name.startswith("AZ_BATCHAI_INPUT_")}
    return {**environment(env, plan.node_of(process).env, of_process, folder), **inputs}


def _prepare(
    setup: SetupBarrier,
    plan: Plan,
    preparation: Plan | None,
    env: Mapping[str, str],
    identity: ProcessIdentity,
    records: Mapping[str, str],
) -> Outcome | None:
    """What the first process of a node does for all of them."""
    setup.make_folders(plan)
    Path(env["AZ_BATCHAI_MPI_HOST_FILE"]).write_text("".join(f"{host}\n" for host in identity.addresses))
    if identity.node == 0:
        write_records(setup.folder, records)
    failure = setup.directories(plan)
    if failure or preparation is None:
        return failure
    return setup.prepare(preparation, identity.node, env)


def _watch(bundle: Mapping[str, Any], rank: int, plan: Plan) -> Any:
    """The evaluation of the job's stop conditions; None without any."""
    if not bundle["stop_if"]:
        return None
    from batchai_magics.backends.azureml.node.condition_watch import ConditionWatch  # few jobs need metrics

    return ConditionWatch(bundle, rank, plan)


def _fail(folder: Path, outcome: Outcome) -> int:
    """Writes why the job ends into its record and its log; returns the exit code for the service."""
    print(*(f"batchai: {error['message']}" for error in outcome.errors), sep="\n", flush=True)
    _write(folder, "end.json", outcome._replace(ended=time.time()).to_json())
    return outcome.exit_code or 1


def _write(folder: Path, name: str, text: str) -> None:
    """Writes JSON to a file of the run's logs, atomically: the service uploads files as they appear."""
    file, part = folder / "logs/batchai" / name, folder / f"batchai/{os.getpid()}.part"
    file.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(text, encoding="utf-8")
    part.replace(file)


class RankRun:
    """The process of a rank, from start to end."""

    def __init__(
        self, plan: Plan, identity: ProcessIdentity, env: Mapping[str, str], watch: Any, folder: Path
    ) -> None:
        self._plan, self._identity, self._env, self._watch = plan, identity, env, watch
        self._folder, self._process = folder, plan.processes[identity.rank]
        self._failure: Outcome | None = None
        self._numbers = trainer_file_log(_of_first_node(plan)) if identity.rank == 0 else None
        self._kill_at_s = float("inf")

    def run(self) -> int:
        """Runs it to its end; returns its exit code."""
        termination.adopt_orphans()
        pipe = SignalPipe()
        self._deadline_s = time.monotonic() + self._plan.limits.wall_s
        with self._start() as child:
            recorder = machine_recording.start(self._plan, rank=self._identity.rank)
            end = self._follow(child, pipe)
        if self._numbers:
            self._numbers.close()
        termination.kill(partial(termination.live_descendants, {recorder} if recorder else ()))
        unchecked = {"unchecked": self._unchecked()} if self._watch else {}
        _write(self._folder, f"exits/{self._identity.rank}.json", json.dumps({**end._asdict(), **unchecked}))
        if self._failure:
            _fail(self._folder, self._failure)
            return STOPPED_CODE
        return end.exit_code or 0

    def _start(self) -> subprocess.Popen[bytes]:
        """Starts it with this program's own output, which the service keeps; through a pipe if it is read."""
        node = self._plan.node_of(self._process)
        return subprocess.Popen(
            ["/bin/bash", "-c", self._process.command],
            cwd=node.folder,
            env={**self._env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if self._watch else None,
            stderr=subprocess.STDOUT if self._watch else None,
            close_fds=False,  # launchers of MPI hand descriptors down
            preexec_fn=_become_own_group,
        )

    def _follow(self, child: subprocess.Popen[bytes], pipe: SignalPipe) -> ProcessExit:
        """Waits for the end: forwards signals and output, samples, and ends it when it has to stop."""
        sampling = sampler(self._plan, first_rank=self._identity.rank)
        selector = selectors.DefaultSelector()
        selector.register(pipe, selectors.EVENT_READ)
        if child.stdout:
            selector.register(child.stdout, selectors.EVENT_READ)
        while (end := self._poll_exit(child)) is None:
            ready = [key.fileobj for key, _ in selector.select(TICK_S)]
            if child.stdout in ready and not self._forward(child):
                selector.unregister(child.stdout)
            if signal.SIGTERM in pipe.read():
                self._stop(child)
            self._read_numbers()
            self._check(child)
            if sampling:
                sampling.sample_if_due({self._identity.rank: child.pid})
        while child.stdout and self._forward(child):
            continue
        if sampling:
            sampling.close()
        return end

    def _read_numbers(self) -> None:
        """Has numbers that trainers write into files join those that are printed."""
        if self._numbers:
            self._numbers.update_if_due()
            self._check_numbers()

    def _check_numbers(self) -> None:
        if self._watch:
            self._watch.read_file(Path(self._plan.output.stdout.path).with_name(TRAINER_LOG))

    def _unchecked(self) -> Any:
        """What the stop conditions have missed, with what was read at the end."""
        if self._numbers:
            self._check_numbers()
        return self._watch.unchecked

    def _check(self, child: subprocess.Popen[bytes]) -> None:
        """Ends the process for its time limit or a stop condition, and kills it if it does not end."""
        now_s = time.monotonic()
        reason = self._watch.reason if self._watch and not self._failure else ""
        if reason:
            self._end(child, stopped(f"{STOP_IF}{reason.removeprefix(STOP_IF)}"))
        elif now_s >= self._deadline_s and not self._failure:
            self._end(child, time_limit_reached(self._plan.limits))
        if now_s >= self._kill_at_s:
            _signal(child, signal.SIGKILL)

    def _end(self, child: subprocess.Popen[bytes], outcome: Outcome) -> None:
        self._failure = outcome
        self._stop(child)

    def _stop(self, child: subprocess.Popen[bytes]) -> None:
        if self._kill_at_s == float("inf"):
            self._kill_at_s = time.monotonic() + self._plan.limits.grace_s
            _signal(child, signal.SIGTERM)

    def _forward(self, child: subprocess.Popen[bytes]) -> bool:
        """Copies output to the service, and to the stop conditions; False at its end."""
        assert child.stdout
        data = os.read(child.stdout.fileno(), _READ_SIZE)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]
        if data:
            self._watch.feed(data)
        return bool(data)

    def _poll_exit(self, child: subprocess.Popen[bytes]) -> ProcessExit | None:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if not pid:
            return None
        code = child.returncode = os.waitstatus_to_exitcode(status)
        _signal(child, signal.SIGKILL)  # what it has left in its group
        code = 128 - code if code < 0 else code
        name, peak_bytes = self._identity.node_name, usage.ru_maxrss * RSS_UNIT
        return ProcessExit(self._identity.rank, name, code, time.time(), peak_bytes)


def _of_first_node(plan: Plan) -> Plan:
    """The part of the plan on the first node: others' files would have the same names."""
    return plan._replace(nodes=plan.nodes[:1], processes=tuple(p for p in plan.processes if not p.node))


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):  # the whole group has ended
        return


def _become_own_group() -> None:
    """Runs in the child before its program: its own group, killed when this program dies."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGKILL)
