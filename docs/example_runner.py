"""A runner in one file: jobs are processes of this machine, and a node is a name. No MPI, no containers."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import psutil

from batchai_magics.backends.base import Capabilities, CommandOutput
from batchai_magics.backends.folders.file_repository import FileRepository
from batchai_magics.backends.folders.home_accounts import FileRows, HomeGroups, home_storage
from batchai_magics.backends.folders.home_directory import HomeDirectory
from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.folders.run_end import read_end, write_end
from batchai_magics.backends.machines.machine import LocalMachine
from batchai_magics.backends.node import mpi_launchers, requirements
from batchai_magics.backends.node.job_environment import RUN_SCRIPT, free_ports, inherited
from batchai_magics.backends.node.outcome import (
    TERMINATE,
    failed_with,
    not_run,
    of_preparation,
    of_ranks,
    stopped,
    time_limit_reached,
)
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import seal_record
from batchai_magics.backends.node.restarts import ExecutionLog
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.context import HomeContext, HomeParts
from batchai_magics.backends.service.repository import Footprint
from batchai_magics.backends.service.runner import (
    ClusterChange,
    ClusterRef,
    ClusterRequest,
    EngineFacts,
    EngineState,
    NodeCommand,
    NodeStatus,
    PlannedRun,
    Run,
    RunRequest,
    RunStatus,
    Site,
)
from batchai_magics.backends.service.service import Service
from batchai_magics.config import Settings
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan, ProcessExit
from batchai_magics.launch.references import Bindings
from batchai_magics.models.backend_options import BackendOption, check_texts
from batchai_magics.models.states import DeallocationOption, ExecutionState, NodeState


def read_limits(text: str) -> dict[int, int]:
    """The resource limits of `--rlimit "nofile=64 core=0"`; ValueError for what is none."""
    limits = {}
    for word in text.split():
        name, _, value = word.partition("=")
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is None or not value.isdigit():
            raise ValueError(f"{word!r} is no resource limit, such as nofile=64")
        limits[number] = int(value)
    return limits


RLIMIT = BackendOption(
    "rlimit", 'resource limits of the processes: "nofile=64 core=0"', "LIMITS", read_limits
)


class ProcessFacts(EngineFacts):
    """What the backend asks for instead of the engine's name."""

    capabilities = Capabilities(
        name="processes", containers=False, setup_tasks=False, auto_scale=False, file_servers=False,
        unmanaged_mounts=False, key_vault=False, logins=False, known_sizes=True,
        backend_options=(RLIMIT.name,),
    )  # fmt: skip

    @property
    def site(self) -> Site:
        return Site(sys.executable, RUN_SCRIPT, inherited(os.environ), core_count=1, disk_grace_s=60.0)


@dataclass(frozen=True)
class ProcessSettings:
    """The settings of this backend: the section `processes` of config.yaml; and the options of its jobs."""

    BACKEND_OPTIONS: ClassVar = (RLIMIT,)
    home: Path = Path("~/.batchai-processes")
    core_quota: int = 1000


IMPLEMENTED_IN = __name__
OWN_SETTINGS = ProcessSettings


def open_backend(settings: Settings) -> Service:
    """What the entry point names: the service over a folder, with the runner below as its engine."""
    own, here = settings.for_backend(ProcessSettings), LocalMachine()
    layout = Layout(own.home.expanduser())
    groups, rows = HomeGroups(FileRows(layout.home / "groups")), FileRows(layout.home / "accounts")
    parts = HomeParts(HomeDirectory(layout, here, setting="processes.home"), groups)
    context = HomeContext(FileRepository(layout, here), ProcessRunner(layout), lambda: parts, own.core_quota)
    return Service(context, lambda: home_storage(layout, context, groups, rows))


