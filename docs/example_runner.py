"""A runner in one file: jobs are processes of this machine, and a node is a name."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from batchai_magics.backends.base import Capabilities
from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import make_attempt_files, read_end, write_end
from batchai_magics.backends.node import attempt, child_processes
from batchai_magics.backends.node.job_environment import RUN_SCRIPT, free_ports, inherited
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.launcher import LOOPBACK, Deadline, Report
from batchai_magics.backends.node.outcome import TERMINATE, failed_with, stop_outcome, supervisor_failure
from batchai_magics.backends.node.ranks import signal_pipe, termination
from batchai_magics.backends.service import runner
from batchai_magics.backends.service.file_repository import FileRepository
from batchai_magics.backends.service.runner import ClusterRef, NodeStatus, PlannedRun, Run, RunStatus
from batchai_magics.backends.service.service import Service
from batchai_magics.config import Settings
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan
from batchai_magics.launch.references import Bindings
from batchai_magics.models.backend_options import BackendOption, check_texts
from batchai_magics.models.states import DeallocationOption, ExecutionState, NodeState

NOFILE = BackendOption("nofile", "how many files a process may have open", "COUNT", int)
SUBMISSION_S = 60.0  # in which the entry of a new run comes into its queue
NEVER = "[[], null]"  # the nodes of a run that does not begin, and the time


class ProcessFacts(runner.EngineFacts):
    """What the backend asks for instead of the engine's name."""

    capabilities = Capabilities(
        name="processes", containers=False, setup_tasks=False, auto_scale=False, file_servers=False,
        unmanaged_mounts=False, key_vault=False, logins=False, known_sizes=True,
        backend_options=(NOFILE.name,),
    )  # fmt: skip

    @property
    def site(self) -> runner.EngineSite:
        environ = inherited(os.environ)
        return runner.EngineSite(sys.executable, RUN_SCRIPT, environ, core_count=1, disk_grace_s=60.0)


@dataclass(frozen=True)
class ProcessSettings:
    """The settings of this backend: the section `processes` of config.yaml; and the options of its jobs."""

    BACKEND_OPTIONS: ClassVar = (NOFILE,)
    home: Path = Path("~/.batchai-processes")
    core_quota: int = 1000


IMPLEMENTED_IN, OWN_SETTINGS = __name__, ProcessSettings


def open_backend(settings: Settings) -> Service:
    """What the entry point names: the service over a folder, with the runner below as its engine."""
    own = settings.for_backend(ProcessSettings)
    repository = FileRepository(Layout(own.home.expanduser()))
    engine = ProcessRunner(repository.layout)
    return Service(repository, engine, setting="processes.home", core_quota=own.core_quota)


