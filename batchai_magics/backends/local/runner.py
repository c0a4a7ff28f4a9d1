"""The scheduler, nodes and supervisors of this machine as the engine of a service."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Capabilities, api_errors
from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import TMPDIR, Layout
from batchai_magics.backends.local import process, reconciler, scheduler
from batchai_magics.backends.local.process import Secrets, clean_environment
from batchai_magics.backends.local.reconciler import Children
from batchai_magics.backends.local.state import database_file, job_table, node_table
from batchai_magics.backends.local.state.run_status import LOOPBACK, run_statuses
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.node.job_environment import RUN_SCRIPT, without_logins
from batchai_magics.backends.node.node_programs import RUN_COMMAND
from batchai_magics.backends.node.outcome import TERMINATE, dependency_failed, failed_with, stop_outcome
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import MARK
from batchai_magics.backends.service.host_runs import HostRuns
from batchai_magics.backends.service.repository import OWNER
from batchai_magics.backends.service.runner import (
    ClusterChange,
    ClusterRef,
    ClusterRequest,
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
)
from batchai_magics.errors import ConflictError, NotFoundError, StorageError
from batchai_magics.models.resource_ids import ResourceId

if TYPE_CHECKING:
    from batchai_magics.backends.base import CommandOutput
    from batchai_magics.backends.local.settings import LocalSettings
    from batchai_magics.models.cluster_spec import ClusterSpec


SETUP_FAILED = "NodeSetupFailed"  # error code
_CREDENTIALS = "properties.containerSettings.imageSourceRegistry.credentials"


class LocalFacts(EngineFacts):
    """What this machine offers to jobs."""

    capabilities = Capabilities(
        name="local",
        key_vault=False,
        logins=False,
        known_sizes=True,
        stop_conditions=True,
        notifications=True,
        custom_processes=True,
        restarts=True,
        shared_gpus=True,
        preflight=True,
        chains=True,
    )
    has_node_commands = True
    prepares_nodes = True
    knows_busy_nodes = True
    file_server_address = LOOPBACK

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self.host_runs = HostRuns(
            "no docker, podman or apptainer works here",
            "Install podman, docker or apptainer, or set local.container_command.",
            "local.host_preparation",
            settings.host_preparation,
        )

    @property
    def site(self) -> EngineSite:
        """What a Plan needs to know of this machine."""
        from batchai_magics.backends.local import machine_devices

        return EngineSite(
            python=sys.executable,
            script_wrapper=RUN_SCRIPT,
            environ=os.environ,
            core_count=None,
            disk_grace_s=self._settings.disk_grace_s,
            has_devices=bool(machine_devices.machine().gpus),
            tmpdir=TMPDIR,
        )

    def container_engine(self, *, has_credentials: bool) -> tuple[str, ...]:
        """The command that runs containers.

        Raises:
            CapabilityError: It cannot pull a private image, or the one that the settings name is missing.
        """
        from batchai_magics.backends.node import containers
        from batchai_magics.errors import CapabilityError

        engine = containers.engine(self._settings.container_command)
        if has_credentials and engine and containers.is_daemonless(engine):
            text = f"{_CREDENTIALS} is not supported by the local backend"
            hint = "Docker and podman can pull private images."
            raise CapabilityError(text, code="NotSupported", hint=hint)
        if engine and not shutil.which(engine[0]):
            text = f"local.container_command names {engine[0]}, and there is no such program here"
            hint = "Correct the setting, or leave it empty to have one found. Nothing was submitted."
            raise CapabilityError(text, code="NotSupported", hint=hint)
        return engine

    def has_uv(self) -> bool:
        """Whether `uv`, or the module of the `python` that jobs find, is on this machine."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        if shutil.which("uv", path=path):
            return True
        python = shutil.which("python", path=path) or sys.executable
        return subprocess.run([python, "-c", "import uv"], capture_output=True, check=False).returncode == 0

    def has_path(self, path: str) -> bool:
        """Whether this machine, whose folders are the nodes, has this path."""
        return os.path.lexists(path)

    def notes_of_cluster(self, spec: ClusterSpec) -> tuple[str, ...]:
        """A sentence about the actual hardware of its nodes if it differs from their VM size."""
        from batchai_magics.backends.local import machine_devices

        return machine_devices.hardware_notes(spec, machine_devices.machine())


