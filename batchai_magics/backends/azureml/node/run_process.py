"""Runs one process of a job, as the service has started it: prepares the node, runs, records the exit."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.azureml.node.job_variables import RUN, SPEC, unpacked
from batchai_magics.backends.azureml.node.node_setup import SetupBarrier, write_log_file, write_records
from batchai_magics.backends.azureml.node.process_identity import (
    ProcessIdentity,
    cores,
    environment,
    identity_of,
)
from batchai_magics.backends.azureml.node.service_process import ServiceProcess
from batchai_magics.backends.folders.layout import JobLayout
from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.launcher import (
    AttemptFiles,
    Deadline,
    Launcher,
    PlanProcesses,
    Report,
)
from batchai_magics.backends.node.outcome import STOP_IF, TERMINATE, stopped
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import MARK
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.temporary_folder import ROOT, TMPDIR, TemporaryFolder, is_given
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan

if TYPE_CHECKING:  # few jobs need metrics
    from batchai_magics.backends.azureml.node.condition_watch import ConditionWatch

STOPPED_CODE = 143


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
    termination.adopt_orphans()
    temporary = TemporaryFolder()
    if not is_given(plan, plan.node_of(plan.processes[identity.rank])):
        env[TMPDIR] = temporary.path(env.get(TMPDIR) or ROOT)
    ours = partial(_process_env, env, plan, identity, folder)
    try:
        failure = setup.once(lambda: _prepare(setup, plan, ours(), identity, bundle["records"]))
        if failure:
            return _fail(Path(folder), failure)
        watch = _watch(bundle, identity.rank, plan)
        launcher, report = ServiceLauncher(identity, ours(), Path(folder), watch), ServiceReport(plan, watch)
        outcome = AttemptRunner(_of_one_attempt(plan), launcher, report).run()
        if outcome.errors and not report.is_told:
            _fail(Path(folder), outcome)
            return STOPPED_CODE
        codes = [end.exit_code for end in outcome.ranks if end.rank == identity.rank]
        return next(iter(codes), outcome.exit_code) or 0
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
    if failure or plan.preparation is None:
        return failure
    return setup.prepare(plan.preparation, identity.node, env)


def _of_one_attempt(plan: Plan) -> Plan:
    """The plan without what the service does itself, and without the preparation, which is over."""
    limits = plan.limits._replace(max_restarts=None, warn_s=0.0)
    return plan._replace(limits=limits, mounts=(), execution_logs=(), preparation=None)


def _watch(bundle: Mapping[str, Any], rank: int, plan: Plan) -> ConditionWatch | None:
    """The evaluation of the job's stop conditions; None without any."""
    if not bundle["stop_if"]:
        return None
    from batchai_magics.backends.azureml.node.condition_watch import ConditionWatch

    return ConditionWatch(bundle, rank, plan)


def _fail(folder: Path, outcome: Outcome) -> int:
    """Writes why the job ends into its record and its log; returns the exit code for the service."""
    print(*(f"batchai: {error['message']}" for error in outcome.errors), sep="\n", flush=True)
    write_log_file(folder, "end.json", outcome._replace(ranks=(), ended=time.time()).to_json())
    return outcome.exit_code or 1


class ServiceLauncher(Launcher):
    """Launches the one process of a plan for which the service has started this program."""

    def __init__(
        self, identity: ProcessIdentity, env: Mapping[str, str], folder: Path, watch: ConditionWatch | None
    ) -> None:
        self._identity, self._folder, self._watch = identity, folder, watch
        self.files: AttemptFiles = JobLayout(folder / "batchai")
        self.env, self.signal_pipe = env, SignalPipe()

    def processes(
        self, plan: Plan, env: Mapping[str, str], *, are_independent: bool = False
    ) -> PlanProcesses:
        """The process of this rank, yet to be started."""
        return ServiceProcess(
            plan,
            self._identity,
            env,
            folder=self._folder,
            signal_pipe=self.signal_pipe,
            watch=self._watch,
        )

    def reachable(self, plan: Plan) -> Plan:
        """The plan without nodes: the first process of each has made its folders."""
        return plan._replace(nodes=())


class ServiceReport(Report):
    """Brings the stop conditions that are met, and the service's request to end.

    `is_told` is whether the service has told this program to end, which it records itself.
    """

    engine = "the service"

    def __init__(self, plan: Plan, watch: ConditionWatch | None) -> None:
        self.deadline, self._watch, self.is_told = Deadline(plan.limits), watch, False

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        """The outcome if the process is to end."""
        self.is_told = self.is_told or is_signalled
        if self.is_told:
            return stopped(TERMINATE)
        reason = self._watch.reason if self._watch else ""
        return stopped(f"{STOP_IF}{reason.removeprefix(STOP_IF)}") if reason else None
