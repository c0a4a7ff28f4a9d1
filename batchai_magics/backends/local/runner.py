"""The scheduler, nodes and supervisors of this machine as the engine of a service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Capabilities, api_errors
from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import TMPDIR, Layout
from batchai_magics.backends.local.state import database_errors, job_table, node_table, resource_table
from batchai_magics.backends.local.state.job_table import Awaited
from batchai_magics.backends.local.state.run_status import LOOPBACK, run_statuses
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.state.table_rows import query_in_batches
from batchai_magics.backends.local.watch import process, reconciler
from batchai_magics.backends.local.watch.detached_process import JobSecrets, Secrets, clean_environment
from batchai_magics.backends.local.watch.outcome_writer import write_outcome
from batchai_magics.backends.local.watch.reconciler import Reconciler
from batchai_magics.backends.node.job_environment import RUN_SCRIPT, without_logins
from batchai_magics.backends.node.outcome import TERMINATE, dependency_failed, failed_with, stopped
from batchai_magics.backends.node.ranks import termination
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
    Predecessor,
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


FRESH_S = 0.1  # how old a pass may be that serves as another one …
QUIET_S = 0.5  # … if nothing was recorded since
SETUP_FAILED = "NodeSetupFailed"  # error code
_RECORDED = "SELECT guid FROM resource WHERE guid IN"
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
        """The command that runs containers; CapabilityError for a private image that it cannot pull."""
        from batchai_magics.backends.node import containers
        from batchai_magics.errors import CapabilityError

        engine = containers.engine(self._settings.container_command)
        if has_credentials and engine and containers.is_daemonless(engine):
            text = f"{_CREDENTIALS} is not supported by the local backend"
            hint = "Docker and podman can pull private images."
            raise CapabilityError(text, code="NotSupported", hint=hint)
        return engine

    def has_uv(self) -> bool:
        """Whether `uv`, or the module of the `python` that jobs find, is on this machine."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        if shutil.which("uv", path=path):
            return True
        python = shutil.which("python", path=path) or sys.executable
        return subprocess.run([python, "-c", "import uv"], capture_output=True, check=False).returncode == 0

    def notes_of_cluster(self, spec: ClusterSpec) -> tuple[str, ...]:
        """A sentence about the actual hardware of its nodes if it differs from their VM size."""
        from batchai_magics.backends.local import machine_devices

        return machine_devices.hardware_notes(spec, machine_devices.machine())


