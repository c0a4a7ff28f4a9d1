"""The scheduler, nodes and supervisors of this machine as the engine of a service."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state import job_table, node_table, resource_table
from batchai_magics.backends.local.state.run_status import LOOPBACK, run_statuses
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.detached_process import JobSecrets, Secrets, clean_environment
from batchai_magics.backends.local.watch.reconciler import Reconciler
from batchai_magics.backends.node.job_environment import without_logins
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.repository import OWNER, Footprint
from batchai_magics.backends.service.runner import (
    ClusterRef,
    ClusterRequest,
    ClusterWarning,
    EngineState,
    Launch,
    NodeSetup,
    NodeStatus,
    Run,
    RunRequest,
    RunStatus,
    Site,
)
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import DeallocationOption

if TYPE_CHECKING:
    from batchai_magics.backends.base import CommandOutput
    from batchai_magics.backends.local.settings import LocalSettings
    from batchai_magics.backends.local.state.store import Database, Store

FRESH_S = 0.1  # cache TTL for polling
SETUP_FAILED = "NodeSetupFailed"  # error code
_CREDENTIALS = "properties.containerSettings.imageSourceRegistry.credentials"


class LocalRunner:
    """Runs jobs on this machine; see `backends.service.runner.Runner`.

    The queue and the nodes are tables of the database that has the records. Processes are started outside of
    its transactions: when what was created here is looked at for the first time.
    """

    def __init__(self, store: Store, layout: Layout, settings: LocalSettings, *, pass_env: str = "") -> None:
        self._store, self._layout, self._settings, self._pass_env = store, layout, settings, pass_env
        self.reconciler = Reconciler(store, layout)
        self._new: dict[str, Secrets] = {}  # of runs and clusters that are being created, by guid
        self._stopped: set[str] = set()  # the runs whose supervisors are to read the store

    @property
    def has_unstarted(self) -> bool:
        """Whether something that was created here has not been looked at yet: `poll` or `nodes` starts it."""
        return bool(self._new)

    # -- clusters

    def allocate(
        self,
        request: ClusterRequest,
        *,
        before: ClusterRef | None,
        busy: Mapping[str, str],
        others: Sequence[EngineState],
    ) -> EngineState:
        """Nothing to remember: nodes are folders, as many as the quota allows."""
        return {}

    def resized(
        self, cluster: ClusterRef, runs: Sequence[tuple[Run, RunStatus]], option: DeallocationOption
    ) -> None:
        """Adds or removes nodes; the option says what happens to what runs on those that leave."""
        from batchai_magics.backends.local.watch import node_allocation

        with self._store.write() as db:
            node_table.add_cluster(db, cluster.guid, idle_s=self._settings.idle_s)
            self._stopped |= {*node_allocation.resize(db, cluster, option)}

    def set_up(
        self, cluster_guid: str, node_setup: Callable[[Site], NodeSetup], secrets: Mapping[str, str]
    ) -> None:
        """Writes down how nodes are set up; the secrets stay in memory until the first ones are."""
        from batchai_magics.backends.local.machine_devices import machine_site
        from batchai_magics.backends.local.watch.plan_binding import SetupPlan

        setup = node_setup(machine_site(self._settings.disk_grace_s))
        SetupPlan(setup.plan, setup.is_elevated).write(self._layout.cluster_setup(cluster_guid))
        self._new[cluster_guid] = Secrets(setup=secrets)

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        """The nodes of a cluster, those of a new one before they are prepared."""
        with self._store.read() as db:
            rows = node_table.of_guid(db, cluster.guid)
        if not self._store.is_writing:
            self.start(cluster.guid)
        return [NodeStatus(row.id, row.state, row.error, SETUP_FAILED, LOOPBACK) for row in rows]

    def has_node(self, cluster: ClusterRef, name: str, busy: Mapping[str, str]) -> bool:
        """Whether a node belongs to a cluster."""
        with self._store.read() as db:
            return node_table.has_node(db, cluster.guid, name)

    def warnings(self, cluster: ClusterRef) -> Sequence[ClusterWarning]:
        """Nothing."""
        return []

    def remove_cluster(self, cluster_guid: str) -> None:
        """Nothing: its nodes go with its record."""

    # -- runs

    def admit(self, request: RunRequest, cluster: ClusterRef) -> EngineState:
        """What the queue needs to know."""
        state = {"node_count": request.node_count, "priority": request.priority}
        if not request.gpu_count:
            return state
        self._check_gpus(request, cluster)
        return {**state, "gpu_count": request.gpu_count}

    def _check_gpus(self, request: RunRequest, cluster: ClusterRef) -> None:
        """Raises SpecError if a node of the cluster has fewer GPUs."""
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
        import shutil
        import subprocess

        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        if shutil.which("uv", path=path):
            return True
        python = shutil.which("python", path=path) or sys.executable
        return subprocess.run([python, "-c", "import uv"], capture_output=True, check=False).returncode == 0

    def site(self, cluster: ClusterRef) -> Site:
        """What a Plan needs to know of this machine."""
        from batchai_magics.backends.local.machine_devices import machine_site

        return machine_site(self._settings.disk_grace_s)

    def prepare(self, run: Run, launch: Launch) -> None:
        """Writes the Plans of a run to its folder; its secrets stay in memory."""
        from batchai_magics.backends.local.watch.plan_binding import SubmittedRun

        submitted = SubmittedRun(launch.plan, launch.preparation, launch.port_count)
        submitted.write(self._layout.job(run.guid).submitted)
        environ = without_logins(clean_environment(sys.executable, self._pass_env))
        private_files.write(self._layout.job(run.guid).environment, json.dumps(environ))
        secrets = JobSecrets(launch.secrets, launch.registry_password)
        self._new[run.guid] = Secrets(jobs={run.guid: secrets} if secrets else {})

    def submit(self, run: Run, cluster: ClusterRef) -> None:
        """Queues a run, and copies what the database knows of it to its folder."""
        from batchai_magics.backends.local.state import store_rebuild

        with self._store.write() as db:
            row, cluster_id = resource_table.by_guid(db, run.guid), ResourceId.parse(run.state["cluster"])
            of_cluster = node_table.find_cluster(db, cluster.guid)
            if of_cluster is None:
                raise resource_table.not_found(db, cluster_id)
            owner = str(row.more.get(OWNER, ""))
            self._check_queue(db, owner)
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
                ),
            )
            with self._refusing_full_folder():
                store_rebuild.write_backup(db, row.resource_id, cluster_id, self._layout.job(run.guid))

    def _check_queue(self, db: Database, owner: str) -> None:
        """Raises ConflictError if a user has as many queued jobs as the settings allow."""
        limit = self._settings.max_queued_jobs
        if limit and job_table.queued_count(db, owner) >= limit:
            from batchai_magics.errors import ConflictError

            text = f"{owner or 'this user'} has {limit} queued job(s), as many as one user may have here"
            hint = "Submit it when some of them have started, or cancel some."
            raise ConflictError(text, code="QueuedJobsLimit", hint=hint)

    @contextmanager
    def _refusing_full_folder(self) -> Iterator[None]:
        from batchai_magics.backends.local.state import database_errors

        try:
            yield
        except OSError as error:
            raise database_errors.no_room(self._layout.jobs, error) from error

    def start(self, guid: str) -> None:
        """Starts what can start of a run or cluster that was created here."""
        secrets = self._new.pop(guid, None)
        if secrets is None:
            return
        from batchai_magics.backends.local.watch import scheduler

        with (
            scheduler.release_on_interrupt(self._store, guid),
            scheduler.head_start(self._store, self._layout, guid),
        ):
            self.reconciler.reconcile(is_due=True, secrets=secrets)

    def _start_new(self, guids: Sequence[str]) -> None:
        """Starts what can start of those that were created here: several at once in one step."""
        new = [guid for guid in guids if guid in self._new]
        if len(new) < 2:
            for guid in new:
                self.start(guid)
            return
        taken = [self._new.pop(guid) for guid in new]
        jobs = {guid: secrets for each in taken for guid, secrets in each.jobs.items()}
        from batchai_magics.backends.local.watch import scheduler

        with scheduler.release_on_interrupt(self._store):
            self.reconciler.reconcile(is_due=True, secrets=Secrets(jobs=jobs))

    def apply_changes(self) -> None:
        """Tells supervisors of the stops that were requested here, and starts what can start."""
        from batchai_magics.backends.local.watch import job_stopping

        stopped, self._stopped = self._stopped, set()
        job_stopping.wake(self._store, stopped)
        self.reconciler.reconcile_if_room(is_due=True)

    def poll(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        """The status of each run; outside of a snapshot, after a check that their processes are alive."""
        if runs and not self._store.is_writing:
            self._start_new([run.guid for run in runs] if self._new else [])
            if not self._store.is_in_snapshot:
                self.reconciler.reconcile_if_room(max_age_s=FRESH_S)
        with self._store.read() as db:
            return run_statuses(db, [run.guid for run in runs])

    def footprint(self, runs: Sequence[Run], clusters: Sequence[str] = ()) -> Footprint:
        """No files: the database has it all."""
        return Footprint()

    def stop(self, runs: Sequence[Run], *, now: bool = False) -> None:
        """Asks runs to end, in one transaction; those without nodes end at once."""
        from batchai_magics.backends.local.watch import job_stopping

        guids = [run.guid for run in runs]
        if now:
            job_stopping.kill_stopped(self._store, guids)
        job_stopping.wake(self._store, job_stopping.request_stop(self._store, guids))

    def cluster_deleted(self, run: Run, text: str) -> None:
        """Ends a run whose cluster is deleted: as soon as its supervisor reads that, or at once."""
        from batchai_magics.backends.local.watch import job_stopping

        job_stopping.end_without_cluster(self._store, run.guid, text)

    def preempt(self, cluster: ClusterRef, name: str) -> bool:
        """Removes a node, which a new one replaces; its run is requeued. False when there is no such node."""
        with self._store.write() as db:
            rows = {row.id: row for row in node_table.of_guid(db, cluster.guid)}
            if name in rows:
                self._stopped |= {*node_table.preempt(db, rows[name])}
        return name in rows

    # -- commands on nodes

    def execute(
        self,
        cluster: ClusterRef,
        node: str,
        command: str,
        *,
        runs: Sequence[tuple[Run, RunStatus]],
        tick_s: float,
    ) -> CommandOutput:
        """Runs a command in the folder of a node."""
        from batchai_magics.backends.local.watch import node_commands

        return node_commands.run(self._layout, cluster.guid, node, command, tick_s=tick_s)

    def close(self) -> None:
        """Closes the database; jobs keep running."""
        self._store.close()
