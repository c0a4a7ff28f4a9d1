"""Runs one process of a job, as the service has started it: prepares the node, runs, records the exit."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.backends.azureml.node.job_variables import RUN, SPEC, unpacked
from batchai_magics.backends.azureml.node.node_setup import SetupBarrier, write_log_file, write_records
from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.launcher import Deadline, Launcher, PlanProcesses, Report
from batchai_magics.backends.node.outcome import NO_FAULT, STOP_IF, TERMINATE, Fault, stopped
from batchai_magics.backends.node.ranks import machine_recording, termination
from batchai_magics.backends.node.ranks.leftovers import MARK
from batchai_magics.backends.node.ranks.rank import RSS_UNIT, become_own_group
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.telemetry_sampler import sampler
from batchai_magics.backends.node.ranks.temporary_folder import ROOT, TMPDIR, TemporaryFolder, is_given
from batchai_magics.backends.node.ranks.trainer_file_log import trainer_file_log
from batchai_magics.backends.node.restarts import EndWarning
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import TRAINER_LOG, Plan, ProcessExit, Role
from batchai_magics.launch.references import Bindings

if TYPE_CHECKING:
    from batchai_magics.backends.azureml.node.condition_watch import ConditionWatch


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
    termination.adopt_orphans()
    temporary = TemporaryFolder()
    if not is_given(plan, plan.node_of(plan.processes[identity.rank])):
        env[TMPDIR] = temporary.path(env.get(TMPDIR) or ROOT)
    ours = partial(_process_env, env, plan, identity, folder)
    try:
        failure = setup.run_once(lambda: _prepare(setup, plan, ours(), identity, bundle["records"]))
        if failure:
            return _fail(Path(folder), failure)
        watch = _watch(bundle, identity.rank, plan)
        launcher, report = ServiceLauncher(identity, ours(), Path(folder), watch), ServiceReport(plan, watch)
        limits = plan.limits._replace(max_restarts=None, warn_s=0.0)
        attempt = plan._replace(limits=limits, mounts=(), execution_logs=(), preparation=None)
        outcome = AttemptRunner(attempt, launcher, report).run()
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
        self.files = JobLayout(folder / "batchai")
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
        on_first = tuple(process for process in plan.processes if not process.node)
        first_node = plan._replace(nodes=plan.nodes[:1], processes=on_first)
        self._numbers = trainer_file_log(first_node) if identity.rank == 0 else None
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
            preexec_fn=partial(become_own_group, signal.SIGKILL),
        )
        if self._child.stdout:
            self._selector.register(self._child.stdout, selectors.EVENT_READ)
        self._recorder = machine_recording.start(self._plan, rank=self._identity.rank)

    def poll(self, timeout_s: float, /) -> set[int]:
        """Waits up to `timeout_s` for output, its exit or signals; returns the signals received."""
        output = self._child.stdout
        ready = [key.fileobj for key, _ in self._selector.select(timeout_s)]
        if output and output in ready and not self._copy_output():
            self._selector.unregister(output)
        if self._numbers:
            self._numbers.update_if_due()
            self._check_numbers()
        if self._sampling:
            self._sampling.sample_if_due({self._identity.rank: self._child.pid})
        self._end = self._end or self._poll_exit()
        while self._end and output and self._copy_output():
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
        if self._recorder:
            machine_recording.finish(self._recorder)
        termination.kill()
        if self._end:
            self._check_numbers()
            unchecked = {"unchecked": self._watch.unchecked} if self._watch else {}
            text = json.dumps({**self._end._asdict(), **unchecked})
            write_log_file(self._folder, f"exits/{self._identity.rank}.json", text)

    def _check_numbers(self) -> None:
        if self._watch and self._numbers:
            self._watch.read_file(Path(self._plan.output.stdout.path).with_name(TRAINER_LOG))

    def _copy_output(self) -> bool:
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


_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")
_MASTERS = ("MASTER_ADDR", "AZ_BATCHAI_MPI_MASTER_NODE", "AZ_BATCH_MASTER_NODE")
_MASTER_ROLES = ("chief", "master")


class ProcessIdentity(NamedTuple):
    """This process: its rank, its node's number and name, and the addresses of all nodes."""

    rank: int
    node: int
    node_name: str
    addresses: Sequence[str]
    ports: Sequence[int]

    def bindings(self, plan: Plan, folder: str, core_count: int) -> Bindings:
        """The values of the references in the plan; `folder` is where the service starts processes."""
        threads = max(1, core_count // max(1, plan.processes_per_node))
        names = [f"node-{number}" for number in range(len(plan.nodes))]
        names[self.node] = self.node_name
        return Bindings(names, self.addresses, self.ports, folder, (), threads)


def identity_of(env: Mapping[str, str], plan: Plan, host: str) -> ProcessIdentity:
    """The identity of the process with these variables; `host` is the name of its machine."""
    config = _tf_config(env)
    known = (int(env[name]) for name in _RANKS if env.get(name, "").isdecimal())
    rank = _rank_in(config, plan) if config else next(known, 0)
    rank = min(rank, len(plan.processes) - 1)
    node = plan.processes[rank].node
    name = env.get("AZ_BATCH_NODE_ID") or env.get("HOSTNAME") or host
    return ProcessIdentity(rank, node, name, _addresses(env, plan, node, host), _ports(env, config))


def hosts_of_tasks(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of Batch AI with the hosts of TensorFlow's tasks, as the service has placed them."""
    cluster = _tf_config(env).get("cluster") or {}
    workers = [host for role in (*_MASTER_ROLES, "worker") for host in cluster.get(role, ())]
    hosts = {"AZ_BATCHAI_WORKER_HOSTS": workers, "AZ_BATCHAI_PS_HOSTS": cluster.get("ps", ())}
    return {name: ",".join(listed) for name, listed in hosts.items()} if cluster else {}


def _tf_config(env: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        config = json.loads(env.get("TF_CONFIG") or "{}")
    except ValueError:
        return {}
    return config if isinstance(config, dict) and "task" in config else {}


def _rank_in(config: Mapping[str, Any], plan: Plan) -> int:
    """The rank of TensorFlow's task: masters and workers come before parameter servers."""
    task, masters = config["task"], [role for role in _MASTER_ROLES if config["cluster"].get(role)]
    index = int(task.get("index") or 0)
    if task.get("type") == Role.PARAMETER_SERVER.value:
        return sum(process.role is not Role.PARAMETER_SERVER for process in plan.processes) + index
    return index + (len(masters) if task.get("type") == Role.WORKER.value else 0)


def _addresses(env: Mapping[str, str], plan: Plan, node: int, host: str) -> Sequence[str]:
    """The addresses of the nodes; where the service does not list them, those that are known."""
    listed = (env.get("AZ_BATCH_HOST_LIST") or env.get("AZ_BATCH_NODE_LIST", "").replace(";", ",")).split(",")
    if len(listed) == len(plan.nodes) and all(listed):
        return listed
    addresses = [f"node-{number}" for number in range(len(plan.nodes))]
    master = next((env[name].partition(":")[0] for name in _MASTERS if env.get(name)), "")
    addresses[node] = host
    addresses[0] = master or addresses[0]
    return addresses


_ANY_PORT = 6105  # where the service names none


def _ports(env: Mapping[str, str], config: Mapping[str, Any]) -> Sequence[int]:
    """The ports of TensorFlow's tasks, or the one of PyTorch's master."""
    cluster = config.get("cluster") or {}
    tasks = [host for role in (*_MASTER_ROLES, "worker", "ps") for host in cluster.get(role, ())]
    if tasks:
        return [int(host.rpartition(":")[2]) for host in tasks]
    given = env.get("MASTER_PORT", "")
    return [int(given) if given.isdecimal() else _ANY_PORT]


def environment(
    env: Mapping[str, str], of_node: Mapping[str, str], of_process: Mapping[str, str], folder: str
) -> dict[str, str]:
    """The variables of a process: the planned ones, except for the service's own facts of its nodes.

    Paths below `folder` are always ours, and so is what the job itself gives.
    """
    facts = {name for name in of_node if name.startswith(_OF_NODES)}
    facts |= {name for name in of_process if name.startswith((*_OF_NODES, *_OF_PROCESSES))}
    planned = {**of_node, **of_process}
    kept = {name for name in facts if env.get(name) and folder not in planned[name]}
    ours = {name: value for name, value in planned.items() if name not in kept}
    return {**env, **ours, **hosts_of_tasks(env)}


_OF_NODES = ("AZ_BATCH", "CCP_NODES")
_OF_PROCESSES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG")


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