class LocalRunner(Runner):
    """Runs jobs on this machine; see `backends.service.runner.Runner`.

    The queue and the nodes are tables of the database that has the records. Processes are started outside of
    its transactions, by `reconcile`.
    """

    def __init__(self, store: Store, layout: Layout, settings: LocalSettings, *, pass_env: str = "") -> None:
        self._store, self._layout, self._settings, self._pass_env = store, layout, settings, pass_env
        self.facts = LocalFacts(settings)
        self.reconciler = Reconciler(store, layout)
        self._new: dict[str, Secrets] = {}  # of runs and clusters that were created here, by guid
        self._stopped: set[str] = set()  # the runs whose supervisors are to read the store
        self._supervisors: list[str] = []  # of open runs
        self._supervised = ""  # the version of the store that they are of
        self._reconciled = ""  # the version of the store at the last pass
        self._is_due = False  # whether something was changed here since the last pass

    def check(self, request: Request, cluster: ClusterRef | None) -> EngineState:
        """What the queue needs to know of a run; nothing of a cluster, whose nodes are folders."""
        if cluster is None or isinstance(request, ClusterRequest):
            return {}
        state = {"node_count": request.node_count, "priority": request.priority}
        if not request.gpu_count:
            return state
        from batchai_magics.backends.local import machine_devices
        from batchai_magics.errors import Problem, SpecError

        count, nodes, wanted = len(machine_devices.machine().gpus), cluster.scale.maximum, request.gpu_count
        own = count // max(1, nodes)
        if wanted > own:
            text = f"--gpus {wanted}: a node of {cluster.name} has {own or 'no'} GPU{'s' * (own > 1)}"
            hint = "ask for fewer, or leave it out for whole nodes"
            if count >= wanted * request.node_count:
                text += f": its {nodes} nodes share this machine's {count if count > 1 else 'one'}"
                hint = f"for more, batchai cluster resize -n {cluster.name} --target {count // wanted}"
            raise SpecError([Problem("properties.batchaiGpus", text, hint)], what=request.what)
        return {**state, "gpu_count": request.gpu_count}

    # -- clusters

    def apply(self, cluster: ClusterRef, change: ClusterChange | None) -> None:
        """Adds or removes nodes; those of a deleted cluster go with its record.

        The secrets of a setup task stay in memory until the first nodes are set up.
        """
        self._is_due = True
        if change is None:
            return
        from batchai_magics.backends.local.watch import node_allocation

        if change.setup:
            plan = change.setup.plan
            private_files.write(self._layout.cluster_setup(cluster.guid), plan.to_json() if plan else "")
            self._new[cluster.guid] = Secrets(setup=change.setup.secrets)
        with self._store.write() as db:
            node_table.add_cluster(db, cluster.guid, idle_s=self._settings.idle_s)
            self._stopped |= {*node_allocation.resize(db, cluster, change.option)}

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        """The nodes of a cluster."""
        with self._store.read() as db:
            rows = node_table.of_guid(db, cluster.guid)
        return [NodeStatus(row.id, row.state, row.error, SETUP_FAILED, LOOPBACK) for row in rows]

    # -- runs

    def submit(self, runs: Sequence[PlannedRun]) -> None:
        """Writes the Plans of runs to their folders and queues them; their secrets stay in memory."""
        self._is_due = True
        environ = without_logins(clean_environment(sys.executable, self._pass_env))
        for planned in runs:
            job, guid = self._layout.job(planned.run.guid), planned.run.guid
            planned.plan.write(str(job.submitted))
            private_files.write(job.environment, json.dumps(environ))
            secrets = JobSecrets(planned.secrets, planned.registry_password)
            self._new[guid] = Secrets(jobs={guid: secrets} if secrets else {})
            self._queue(planned.run, planned.cluster, planned.after)

    def _queue(self, run: Run, cluster: ClusterRef, after: Sequence[Predecessor]) -> None:
        """Queues a run, and copies what the database knows of it to its folder.

        It ends at once if a run in `after` that must succeed has failed.
        """
        from batchai_magics.backends.local.state import store_rebuild

        awaited = tuple(Awaited(each.run.guid, each.run.name, each.must_succeed) for each in after)
        with self._store.write() as db:
            row, cluster_id = resource_table.by_guid(db, run.guid), ResourceId.parse(run.state["cluster"])
            of_cluster = node_table.find_cluster(db, cluster.guid)
            if of_cluster is None:
                raise resource_table.not_found(db, cluster_id)
            owner, limit = str(row.more.get(OWNER, "")), self._settings.max_queued_jobs
            if limit and job_table.queued_count(db, owner) >= limit:
                text = f"{owner or 'this user'} has {limit} queued job(s), as many as one user may have here"
                hint = "Submit it when some of them have started, or cancel some."
                raise ConflictError(text, code="QueuedJobsLimit", hint=hint)
            job_table.insert(
                db,
                job_table.JobRow(
                    key=row.resource_id.key,
                    guid=run.guid,
                    cluster=of_cluster.key,
                    node_count=run.state["node_count"],
                    priority=2 - run.state["priority"],
                    output_root=run.state["output_root"],
                    python=sys.executable,
                    needs_secrets=bool(self._new[run.guid].jobs),
                    engine=(),
                    changed=time.time(),
                    spawner=process.own_identity(),
                    owner=owner,
                    gpu_count=run.state.get("gpu_count", 0),
                    max_running=self._settings.max_running_jobs,
                    job_group=run.group.name,
                    group_limit=run.group.limit,
                    after=awaited,
                ),
            )
            for each in awaited:
                if not job_table.release_from(db, each):
                    text = f"no job can start after {each.name}: it was deleted"
                    raise NotFoundError(text, code="JobNotFound")
            try:
                store_rebuild.write_backup(db, row.resource_id, cluster_id, self._layout.job(run.guid))
            except OSError as error:
                raise database_errors.no_room(self._layout.jobs, error) from error

    def reconcile(self) -> None:
        """Tells supervisors of the stops that were requested here, recovers, and starts what can start.

        Passes without changes made here are shared: one serves all that are asked for within `FRESH_S`, and
        within `QUIET_S` while the store stays as it is.
        """
        if not self._layout.database.exists():
            return  # nothing was created yet, and a command that reads makes no home
        stopped, self._stopped = self._stopped, set()
        wake(self._store, stopped)
        is_due, self._is_due = self._is_due, False
        if new := self._recorded():
            from batchai_magics.backends.local.watch import scheduler

            only = next(iter(new)) if len(new) == 1 else ""
            secrets = Secrets(
                jobs={guid: job for each in new.values() for guid, job in each.jobs.items()},
                setup={name: value for each in new.values() for name, value in each.setup.items()},
            )
            with scheduler.release_on_interrupt(self._store, only):
                self.reconciler.reconcile(is_due=True, secrets=secrets)
            return
        version = self._store.version
        max_age_s = QUIET_S if version == self._reconciled else FRESH_S
        try:
            if self.reconciler.reconcile(is_due=is_due, max_age_s=max_age_s):
                self._reconciled = version
        except StorageError as error:  # ending a job must not fail since others cannot start
            if error.code != database_errors.DISK_FULL:
                raise

    def _recorded(self) -> dict[str, Secrets]:
        """What was created here and is recorded now; the transaction of another thread may not be over."""
        if not self._new:
            return {}
        with self._store.read() as db:
            known = {row["guid"] for row in query_in_batches(db, _RECORDED, [*self._new])}
        taken = {guid: self._new.pop(guid, None) for guid in known}  # None: another thread starts it
        return {guid: secrets for guid, secrets in taken.items() if secrets is not None}

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        """The status of each run; one whose supervisor is gone has the end that `reconcile` will record."""
        guids = [run.guid for run in runs]
        with self._store.read() as db:
            recorded = run_statuses(db, guids)
            statuses = reconciler.with_lost(db, self._layout, guids, recorded)
        self._is_due |= statuses != recorded
        return statuses

    def version(self) -> str:
        """The version of the store while all open runs have their supervisors; else empty."""
        with self._store.read() as db:
            version, supervisors = self._store.version, self._supervisors
            if version != self._supervised:
                supervisors = [job.supervisor or job.spawner for job in job_table.open_and_watched(db)]
                self._supervisors, self._supervised = supervisors, version
        return version if all(map(process.is_alive, supervisors)) else ""

    def stop(self, runs: Sequence[Run], reason: str = "", *, grace_s: float | None = None) -> None:
        """Asks runs to end, in one transaction; those without nodes end at once."""
        self._is_due = True
        guids = [run.guid for run in runs]
        if grace_s == 0.0:
            with self._store.read() as db:
                jobs = [job for guid in guids if (job := job_table.find_open(db, guid)) and job.stop]
            for job in jobs:
                termination.kill(partial(process.marked, job.guid))
        watched = request_stop(self._store, guids, reason)
        if not reason:  # else their cluster is being deleted, in a transaction
            wake(self._store, watched)

    def fail_waiting(self, runs: Sequence[Run], predecessor: Run) -> None:
        """Ends those of the runs that still wait for a predecessor, which is about to be deleted."""
        self._is_due = True
        end, chosen = dependency_failed(predecessor.name, "was deleted"), {run.guid for run in runs}

        def end_all(db: Database) -> None:
            for run in job_table.waiting_for(db, predecessor.guid):
                if run.guid in chosen:
                    write_outcome(db, run.key, run.guid, end)

        self._store.insist(end_all)

    def preempt(self, cluster: ClusterRef, name: str) -> bool:
        """Removes a node, which a new one replaces; its run is requeued. False when there is no such node."""
        with self._store.write() as db:
            rows = {row.id: row for row in node_table.of_guid(db, cluster.guid)}
            if name in rows:
                self._stopped |= {*node_table.preempt(db, rows[name])}
        return name in rows

    def execute(self, cluster: ClusterRef, command: NodeCommand) -> CommandOutput:
        """Runs a command in the folder of a node."""
        from batchai_magics.backends.local.watch import node_commands

        with self._store.read() as db:
            if not node_table.has_node(db, cluster.guid, command.node):
                raise api_errors.node_not_found(command.node)
        return node_commands.run(
            self._layout, cluster.guid, command.node, command.command, tick_s=command.tick_s
        )

    def close(self) -> None:
        """Closes the database; jobs keep running."""
        self._store.close()