class LocalRunner(Runner):
    """Runs jobs on this machine; see `backends.service.runner.Runner`.

    The queue and the nodes are tables of the database that has the records. Processes are started outside of
    its transactions, by `reconcile`.
    """

    fresh_s = 0.1  # the maximum age of a pass that another caller shares …
    quiet_s = 0.5  # … if nothing was recorded since

    def __init__(self, store: Store, layout: Layout, settings: LocalSettings, *, pass_env: str = "") -> None:
        self.store, self.layout = store, layout
        self._settings, self._pass_env = settings, pass_env
        self.facts = LocalFacts(settings)
        # Of the runs and clusters that each thread has created here, by guid: another thread must not start
        # what is not recorded yet.
        self._new: dict[int, dict[str, Secrets]] = defaultdict(dict)
        self._stopped: set[str] = set()  # the runs whose supervisors are to read the store
        self._supervisors: list[str] = []  # of open runs
        self._supervised = ""  # the version of the store that they were read from
        self._lock = threading.RLock()  # for one pass at a time
        self._started = Children()
        self._reconciled = ""  # the version of the store at the last pass
        self._reconciled_s = -math.inf  # when that began
        self._is_due = False  # whether something was changed here since the last pass

    def check(self, request: Request, cluster: ClusterRef | None) -> EngineState:
        """What the queue needs to know of a run; nothing of a cluster, whose nodes are folders."""
        if cluster is None or isinstance(request, ClusterRequest):
            return {}
        state = {"node_count": request.node_count, "priority": request.scheduling_priority.rank}
        gpu_count = request.batchai_gpus
        if not gpu_count:
            return state
        from batchai_magics.backends.local import machine_devices
        from batchai_magics.errors import Problem, SpecError

        count, nodes = len(machine_devices.machine().gpus), cluster.scale.maximum
        share = count // max(1, nodes)
        if gpu_count > share:
            text = f"--gpus {gpu_count}: a node of {cluster.name} has {share or 'no'} GPU{'s' * (share > 1)}"
            hint = "ask for fewer, or leave it out for whole nodes"
            if count >= gpu_count * request.node_count:
                text += f": its {nodes} nodes share this machine's {count if count > 1 else 'one'}"
                hint = f"for more, batchai cluster resize -n {cluster.name} --target {count // gpu_count}"
            raise SpecError([Problem("properties.batchaiGpus", text, hint)], what=request.what)
        return {**state, "gpu_count": gpu_count}

    # -- clusters

    def apply(self, cluster: ClusterRef, change: ClusterChange | None) -> None:
        """Adds or removes nodes; a deleted cluster's nodes go with its record.

        The secrets of a setup task stay in memory until the first nodes are set up.
        """
        self._is_due = True
        if change is None:
            return
        if change.setup:
            plan = change.setup.plan
            private_files.write(self.layout.cluster_setup(cluster.guid), plan.to_json() if plan else "")
            self._new[threading.get_ident()][cluster.guid] = Secrets(change.setup.secrets)
        with self.store.write() as db:
            node_table.add_cluster(db, cluster.guid, idle_s=self._settings.idle_s)
            self._stopped |= {*scheduler.resize(db, cluster, change.option)}
            if change.setup and change.setup.secrets:
                node_table.hold(db, cluster.guid, process.own_identity())

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        """The nodes of a cluster."""
        with self.store.read() as db:
            rows = node_table.of_cluster(db, cluster.guid)
        return [NodeStatus(row.id, row.state, row.error, SETUP_FAILED, LOOPBACK) for row in rows]

    def preempt(self, cluster: ClusterRef, name: str) -> bool:
        """Removes a node, which a new one replaces; its run is requeued. False when there is no such node."""
        with self.store.write() as db:
            rows = {row.id: row for row in node_table.of_cluster(db, cluster.guid)}
            if name in rows:
                self._stopped |= {*node_table.preempt(db, rows[name])}
        return name in rows

    def execute(self, cluster: ClusterRef, command: NodeCommand) -> CommandOutput:
        """Runs a command in the folder of a node, with the environment of a job.

        Yields empty output after each `tick_s` of silence. Closing or interrupting the generator ends the
        command and all processes it has started.
        """
        with self.store.read() as db:
            if not node_table.has_node(db, cluster.guid, command.node):
                raise api_errors.node_not_found(command.node)
        return self._output(cluster.guid, command)

    def _output(self, guid: str, command: NodeCommand) -> CommandOutput:
        from batchai_magics.backends.base import CommandEnd
        from batchai_magics.backends.machines.machine import CommandLine, Machine

        mark = f"exec-{uuid.uuid4()}"
        env = {
            **clean_environment(sys.executable),
            "AZ_BATCHAI_MOUNT_ROOT": str(self.layout.mounts(guid)),
            "TMPDIR": str(self.layout.tmpdir(guid, command.node)),
            MARK: mark,
        }
        words = process.start_command(sys.executable, RUN_COMMAND.partition(".")[2], ["", command.command])
        line = CommandLine(words, env, str(self.layout.node(guid, command.node)))
        try:
            code = yield from Machine().stream(line, tick_s=command.tick_s)
        except FileNotFoundError:  # it was removed meanwhile
            raise api_errors.node_not_found(command.node) from None
        except BaseException:  # what still writes when the program has ended, or was killed
            try:
                termination.end_all(partial(process.marked, mark))
            except KeyboardInterrupt:  # a second Ctrl-C: no grace period
                termination.kill(partial(process.marked, mark))
            raise
        yield CommandEnd(code if code >= 0 else 128 - code)

    # -- runs

    def submit(self, runs: Sequence[PlannedRun]) -> None:
        """Writes the Plans of runs to their folders and queues them; their secrets stay in memory."""
        self._is_due = True
        environ = without_logins(clean_environment(sys.executable, self._pass_env))
        for planned in runs:
            job = self.layout.job(planned.run.guid)
            planned.plan.write(str(job.submitted))
            private_files.write(job.environment, json.dumps(environ))
            secrets = Secrets(planned.secrets, planned.registry_password)
            self._new[threading.get_ident()][planned.run.guid] = secrets
            with self.store.write() as db:
                self._queue(db, planned, needs_secrets=bool(secrets))

    def _queue(self, db: Database, planned: PlannedRun, *, needs_secrets: bool) -> None:
        """Queues a run, and copies what the database knows of it to its folder.

        It ends at once if a predecessor that must succeed has failed.
        """
        from batchai_magics.backends.local.state import store_rebuild

        run, owner = planned.run, str(planned.run.state.get(OWNER, ""))
        if node_table.find_cluster(db, planned.cluster.guid) is None:
            raise api_errors.not_found(ResourceId.parse(run.state["cluster"]), [])
        limit = self._settings.max_queued_jobs
        if limit and job_table.queued_count(db, owner) >= limit:
            text = f"{owner or 'this user'} has {limit} queued job(s), as many as one user may have here"
            hint = "Submit it when some of them have started, or cancel some."
            raise ConflictError(text, code="QueuedJobsLimit", hint=hint)
        row = job_table.JobRow(
            key=job_table.id_of(db, run.guid).lower(),
            guid=run.guid,
            cluster=planned.cluster.guid,
            node_count=run.state["node_count"],
            priority=2 - run.state["priority"],
            python=sys.executable,
            needs_secrets=needs_secrets,
            changed=time.time(),
            spawner=process.own_identity(),
            owner=owner,
            gpu_count=run.state.get("gpu_count", 0),
            max_running=self._settings.max_running_jobs,
            job_group=run.group.name,
            group_limit=run.group.limit,
            after=planned.after,
        )
        job_table.insert(db, row)
        for predecessor in planned.after:
            if not job_table.release_from(db, predecessor):
                text = f"no job can start after {predecessor.name}: it was deleted"
                raise NotFoundError(text, code="JobNotFound")
        try:
            store_rebuild.write_backup(db, row, self.layout.job(run.guid))
        except OSError as error:
            raise database_file.no_room(self.layout.jobs, error) from error

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        """The status of each run; one whose supervisor is gone has the end that `reconcile` will record."""
        with self.store.read() as db:
            statuses, is_any_lost = run_statuses(db, self.layout, [run.guid for run in runs])
        self._is_due |= is_any_lost
        return statuses

    def version(self) -> str:
        """The version of the store while all open runs have their supervisors; else empty."""
        with self.store.read() as db:
            version, supervisors = self.store.version, self._supervisors
            if version != self._supervised:
                supervisors = [job.supervisor or job.spawner for job in job_table.open_and_watched(db)]
                self._supervisors, self._supervised = supervisors, version
        return version if all(map(process.is_alive, supervisors)) else ""

    def stop(self, runs: Sequence[Run], reason: str = "", *, grace_s: float | None = None) -> None:
        """Asks runs to end, in one transaction; those without nodes end at once. Works on a full disk."""
        self._is_due = True
        guids = [run.guid for run in runs]
        with self.store.read() as db:
            open_jobs = [job for job in job_table.find_all(db, guids) if job.is_open]
        if not open_jobs:
            return
        if grace_s == 0.0:
            for job in open_jobs:
                if job.stop:
                    termination.kill(partial(process.marked, job.guid))
        end = failed_with("ClusterNotFound", reason) if reason else stop_outcome(TERMINATE)

        def stop(db: Database) -> list[str]:
            jobs = [job for job in job_table.find_all(db, guids) if job.is_open]
            for job in jobs:
                if job.is_assigned:
                    job_table.ask_to_stop(db, job.guid, reason or TERMINATE, overrides=True)
                    job_table.set_terminating(db, job.guid)
                else:
                    scheduler.record_end(db, job.guid, end)
            return [job.guid for job in jobs if job.supervisor]

        watched = self.store.insist(stop)
        if not reason:  # else their cluster is being deleted, in a transaction
            wake(self.store, watched)

    def fail_waiting(self, runs: Sequence[Run], predecessor: Run) -> None:
        """Ends the runs that still wait for a predecessor that is about to be deleted."""
        self._is_due = True
        end, chosen = dependency_failed(predecessor.name, "was deleted"), {run.guid for run in runs}

        def end_all(db: Database) -> None:
            for run in job_table.waiting_for(db, predecessor.guid):
                if run.guid in chosen:
                    scheduler.record_end(db, run.guid, end)

        self.store.insist(end_all)

    # -- passes

    def reconcile(self) -> None:
        """Tells supervisors of the stops that were requested here, recovers, and starts what can start.

        A pass is skipped if nothing was changed here and the last one began within `fresh_s`, or within
        `quiet_s` if the store has not changed since; concurrent callers share one. On a read-only disk there
        is none.
        """
        if not self.layout.database.exists():
            return  # nothing was created yet, and a command that reads makes no home
        stopped_jobs, self._stopped = self._stopped, set()
        if stopped_jobs:
            wake(self.store, stopped_jobs)
        new = self._new.pop(threading.get_ident(), {})
        is_due, self._is_due = self._is_due or bool(new), False
        version, asked_s = self.store.version, time.monotonic()
        max_age_s = self.quiet_s if version == self._reconciled else self.fresh_s
        self.store.leave_snapshot()  # others need the store while this thread waits
        only = next(iter(new)) if len(new) == 1 else ""
        try:
            with reconciler.release_on_interrupt(self.store, only), self._lock:
                if self._reconciled_s > asked_s - max_age_s and not is_due:
                    return
                began_s = time.monotonic()
                self.reap()
                if self.store.is_read_only:
                    return
                self.store.reserve.refill()
                started = reconciler.reconcile_if_due(self.store, self.layout, is_due=is_due, secrets=new)
                self._started += started
                self._reconciled, self._reconciled_s = version, began_s
        except StorageError as error:  # ending a job must not fail since others cannot start
            if new or error.code != database_file.DISK_FULL:
                raise

    def reap(self) -> int:
        """Reaps supervisors that have exited; returns how many children of this process still run."""
        self.store.leave_snapshot()
        with self._lock:
            self._started = [child for child in self._started if child.poll() is None]
            return len(self._started)

    def close(self) -> None:
        """Closes the database; jobs keep running."""
        self.store.close()


def wake(store: Store, guids: Iterable[str]) -> None:
    """Has the supervisors of these runs read the store now.

    One that has not started its job polls anyway, and SIGTERM would end it while it loads.
    """
    with store.read() as db:
        runs = [run for guid in guids if (run := job_table.find(db, guid))]
    for run in runs:
        call = process.resume if run.started is None else process.ask_to_end
        call(run.supervisor)