class ProcessRunner:
    """Every run has one process, which waits for its turn, runs the Plan and records the end."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self.facts = layout, ProcessFacts()
        self._children: list[int] = []

    def check(self, request: RunRequest | ClusterRequest, cluster: ClusterRef | None) -> EngineState:
        if isinstance(request, ClusterRequest):
            return {}
        check_texts(request.backend_options, (RLIMIT,), what=request.what)
        limits = request.backend_options.get(RLIMIT.name, "")
        return {"node_count": request.node_count, "priority": request.priority, "limits": limits}

    # clusters: node1, node2, … as many as the cluster is to have

    def apply(self, cluster: ClusterRef, change: ClusterChange | None) -> None:
        if change is None:
            return  # its folder is removed with it
        self._write_size(cluster)
        names = _names(cluster.scale.maximum)
        for run, status in change.runs:
            is_leaving = not set(names).issuperset(status.nodes)
            if is_leaving and change.option is not DeallocationOption.WAIT_FOR_JOB_COMPLETION:
                self.stop([run])

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        own = _names(cluster.scale.maximum)
        states = {name: NodeState.RUNNING if name in busy else NodeState.IDLE for name in own}
        states |= {name: NodeState.LEAVING for name in busy if name not in own}
        return [NodeStatus(name, state, address="127.0.0.1") for name, state in sorted(states.items())]

    def execute(self, cluster: ClusterRef, command: NodeCommand) -> CommandOutput:
        raise NotImplementedError("the facts say so")

    # runs

    def submit(self, runs: Sequence[PlannedRun]) -> None:
        for planned in runs:
            self._prepare(planned)
            self._start(planned.run, planned.cluster)

    def _prepare(self, planned: PlannedRun) -> None:
        job = self._layout.job(planned.run.guid)
        for folder in (job.exits, job.preparation_exits, job.checkpoints, job.artifacts):
            private_files.make_folder(folder)
        planned.plan.write(str(job.submitted))
        given = {"secrets": dict(planned.secrets), "limits": planned.run.state["limits"]}
        private_files.write(job.root / "given.json", json.dumps(given))

    def _start(self, run: Run, cluster: ClusterRef) -> None:
        self._write_size(cluster)
        entry = self._queue(cluster.guid) / f"{run.state['priority']} {run.created:020.6f} {run.guid}"
        job = self._layout.job(run.guid)
        argv = [sys.executable, __file__, str(self._layout.home), run.guid, str(entry)]
        env = inherited(os.environ)
        pid = os.posix_spawn(sys.executable, argv, env, file_actions=_log_to(job), setsid=True)
        self._children.append(pid)
        private_files.write(job.supervisor, json.dumps([pid, psutil.Process(pid).create_time()]))
        with _locked(entry.parent / ".lock"):
            private_files.write(entry, json.dumps([run.state["node_count"], pid, []]))

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        return [self._status(run) for run in runs]

    def reconcile(self) -> None:
        """Reaps its children; a status is found out without being recorded, and each run starts by itself."""
        for child in self._children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)

    def footprint(self, runs: Sequence[Run], clusters: Sequence[str] = ()) -> Footprint:
        return Footprint()

    def stop(self, runs: Sequence[Run], reason: str = "", *, grace_s: float | None = None) -> None:
        unless_begun = failed_with("ClusterNotFound", reason) if reason else stopped(TERMINATE)
        for run in runs:
            self._stop(run, reason or TERMINATE, unless_begun, now=grace_s == 0.0)

    def _stop(self, run: Run, reason: str, unless_begun: Outcome, *, now: bool = False) -> None:
        job = self._layout.job(run.guid)
        if job.end.exists():
            return
        with _locked(self._queue(run.state["cluster_guid"]) / ".lock"):
            process = _process(job)
            if process and (job.root / "begun").exists():
                if not private_files.write_new(job.root / "stop", reason) and now:
                    (job.root / "kill").touch()
                process.send_signal(signal.SIGTERM)
            elif process:
                process.kill()
                write_end(job.end, unless_begun._replace(ended=time.time()))

    def close(self) -> None:
        """Nothing is held open."""

    def _status(self, run: Run) -> RunStatus:
        job = self._layout.job(run.guid)
        is_alive = _process(job) is not None  # before its end is looked for: it may come meanwhile
        end = read_end(job.end)
        if end is None and not is_alive and (job.supervisor.exists() or time.time() - run.created > 60):
            lost = failed_with("JobSupervisorLost", "The process that ran the job disappeared")
            end = (stopped(_stop_reason(job)) if _stop_reason(job) else lost)._replace(ended=time.time())
        begun = job.root / "begun"
        nodes, started = json.loads(begun.read_text()) if begun.exists() else ([], None)
        if end:
            state = ExecutionState.SUCCEEDED if end.is_success else ExecutionState.FAILED
            return RunStatus(state, end.ended, started, result=end)
        if _stop_reason(job):
            return RunStatus(ExecutionState.TERMINATING, time.time(), started, tuple(nodes))
        state = ExecutionState.RUNNING if nodes else ExecutionState.QUEUED
        return RunStatus(state, started or run.created, started, tuple(nodes))

    def _queue(self, cluster_guid: str) -> Path:
        return self._layout.cluster(cluster_guid) / "queue"

    def _write_size(self, cluster: ClusterRef) -> None:
        folder = self._queue(cluster.guid)
        private_files.make_folder(folder)
        with _locked(folder / ".lock"):
            private_files.write(folder / "size", str(cluster.scale.maximum))


def _log_to(job: JobLayout) -> list[tuple[int | str, ...]]:
    """Has a program read nothing, and write to the log of what the run's own process has to say."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    log = (os.POSIX_SPAWN_OPEN, 1, str(job.supervisor_log), flags, private_files.FILE)
    return [null, log, (os.POSIX_SPAWN_DUP2, 1, 2)]


def _names(count: int) -> list[str]:
    return [f"node{number}" for number in range(1, count + 1)]


def _stop_reason(job: JobLayout) -> str:
    """Why a run is to end; empty while it is not."""
    with contextlib.suppress(FileNotFoundError):
        return (job.root / "stop").read_text()
    return ""


def _process(job: JobLayout) -> psutil.Process | None:
    """The process of a run, while it is alive; its start time tells it from a later one with its pid."""
    with contextlib.suppress(OSError, ValueError, psutil.NoSuchProcess):
        pid, created = json.loads(job.supervisor.read_text())
        process = psutil.Process(pid)
        if process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


