"""Runs one process of a job, started by the service: prepares the node, runs it, records the exit."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.azureml.node.job_variables import RUN, SPEC, unpacked
from batchai_magics.backends.azureml.node.node_setup import SetupBarrier, write_log_file, write_records
from batchai_magics.backends.folders.run_end import StopIfRequest
from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.child_processes import ChildLauncher, ChildProcesses
from batchai_magics.backends.node.job_layout import JobLayout, RunEntry
from batchai_magics.backends.node.launcher import Deadline, PlanProcesses, Report
from batchai_magics.backends.node.node_programs import programs_folder, start_words
from batchai_magics.backends.node.outcome import TERMINATE, stop_outcome, write_failure
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import MARK
from batchai_magics.backends.node.ranks.output_streams import SPAN
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.temporary_folder import ROOT, TMPDIR, TemporaryFolder, is_given
from batchai_magics.backends.node.watch_process import WATCH as WATCH_MODULE
from batchai_magics.backends.node.watch_process import WatchProgram
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import TRAINER_LOG, LaunchMode, LogPaths, Output, Plan, Role
from batchai_magics.launch.references import Bindings
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.models.stop_conditions import PROGRESS, metric_name, stop_condition
from batchai_magics.records.record_files import WATCH

STOPPED_CODE = 143
_READ_SIZE = 1 << 16
_ENDLESS = 1 << 62  # bytes
_OF_NODE = (TMPDIR, "BATCHAI_ARTIFACT_DIR")  # variables that programs expect on each node


def run(folder: str, arguments: Sequence[str]) -> int:
    """Runs the process of this rank, and records its end; returns its exit code.

    Args:
        folder: The folder in which the service has started it.
        arguments: `in:ID=PATH` and `out:ID=PATH`, the paths where the service has mounted inputs and outputs.
    """
    env = dict(os.environ)
    bundle = unpacked(env.pop(RUN))
    env.pop(SPEC, None)
    plan = Plan.from_json(bundle["plan"])
    identity = identity_of(env, plan, socket.gethostname())
    plan = plan.resolved(identity.bindings(plan, folder, cores()))
    paths = dict(argument.split("=", 1) for argument in arguments)
    env |= {f"AZ_BATCHAI_INPUT_{name[3:]}": path for name, path in paths.items() if name.startswith("in:")}
    setup = SetupBarrier(Path(folder), bundle["share"], bundle["mounts"], paths)
    termination.adopt_orphans()
    temporary = TemporaryFolder()
    if not is_given(plan, plan.node_of(plan.processes[identity.rank])):
        env[TMPDIR] = temporary.path(env.get(TMPDIR) or ROOT)
    env = _process_env(env, plan, identity, folder)
    try:
        failure = setup.run_once(lambda: _prepare(setup, plan, env, identity, bundle["records"]))
        outcome = failure or _run_attempt(Path(folder), plan, identity, env, bundle)
    finally:
        temporary.remove()
    if outcome.errors:
        print(*(f"batchai: {error['message']}" for error in outcome.errors), sep="\n", flush=True)
    write_log_file(Path(folder), f"exits/{identity.rank}.json", outcome._replace(ended=time.time()).to_json())
    if outcome.errors and not failure:
        return STOPPED_CODE
    return outcome.exit_code or (1 if failure else 0)


def _run_attempt(
    folder: Path, plan: Plan, identity: ProcessIdentity, env: Mapping[str, str], bundle: Mapping[str, Any]
) -> Outcome:
    """The outcome of the process, with errors only if this program, not the service, has ended it."""
    files = RankFiles(folder / f"batchai/ranks/{identity.rank}")
    attempt = files.attempt(plan, identity, env)
    files.prepare(attempt, identity.rank, bundle)
    launcher, report = ServiceLauncher(files, identity.rank, env), ServiceReport(files, attempt)
    outcome = AttemptRunner(attempt, launcher, report).run()
    ends = tuple(end for end in outcome.ranks if end.rank == identity.rank and end.exit_code is not None)
    if report.is_cancelled:
        return Outcome(ends[0].exit_code if ends else STOPPED_CODE, ranks=ends, warnings=outcome.warnings)
    return outcome._replace(ranks=ends)


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
    """The setup of a node, by its first process."""
    setup.make_folders(plan)
    Path(env["AZ_BATCHAI_MPI_HOST_FILE"]).write_text("".join(f"{host}\n" for host in identity.addresses))
    if identity.node == 0:
        write_records(setup.folder, records)
    failure = setup.directories(plan)
    if failure or plan.preparation is None:
        return failure
    return setup.prepare(plan.preparation, identity.node, env)


class RankFiles(JobLayout):
    """The private files of one rank on its node, laid out like a run of its own."""

    output = RunEntry("stdout.txt")  # the output of its process

    def attempt(self, plan: Plan, identity: ProcessIdentity, env: Mapping[str, str]) -> Plan:
        """The plan of the attempt, for which this program only runs the process of the rank.

        `env` are the variables of the process, which replace the planned ones. Its output goes to a file that
        has no lines of other ranks; spans that give all of it to the rank are for the watch program.
        """
        log, spans = LogPaths(str(self.output)), str(self.spans("stdout")) * (len(plan.processes) > 1)
        variables = {name: env[name] for name in _OF_NODE if name in env}
        return plan._replace(
            nodes=tuple(
                node._replace(env=variables) if number == identity.node else node._replace(folder="", env={})
                for number, node in enumerate(plan.nodes)
            ),
            processes=tuple(
                process._replace(env={}, output=Output(log, log), own=None) for process in plan.processes
            ),
            output=Output(log._replace(spans=spans), LogPaths(str(self.root / "stderr.txt"))),
            launcher=LaunchMode.DIRECT,  # the service launches
            limits=plan.limits._replace(max_restarts=None, warn_s=0.0),
            mounts=(),
            execution_logs=(),
            preparation=None,
        )

    def prepare(self, plan: Plan, rank: int, bundle: Mapping[str, Any]) -> None:
        """Creates the folder, with the files that the watch program reads, if the job has conditions.

        Every rank checks its own output. Only the first one checks measurements (progress, use, cost), for
        its node: the others have no samples and no price.
        """
        shutil.rmtree(self.root, ignore_errors=True)  # of an earlier attempt, if it was in the same folder
        self.records.mkdir(parents=True)
        conditions, patterns = bundle["stop_if"], bundle["patterns"]
        if rank and PROGRESS not in map(metric_name, patterns):
            conditions = [text for text in conditions if stop_condition(text).metric != PROGRESS]
        if not conditions:
            return
        self.plan.write_text(plan.to_json(), encoding="utf-8")
        self.spans("stdout").write_bytes(SPAN.pack(0, _ENDLESS, rank))
        StopIfRequest(conditions, patterns).write(self.stop_if)
        if rank:
            return
        self.telemetry.symlink_to(plan.telemetry)
        if text := bundle["records"].get(WATCH):
            request = WatchRequest.from_json(text)
            priced = WatchRequest(request.name, request.experiment, node_price=request.node_price)
            (self.records / WATCH).write_text(priced.to_json(), encoding="utf-8")


class ServiceLauncher(ChildLauncher):
    """Launches the one process of a plan for which the service has started this program."""

    files: RankFiles

    def __init__(self, files: RankFiles, rank: int, env: Mapping[str, str]) -> None:
        super().__init__(files, SignalPipe(), env)
        self._rank = rank

    def processes(
        self, plan: Plan, env: Mapping[str, str], *, are_independent: bool = False
    ) -> PlanProcesses:
        """The process of this rank, not started yet."""
        return ServiceProcess(plan, self._rank, self.signal_pipe, env, files=self.files)

    def reachable(self, plan: Plan) -> Plan:
        """The plan without nodes: the first process of each has made its folders."""
        return plan._replace(nodes=())


class ServiceReport(Report):
    """Delivers the service's request to end.

    `is_cancelled` is whether the service has asked this program to end, which the service records itself.
    """

    engine = "the service"

    def __init__(self, files: RankFiles, plan: Plan) -> None:
        self._files, self.deadline, self.is_cancelled = files, Deadline(plan.limits), False

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        """The outcome if the process is to end."""
        self.is_cancelled = self.is_cancelled or is_signalled
        return stop_outcome(TERMINATE) if self.is_cancelled else None

    def watch_program(self) -> WatchProgram:
        """The program that checks the stop conditions on the output of the process."""
        start = start_words(sys.executable, WATCH_MODULE, programs_folder(), has_packages=True)
        return WatchProgram(start, log=self._files.root / "watch.log", attempts=())


def append(folder: Path, name: str, data: bytes) -> int:
    """Appends to a log of the run; returns the number of bytes written, 0 on a full disk."""
    try:
        with (folder / "logs/batchai/stdouterr" / name).open("ab", buffering=0) as stream:
            return stream.write(data) or 0
    except OSError:  # no job fails because of it
        return 0


class CopiedFile:
    """A file whose bytes are copied as it grows; `write` returns how many of its bytes were written."""

    def __init__(self, source: Path, write: Callable[[bytes], int]) -> None:
        self._source, self._write, self._offset = source, write, 0

    def copy(self) -> None:
        """Copies the new bytes."""
        with contextlib.suppress(FileNotFoundError), self._source.open("rb", buffering=0) as stream:
            while data := os.pread(stream.fileno(), _READ_SIZE, self._offset):
                if not (count := self._write(data)):
                    return
                self._offset += count


class ServiceProcess(ChildProcesses):
    """The process of one rank; its output and the numbers in its files are copied to logs of the service."""

    def __init__(
        self, plan: Plan, rank: int, signal_pipe: SignalPipe, env: Mapping[str, str], *, files: RankFiles
    ) -> None:
        super().__init__(plan, signal_pipe, env)
        self._rank = rank
        self._copies = [
            CopiedFile(files.output, partial(os.write, 1)),
            CopiedFile(files.root / TRAINER_LOG, partial(append, files.root.parents[2], TRAINER_LOG)),
        ]

    def start(self) -> None:
        """Starts the process."""
        self._ranks.start_one(self._rank)

    def poll(self, timeout_s: float, /) -> set[int]:
        """Waits up to `timeout_s` for output, its exit or signals; returns the signals received."""
        signals = super().poll(timeout_s)
        self._copy()
        return signals

    def end(self, *, patience_s: float, grace_s: float, is_hurried: Callable[[], bool]) -> None:
        """Ends the process; its output while it saves is copied at each poll."""

        def is_to_be_killed() -> bool:
            self._copy()
            return is_hurried()

        super().end(patience_s=patience_s, grace_s=grace_s, is_hurried=is_to_be_killed)

    def outcome(self) -> Outcome:
        """The outcome by the exit code of the process; the service observes the others."""
        if problem := self._fault.unwritable:
            return write_failure(problem, self.plan)
        return Outcome(next((end.exit_code for end in self.ends), None), ranks=tuple(self.ends))

    def close(self) -> None:
        """Kills leftover processes, and copies the rest of the output."""
        super().close()
        self._copy()

    def _copy(self) -> None:
        for file in self._copies:
            file.copy()


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
    """The addresses of the nodes; if the service does not list them, as far as they are known."""
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
    port = env.get("MASTER_PORT", "")
    return [int(port) if port.isdecimal() else _ANY_PORT]


def environment(
    env: Mapping[str, str], of_node: Mapping[str, str], of_process: Mapping[str, str], folder: str
) -> dict[str, str]:
    """The variables of a process: the planned ones, except for those that the service has set for its nodes.

    Planned paths below `folder` and variables of the job itself always take precedence.
    """
    facts = {name for name in of_node if name.startswith(_OF_NODES)}
    facts |= {name for name in of_process if name.startswith((*_OF_NODES, *_OF_PROCESSES))}
    planned = {**of_node, **of_process}
    from_service = {name for name in facts if env.get(name) and folder not in planned[name]}
    ours = {name: value for name, value in planned.items() if name not in from_service}
    return {**env, **ours, **hosts_of_tasks(env)}


_OF_NODES = ("AZ_BATCH", "CCP_NODES")
_OF_PROCESSES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG")


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