def request_stop(store: Store, guids: Sequence[str], no_cluster: str = "") -> list[str]:
    """Requests, in one transaction, that runs stop; queued ones without nodes end at once.

    Works on a full disk. `no_cluster` says so if they end with their cluster. Returns the guids to `wake`.
    """
    with store.read() as db:
        if not job_table.is_any_open(db, guids):
            return []
    end = failed_with("ClusterNotFound", no_cluster) if no_cluster else stopped(TERMINATE)

    def stop(db: Database) -> list[str]:
        jobs = [job for guid in guids if (job := job_table.find_open(db, guid))]
        for job in jobs:
            if job.is_assigned:
                job_table.ask_to_stop(db, job.key, no_cluster or TERMINATE)
                job_table.set_terminating(db, job.key)
            else:
                write_outcome(db, job.key, job.guid, end)
        return [job.guid for job in jobs if job.supervisor]

    return store.insist(stop)


def wake(store: Store, guids: Iterable[str]) -> None:
    """Has the supervisors of these runs read the store now.

    One that has not started its job polls anyway, and SIGTERM would end it while it loads.
    """
    with store.read() as db:
        watched = [(job_table.supervisor_of(db, guid), job_table.has_begun(db, guid)) for guid in guids]
    for supervisor, has_begun in watched:
        call = process.ask_to_end if has_begun else process.resume
        call(supervisor)
