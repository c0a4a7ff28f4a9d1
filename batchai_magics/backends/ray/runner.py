"""Ray as an engine of the service: queues in the home, and for each run an actor that supervises it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.base import Capabilities, CommandEnd, CommandOutput, Pace, api_errors
from batchai_magics.backends.folders import installed_programs, private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import read_end, read_predecessors, write_predecessors
from batchai_magics.backends.machines.machine import CommandLine, Machine
from batchai_magics.backends.node.job_environment import submitter_environment
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.outcome import TERMINATE, dependency_failed, failed_with, stop_outcome
from batchai_magics.backends.ray.gateway import UNAVAILABLE, RayGateway
from batchai_magics.backends.ray.node import queue
from batchai_magics.backends.ray.node.actor_target import text_of
from batchai_magics.backends.ray.node.home_files import take_over
from batchai_magics.backends.ray.node.run_files import NodeRequest, SupervisedFiles
from batchai_magics.backends.ray.settings import RaySettings
from batchai_magics.backends.service.file_repository import FileRepository
from batchai_magics.backends.service.runner import (
    CORE_COUNT,
    ClusterChange,
    ClusterRef,
    ClusterRequest,
    ClusterWarning,
    EngineFacts,
    EngineSite,
    EngineState,
    NodeCommand,
    NodeStatus,
    PlannedRun,
    Request,
    Run,
    Runner,
    RunStatus,
    waiting_reason,
)
from batchai_magics.backends.service.service import Service
from batchai_magics.backends.service.undelivered import UndeliveredNotifications
from batchai_magics.errors import BatchAIError, StorageError
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.states import DeallocationOption, ExecutionState, NodeState

PROGRAMS = "backends/ray/node"
NODE_COMMAND = "batchai_magics.backends.ray.node.node_command"
NO_DOUBTS: Mapping[str, str] = {}
ELSEWHERE = {"RayClusterDiffers": "it runs on another Ray cluster than ray.address, with the same ray.home"}


class RayFacts(EngineFacts):
    """The features of a Ray cluster."""

    capabilities = Capabilities(
        name="ray",
        containers=False,
        setup_tasks=False,
        auto_scale=False,
        file_servers=False,
        unmanaged_mounts=False,
        key_vault=False,
        logins=False,
        restarts=True,
        stop_conditions=True,
        notifications=True,
        shared_gpus=True,
        chains=True,
        custom_processes=True,
        known_sizes=True,
        pace=Pace(poll_interval_s=0.5),
    )
    has_node_commands = True

    def __init__(self, layout: Layout, settings: RaySettings, gateway: RayGateway) -> None:
        self._layout, self._settings, self._gateway = layout, settings, gateway

    @property
    def python(self) -> str:
        """The interpreter of ranks."""
        return self._settings.python or sys.executable

    @property
    def site(self) -> EngineSite:
        """The facts that Plans of runs depend on; installs the programs of nodes in the home."""
        folder = installed_programs.install(self._layout.home, PROGRAMS)
        return EngineSite(
            python=self.python,
            script_wrapper=str(folder / installed_programs.RUN_SCRIPT),
            environ=os.environ,
            core_count=None,
            disk_grace_s=self._settings.disk_grace_s,
            has_devices=True,
        )

    def warnings(self, cluster: ClusterRef) -> Sequence[ClusterWarning]:
        """A warning if Ray does not answer."""
        try:
            self._gateway.nodes()
        except BatchAIError as error:
            return [ClusterWarning(UNAVAILABLE, error.message)]
        return []


class RayRunner(Runner):
    """Runs jobs on Ray; see `backends.service.runner.Runner`."""

    def __init__(self, layout: Layout, settings: RaySettings, *, pass_env: str = "") -> None:
        self.layout, self._settings, self._pass_env = layout, settings, pass_env
        self.gateway = RayGateway(
            settings, layout.home, lambda: installed_programs.install(layout.home, PROGRAMS)
        )
        self._undelivered = UndeliveredNotifications(layout)
        self.facts = RayFacts(layout, settings, self.gateway)

    def check(self, request: Request, cluster: ClusterRef | None) -> EngineState:
        """The facts about a run that its queue needs, or the cores of a cluster's nodes.

        Raises:
            CapabilityError: There is no Ray here, or one of another version than the cluster's.
        """
        self.gateway.connect()
        if isinstance(request, ClusterRequest):
            cores = [node.cpus for node in self.gateway.nodes() if node.cpus]
            return {CORE_COUNT: min(cores, default=1)}
        return {
            "priority": request.scheduling_priority.rank,
            "node_count": request.node_count,
            "gpus": request.batchai_gpus or 0,
        }

    # -- clusters

    def apply(self, cluster: ClusterRef, change: ClusterChange | None) -> None:
        """Changes how many nodes the runs of a cluster may hold; ends or requeues the latest ones beyond."""
        if change is None:
            return  # its folder is removed with it
        folder, size = queue.queue_of(self.layout, cluster.guid), cluster.scale.maximum
        private_files.write(folder / queue.SIZE, str(size))
        if change.option is DeallocationOption.WAIT_FOR_JOB_COMPLETION:
            return
        surplus = sum(len(status.nodes) for _, status in change.runs) - size
        for run, status in reversed(change.runs):
            if surplus > 0 and status.nodes:
                surplus -= len(status.nodes)
                if change.option is DeallocationOption.REQUEUE:
                    self._files(run).requeue.touch(mode=private_files.FILE)
                    self.gateway.wake([self._files(run).name])
                else:
                    self.stop([run])

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        """The nodes that runs hold, and idle nodes of Ray up to the size of the cluster."""
        try:
            addresses = {node.name: node.address for node in self.gateway.nodes()}
        except BatchAIError:  # a warning of the cluster reports it
            addresses = {}
        size, held = cluster.scale.maximum, [*busy]
        free = [name for name in addresses if name not in busy][: max(0, size - len(held))]
        states = dict.fromkeys(held[:size], NodeState.RUNNING)
        states |= dict.fromkeys(held[size:], NodeState.LEAVING)
        states |= dict.fromkeys(free, NodeState.IDLE)
        return [NodeStatus(name, state, address=addresses.get(name, "")) for name, state in states.items()]

    # -- runs

    def submit(self, runs: Sequence[PlannedRun]) -> None:
        """Queues runs; until a run starts, its variables are in a file that only its owner can read."""
        folder = str(Path(self.facts.python).parent)
        environ = submitter_environment(os.environ, folder, self._pass_env)
        for planned in runs:
            run, files, cluster = planned.run, self._files(planned.run), planned.cluster.guid
            planned.plan.write(str(files.submitted))
            private_files.write(files.environment, json.dumps({**environ, **planned.secrets}))
            request = NodeRequest(cluster, run.state["node_count"], self._settings.cpus, run.state["gpus"])
            private_files.write(files.request, json.dumps(request._asdict()))
            write_predecessors(files, planned.after)
            priority, created = run.state["priority"], run.created
            file = queue.entry_file(
                queue.queue_of(self.layout, cluster), priority=priority, created=created, guid=run.guid
            )
            queue.QueueEntry(file, run.guid, request.node_count, run.group.name, run.group.limit).write()

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        """The status of each run; a run whose supervising actor is gone has the end that will be recorded."""
        run_files = [self._files(run) for run in runs]
        supervised = [files for files in run_files if files.supervised.exists() and not files.outcome]
        lost, elsewhere, doubts = set[str](), set[str](), NO_DOUBTS
        try:
            lost, elsewhere = self._missing(supervised)
        except BatchAIError as error:
            doubts = {UNAVAILABLE: error.message}
        statuses = [
            _status(
                run,
                files,
                is_lost=files.name in lost and not files.copies.exists(),  # else its logs still grow
                doubts=ELSEWHERE if files.name in elsewhere else doubts,
            )
            for run, files in zip(runs, run_files, strict=True)
        ]
        self._undelivered.observe(runs, statuses)
        return statuses

    def _missing(self, runs: Sequence[SupervisedFiles]) -> tuple[set[str], set[str]]:
        """The names of the supervising actors that are gone, and of those on another cluster."""
        names = {files.name for files in runs}
        if not names or not (missing := names - {*self.gateway.actors()}):
            return set(), set()
        current = self.gateway.session()
        elsewhere = {files.name for files in runs if files.name in missing and files.is_elsewhere(current)}
        return missing - elsewhere, elsewhere

    def stop(self, runs: Sequence[Run], reason: str = "", *, grace_s: float | None = None) -> None:
        """Asks runs to end; queued ones end at once."""
        unless_begun = failed_with("ClusterNotFound", reason) if reason else stop_outcome(TERMINATE)
        begun = [self._files(run) for run in runs if not self._end_waiting(run, unless_begun)]
        for files in begun:
            if not private_files.write_new(files.stop, reason or TERMINATE) and grace_s == 0.0:
                files.kill.touch(mode=private_files.FILE)
        if begun:
            self.gateway.wake([files.name for files in begun])

    def fail_waiting(self, runs: Sequence[Run], predecessor: Run) -> None:
        """Ends the queued runs of a predecessor that is about to be deleted."""
        for run in runs:
            self._end_waiting(run, dependency_failed(predecessor.name, "was deleted"))

    def _end_waiting(self, run: Run, end: Outcome) -> bool:
        """Ends a run that has not begun; False if it has."""
        files = self._files(run)
        if not private_files.write_new(files.claim, ""):
            return False
        queue.record_end(files, end)
        return True

    def reconcile(self) -> None:
        """Starts the runs that can start, records the ends of lost ones, and delivers notifications."""
        self._undelivered.deliver()
        if any(self.layout.clusters.glob("*/queue/[0-9] *")):
            with contextlib.suppress(BatchAIError):  # a warning reports it, and the next pass retries
                self.gateway.reconcile()

    # -- commands on nodes

    def execute(self, cluster: ClusterRef, command: NodeCommand) -> CommandOutput:
        """Runs a command on a node, without reserving CPUs of it."""
        ids = {node.name: node.id for node in self.gateway.nodes()}
        if command.node not in ids:
            raise api_errors.node_not_found(command.node)
        folder = self.layout.node(cluster.guid, command.node)
        in_shell = command.with_mounts(self.layout.mounts(cluster.guid))
        arguments = [self.facts.python, ids[command.node], str(folder), in_shell]
        return self._output(self.gateway.command(NODE_COMMAND, arguments), command.tick_s)

    def _output(self, words: Sequence[str], tick_s: float) -> CommandOutput:
        """The output of a command, and finally its exit code."""
        line = CommandLine(words, os.environ)
        code = yield from Machine().stream(line, tick_s=tick_s)
        yield CommandEnd(code)

    def close(self) -> None:
        """Ends the program that is connected to Ray; runs continue."""
        self.gateway.close()

    def _files(self, run: Run) -> SupervisedFiles:
        return SupervisedFiles(self.layout.job(run.guid).root)


def _status(
    run: Run, files: SupervisedFiles, *, is_lost: bool = False, doubts: Mapping[str, str] = NO_DOUBTS
) -> RunStatus:
    """The status of a run, from its files; `doubts` (code → text) explain why it may be out of date."""
    attempts, end = files.attempts, files.outcome
    if is_lost and end is None:
        end = files.lost_end()._replace(ended=time.time())
    latest = attempts[-1] if attempts else None
    started = latest.started if latest else None
    has_several = len(attempts) > 1 or bool(latest and latest.ended)
    shown = tuple(attempts) if has_several else ()
    if end:
        return RunStatus.of_end(end, started, shown)
    warnings = tuple(
        warning for code, text in doubts.items() for warning in Outcome(None).warned(code, text).warnings
    )
    warnings += Outcome(None).with_watch_notes(filter(None, [text_of(files.unwatched)])).warnings
    is_running = latest is not None and latest.ended is None
    state, changed = _open_state(run, files, started if is_running else None)
    return RunStatus(
        state,
        changed,
        started,
        nodes=latest.nodes if latest and is_running else (),
        waiting=_wait_reason(files) if state is ExecutionState.QUEUED else "",
        attempts=shown,
        warnings=warnings,
    )


def _open_state(run: Run, files: SupervisedFiles, started: float | None) -> tuple[ExecutionState, float]:
    """The state of a run that has not ended, and since when; `started` is when its attempt started."""
    if files.stop.exists():
        return ExecutionState.TERMINATING, files.stop.stat().st_mtime
    if started is None:
        return ExecutionState.QUEUED, run.created
    if files.requeue.exists():
        return ExecutionState.QUEUED, started
    if files.ending.exists():
        return ExecutionState.TERMINATING, files.ending.stat().st_mtime
    return ExecutionState.RUNNING, started


def _wait_reason(files: SupervisedFiles) -> str:
    """Why a run is queued; empty if its cluster is full."""
    if files.claim.exists():
        return text_of(files.waiting)
    jobs = files.root.parent
    predecessors = read_predecessors(files)
    return waiting_reason(run for run in predecessors if read_end(JobLayout(jobs / run.guid).end) is None)


class RayBackend(Service):
    """Jobs on a Ray cluster. State, shares and logs are below its home."""

    def __init__(self, settings: RaySettings, bounds: JobBounds | None = None, *, pass_env: str = "") -> None:
        layout = Layout(settings.home.expanduser().absolute())
        private_files.make_home(layout.home, setting="ray.home")
        if not take_over(layout.home):
            text = f"{layout.home} is a copy of another machine's home, with files of jobs that use it"
            hint = "Choose another folder with ray.home, or delete this one if those jobs have ended."
            raise StorageError(text, code="HomeIsCopy", hint=hint)
        repository = FileRepository(layout)
        self.runner = RayRunner(layout, settings, pass_env=pass_env)
        quota = settings.core_quota
        super().__init__(repository, self.runner, setting="ray.home", core_quota=quota, bounds=bounds)