# -- the process of a run


def main() -> None:
    """Waits for nodes, runs the job, records its end."""
    layout, guid, entry = Layout(Path(sys.argv[1])), sys.argv[2], Path(sys.argv[3])
    job, bell = layout.job(guid), SignalPipe()
    termination.adopt_orphans()
    try:
        outcome = _run(job, _wait_for_nodes(entry, job), bell)
    except Exception as error:  # noqa: BLE001 whatever it was, the job must not stay "running"
        outcome = not_run(error)
    termination.kill()
    write_end(job.end, outcome._replace(ended=time.time()))
    with _locked(entry.parent / ".lock"):  # others read the queue
        entry.unlink(missing_ok=True)


def _wait_for_nodes(entry: Path, job: JobLayout) -> list[str]:
    """The names of the run's nodes, once it is the first in the queue and they are free."""
    while True:
        with _locked(entry.parent / ".lock"):
            queue = {file: json.loads(file.read_text()) for file in sorted(entry.parent.glob("[0-9]*"))}
            queue = {file: item for file, item in queue.items() if _is_alive(item[1])}
            taken = {name for item in queue.values() for name in item[2]}
            free = [name for name in _names(int((entry.parent / "size").read_text())) if name not in taken]
            if entry in queue and next(file for file, item in queue.items() if not item[2]) == entry:
                count, pid, _ = queue[entry]
                if count <= len(free):
                    private_files.write(entry, json.dumps([count, pid, free[:count]]))
                    private_files.write(job.root / "begun", json.dumps([free[:count], time.time()]))
                    return free[:count]
        time.sleep(0.05)


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _run(job: JobLayout, nodes: list[str], bell: SignalPipe) -> Outcome:
    given = json.loads((job.root / "given.json").read_text())
    (job.root / "given.json").unlink()
    for number, limit in read_limits(given["limits"]).items():
        resource.setrlimit(number, (limit, resource.getrlimit(number)[1]))
    plan, env = Plan.read(str(job.submitted)), {**os.environ, **given["secrets"]}
    plan = plan.resolved(Bindings(nodes, ["127.0.0.1"] * len(nodes), free_ports(plan.port_count)))
    for folder in (node.folder for node in plan.nodes):
        private_files.make_folder(Path(folder))
    private_files.write(job.host_file, "".join(f"{name}\n" for name in nodes))
    log, deadline = ExecutionLog(plan.execution_logs), time.monotonic() + plan.limits.wall_s
    failed = requirements.directories(plan)
    if not failed and plan.preparation:
        prepared = _run_plan(plan.preparation, env, job, bell, deadline=deadline)
        is_late = prepared.is_late
        failed = time_limit_reached(plan.limits) if is_late else of_preparation(prepared.exit_codes)
    if failed:
        return failed
    for note in plan.notes:
        log.write(f"warning: {note}")
    log.write(f"starting {len(plan.processes)} process(es) on {len(nodes)} node(s)")
    ran = _run_plan(plan, env, job, bell, deadline=deadline)
    if reason := _stop_reason(job):
        return stopped(reason).with_ranks(ran.ends, plan)
    if ran.is_late:
        return time_limit_reached(plan.limits).with_ranks(ran.ends, plan)
    outcome = of_ranks(ran.ends, plan, ran.ended_on_their_own)
    return outcome.without_mpi(len(plan.processes)) if ran.is_mpi_missed else outcome


class PlanResult(NamedTuple):
    """How each process of a plan ended, which exited before the plan was stopped, and what went wrong."""

    ends: list[ProcessExit]
    ended_on_their_own: set[int]
    is_mpi_missed: bool
    is_late: bool  # whether the time limit was reached

    @property
    def exit_codes(self) -> list[int]:
        return [end.exit_code or 0 for end in self.ends]


def _run_plan(
    plan: Plan, env: Mapping[str, str], job: JobLayout, bell: SignalPipe, *, deadline: float
) -> PlanResult:
    with (
        contextlib.closing(seal_record(job.seals)) as record,
        contextlib.closing(Ranks(plan, bell, env=env)) as ranks,
    ):
        ranks.start()
        try:
            while ranks.is_running and not _stop_reason(job) and time.monotonic() < deadline:
                ranks.poll(min(1.0, deadline - time.monotonic()))
                if any(end.exit_code for end in ranks.ends.values()) or plan.are_workers_done(ranks.ends):
                    break
            ended_on_their_own = set(ranks.ends)
            is_late = ranks.is_running and time.monotonic() >= deadline
            is_stopped = is_late or bool(_stop_reason(job))
            grace_s = plan.limits.grace_s if is_stopped else 0.0
            termination.end(ranks, patience_s=60.0, grace_s=grace_s, is_hurried=(job.root / "kill").exists)
        finally:
            record.write(ranks.seals)
        is_mpi_missed = mpi_launchers.has_no_mpi(ranks)
        return PlanResult([*ranks.ends.values()], ended_on_their_own, is_mpi_missed, is_late)


if __name__ == "__main__":
    main()