class ProcessRunner(runner.Runner):
    """Every run has one process, which runs the Plan, records the end, and starts the next run."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self.facts = layout, ProcessFacts()

    def check(self, request: runner.Request, cluster: ClusterRef | None) -> runner.EngineState:
        if isinstance(request, runner.ClusterRequest):
            return {}
        check_texts(request.backend_options, (NOFILE,), what=request.what)
        limit = request.backend_options.get(NOFILE.name, "")
        return {"priority": request.scheduling_priority.rank, "nofile": limit}

    def apply(self, cluster: ClusterRef, change: runner.ClusterChange | None) -> None:
        if change is None:
            return  # its folder is removed with it
        private_files.write(self._layout.cluster(cluster.guid) / "queue" / "size", str(cluster.scale.maximum))
        if change.option is not DeallocationOption.WAIT_FOR_JOB_COMPLETION:
            own = {*_names(cluster.scale.maximum)}
            self.stop([run for run, status in change.runs if not own.issuperset(status.nodes)])

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        own = _names(cluster.scale.maximum)
        states = {name: NodeState.RUNNING if name in busy else NodeState.IDLE for name in own}
        states |= {name: NodeState.LEAVING for name in busy if name not in own}
        return [NodeStatus(name, state, address=LOOPBACK) for name, state in sorted(states.items())]

    def submit(self, runs: Sequence[PlannedRun]) -> None:
        for planned in runs:
            run, job = planned.run, self._layout.job(planned.run.guid)
            planned.plan.write(str(job.submitted))
            env = {**inherited(os.environ), **planned.secrets}
            private_files.write(job.environment, json.dumps([run.state["nofile"], env]))
            entry = f"{run.state['priority']} {run.created:020.6f} {run.guid}"
            queue = self._layout.cluster(planned.cluster.guid) / "queue"
            private_files.write(queue / entry, str(len(planned.plan.nodes)))

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        return [_status(self._layout.job(run.guid), run.created, self._queued(run)) for run in runs]

    def _queued(self, run: Run) -> bool:
        """Whether its entry is in a queue, or about to be."""
        is_new = time.time() - run.created < SUBMISSION_S
        return is_new or any(self._layout.clusters.glob(f"*/queue/* {run.guid}"))

    def stop(self, runs: Sequence[Run], reason: str = "", *, grace_s: float | None = None) -> None:
        unless_begun = failed_with("ClusterNotFound", reason) if reason else stop_outcome(TERMINATE)
        for job in (self._layout.job(run.guid) for run in runs):
            if private_files.write_new(job.root / "begun", NEVER):  # so that it does not
                job.environment.unlink(missing_ok=True)
                write_end(job.end, unless_begun._replace(ended=time.time()))
            elif not private_files.write_new(job.root / "stop", reason or TERMINATE) and grace_s == 0.0:
                (job.root / "kill").touch()

    def reconcile(self) -> None:
        for queue in self._layout.clusters.glob("*/queue"):
            with contextlib.suppress(FileNotFoundError), (queue / "lock").open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._start_next(queue)

    def _start_next(self, queue: Path) -> None:
        entries = sorted(queue.glob("[0-9]*-????????????"))
        jobs = {entry: self._layout.job(entry.name.split()[-1]) for entry in entries}
        running = [job for job in jobs.values() if _is_alive(job) and not job.end.exists()]
        taken = {name for job in running for name in _begun(job)[0]}
        free = [name for name in _names(int((queue / "size").read_text())) if name not in taken]
        for entry, job in jobs.items():
            if job.environment.exists() and not (job.root / "begun").exists():
                if (count := int(entry.read_text())) > len(free):
                    return
                self._start(job, free[:count])
                free = free[count:]
            elif job not in running:
                job.environment.unlink(missing_ok=True)  # of one who was killed while it began or ended it
                entry.unlink()

    def _start(self, job: JobLayout, nodes: list[str]) -> None:
        part = job.supervisor.with_suffix(".part")
        with part.open("w+") as lock, job.supervisor_log.open("w") as log:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the process that has it as its input has ended
            part.replace(job.supervisor)
            if private_files.write_new(job.root / "begun", json.dumps([nodes, time.time()])):
                nofile, env = json.loads(job.environment.read_text())
                job.environment.unlink()
                argv = ["setsid", "--fork", sys.executable, __file__, str(job.root), nofile]
                subprocess.run(argv, env=env, stdin=lock, stdout=log, stderr=log, check=True)


def _names(count: int) -> list[str]:
    return [f"node{number}" for number in range(1, count + 1)]


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _begun(job: JobLayout) -> tuple[list[str], float | None]:
    """The nodes of a run, and when it began."""
    nodes, started = json.loads(_text(job.root / "begun") or NEVER)
    return nodes, started


def _is_alive(job: JobLayout) -> bool:
    """Whether the process of a run lives, which holds a lock."""
    with contextlib.suppress(FileNotFoundError), job.supervisor.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _status(job: JobLayout, created: float, is_queued: bool) -> RunStatus:
    nodes, started = _begun(job)
    has_begun = (job.root / "begun").exists()  # before its end is looked for: it may come meanwhile
    is_lost = not _is_alive(job) if has_begun else not is_queued
    end, reason = read_end(job.end), _text(job.root / "stop")
    if is_lost and end is None:
        lost = failed_with("JobSupervisorLost", "The process that ran the job disappeared")
        is_stopped = reason or (has_begun and not nodes)
        end = (stop_outcome(reason or TERMINATE) if is_stopped else lost)._replace(ended=time.time())
    if end:
        return RunStatus.of_end(end, started)
    if reason:
        return RunStatus(ExecutionState.TERMINATING, time.time(), started, tuple(nodes))
    state = ExecutionState.RUNNING if nodes else ExecutionState.QUEUED
    return RunStatus(state, started or created, started, tuple(nodes))


class StopReport(Report):
    """Brings an attempt the requests to stop, which are files of its run."""

    def __init__(self, job: JobLayout, plan: Plan) -> None:
        self._job, self.deadline = job, Deadline(plan.limits)

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        reason = _text(self._job.root / "stop")
        return stop_outcome(reason) if reason else None

    def is_hurried(self) -> bool:
        return (self._job.root / "kill").exists()


def main() -> None:
    """The process of a run: runs the job, records its end, and starts the next one."""
    job, nofile = JobLayout(Path(sys.argv[1])), sys.argv[2]
    termination.adopt_orphans()
    try:
        if nofile:
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(nofile), int(nofile)))
        (nodes, _), plan = _begun(job), Plan.read(str(job.submitted))
        plan = plan.resolved(Bindings(nodes, [LOOPBACK] * len(nodes), free_ports(plan.port_count)))
        make_attempt_files(job, plan)
        children = child_processes.ChildLauncher(job, signal_pipe.SignalPipe(), os.environ)
        end = attempt.AttemptRunner(plan, children, StopReport(job, plan)).run()
    except Exception as error:  # noqa: BLE001 whatever it was, the job must not stay "running"
        end = supervisor_failure(error)
    write_end(job.end, end._replace(ended=time.time()))
    ProcessRunner(Layout(job.root.parents[1])).reconcile()


if __name__ == "__main__":
    main()
