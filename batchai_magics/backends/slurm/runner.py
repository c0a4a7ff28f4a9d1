"""Slurm as an engine of the service: clusters and runs on its queue and nodes, late notifications."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from batchai_magics.backends.base import CommandOutput
from batchai_magics.backends.folders.file_repository import FileClock
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.machines.machine import CommandLine, Machine
from batchai_magics.backends.node.outcome import TERMINATE, failed_with
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.repository import Footprint
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
from batchai_magics.backends.slurm import bundle_writer, cli_args, client, programs
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.clusters import SlurmClusters
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.queries import QueryCache
from batchai_magics.backends.slurm.runs import Runs
from batchai_magics.backends.slurm.settings import SBATCH, SlurmSettings
from batchai_magics.errors import BatchAIError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.states import DeallocationOption


class Undelivered:
    """Looks into the outboxes of a home at first, and whenever a run is seen to end."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._open: set[str] = set()
        self._is_first = True
        self._thread: threading.Thread | None = None

    def deliver_after(self, runs: Sequence[Run], statuses: Sequence[RunStatus]) -> None:
        """Takes the statuses that were just read; delivers in a thread, which ends with the process."""
        ended = {run.guid for run, status in zip(runs, statuses, strict=True) if not status.is_open}
        is_news = self._is_first or not self._open.isdisjoint(ended)
        self._open = (self._open | {run.guid for run in runs}) - ended
        if not is_news or (self._thread and self._thread.is_alive()):
            return
        self._is_first = False
        self._thread = threading.Thread(target=self._deliver, daemon=True, name="batchai-notify")
        self._thread.start()

    def _deliver(self) -> None:
        from batchai_magics.backends.slurm.node import notification_sending

        with contextlib.suppress(OSError, ValueError, BatchAIError):  # the next client tries again
            for folder in list(self._layout.outboxes.iterdir()):
                notification_sending.deliver_left(RunFiles(self._layout.job(folder.name).root))


SILENT = "SlurmUnavailable"  # the code of a warning
# What all tasks of an array have in common.
_OF_ARRAY = (
    *("partition", "options", "minutes", "niceness", "is_restarted", "notice_s", "node_count", "python"),
)
MAX_SIGNAL_S = 65_535  # the longest time that `sbatch --signal` takes


class SlurmRunner:
    """Runs jobs on Slurm; see `backends.service.runner.Runner`."""

    def __init__(
        self,
        layout: Layout,
        machine: Machine,
        settings: SlurmSettings,
        clock: FileClock,
        *,
        pass_env: str = "",
    ) -> None:
        self._layout, self._machine, self._settings = layout, machine, settings
        slurm = SlurmClient(machine, settings.conf, pass_env=pass_env)
        self._queries = QueryCache(slurm, layout.home / "asked", settings.look_s, clock)
        self.runs = Runs(layout, slurm, self._queries, settings)
        self._clusters = SlurmClusters(layout, self._queries, settings)
        self._undelivered = Undelivered(layout)
        self._latest_arrays: dict[str, str] = {}  # the number of the last array by the name of its group

    @property
    def _python(self) -> str:
        """The interpreter used on nodes."""
        return self._settings.python or self._machine.python

    # -- clusters

    def allocate(
        self,
        request: ClusterRequest,
        *,
        before: ClusterRef | None,
        busy: Mapping[str, str],
        others: Sequence[EngineState],
    ) -> EngineState:
        """The partition of a cluster and, with fixed placement, its nodes."""
        if before is None:
            return self._clusters.initial_state(request, others)
        return self._clusters.resized(before, request, busy=busy, others=others)

    def resized(
        self, cluster: ClusterRef, runs: Sequence[tuple[Run, RunStatus]], option: DeallocationOption
    ) -> None:
        """Ends or requeues what runs on nodes that leave, and tells Slurm where the others may run."""
        if not runs:
            return
        placement = self._clusters.placement(cluster)
        leaving = {*cluster.state["leaving"]}
        for run, status in runs:
            if not status.nodes:
                self.runs.update_placement(run, placement)
            elif leaving.isdisjoint(status.nodes):
                continue
            elif option is DeallocationOption.REQUEUE:
                self.runs.requeue(run, placement)
            elif option is DeallocationOption.TERMINATE:
                self.runs.ask_to_stop(run)

    def set_up(
        self, cluster_guid: str, node_setup: Callable[[Site], NodeSetup], secrets: Mapping[str, str]
    ) -> None:
        """Keeps the secrets of a setup task, which jobs run here, in a file that only its owner can read."""
        if secrets:
            private_files.write(
                bundle_writer.secrets_file(self._layout, cluster_guid), json.dumps(dict(secrets))
            )

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        """The nodes of a cluster; those whose setup task failed are unusable."""
        problems = bundle_writer.setup_problems(self._layout, cluster.guid)
        return bundle_writer.with_setup_problems(self._clusters.nodes(cluster, busy), problems, busy)

    def has_node(self, cluster: ClusterRef, name: str, busy: Mapping[str, str]) -> bool:
        """Whether a node belongs to a cluster; without fixed placement, any node of its partition does."""
        return self._clusters.has_node(cluster, name, busy)

    def warnings(self, cluster: ClusterRef) -> Sequence[ClusterWarning]:
        """Warnings if the settings now name another partition, and if Slurm does not answer."""
        found = {
            "PartitionDiffers": self._clusters.partition_warning(cluster),
            SILENT: self._queries.silence("nodes"),
        }
        return [ClusterWarning(code, message) for code, message in found.items() if message]

    def remove_cluster(self, cluster_guid: str) -> None:
        """Deletes the secrets of its setup task."""
        bundle_writer.secrets_file(self._layout, cluster_guid).unlink(missing_ok=True)

    # -- runs

    def admit(self, request: RunRequest, cluster: ClusterRef) -> EngineState:
        """Checks a run's options against the partition; returns what its submission needs."""
        text, general = request.backend_options.get(SBATCH.name, ""), self._settings.options
        if request.gpu_count:  # Slurm keeps the GPUs of jobs apart that share a node
            general = " ".join(word for word in general.split() if word != "--exclusive")
            text = f"--gpus-per-node={request.gpu_count} {text}".rstrip()
            request = replace(request, backend_options={**request.backend_options, SBATCH.name: text})
        self._clusters.check(cluster, request)
        more = cluster.state
        return {
            "partition": more["partition"],
            "options": " ".join((general, more["options"], text)),
            "minutes": bundle_writer.minutes(request.wall_s, more["limit"], grace_s=request.grace_s),
            "niceness": bundle_writer.NICENESS[request.priority],
            "is_restarted": bool(request.max_restarts),
            "grace_s": request.grace_s,
            "notice_s": min(MAX_SIGNAL_S, math.ceil(request.notice_s)),
            "node_count": request.node_count,
            "python": self._python,
        }

    def container_engine(self, *, has_credentials: bool) -> tuple[str, ...]:
        """The command that runs a job's containers on nodes."""
        command = self._settings.container_command
        return bundle_writer.container_engine(
            command, has_credentials=has_credentials, has=self._machine.has_program
        )

    def has_uv(self) -> bool:
        """Whether jobs would find `uv`, or the module of their Python, where they are submitted."""
        env = client.command_environment(self._machine, self._python, self._settings.conf)
        line = CommandLine(["sh", "-c", "command -v uv || python -c 'import uv'"], env)
        return self._machine.run(line, timeout_s=client.TIMEOUT_S).code == 0

    def site(self, cluster: ClusterRef) -> Site:
        """What the Plan of a run on a cluster depends on; installs the programs of nodes in the home."""
        folder = programs.installed(self._layout.home)
        return Site(
            python=self._python,
            script_wrapper=str(folder / programs.RUN_SCRIPT),
            environ=self._machine.environ,
            core_count=cluster.state["core_count"],
            disk_grace_s=self._settings.disk_grace_s,
            has_scratch=bool(self._settings.scratch),
        )

    def prepare(self, run: Run, launch: Launch) -> None:
        """Writes a run's job bundle, its secrets and its batch script."""
        bundle_writer.check_rank_containers(launch.plan)
        bundle_writer.write(self._layout, run, launch, self._settings)

    def submit(self, run: Run, cluster: ClusterRef) -> None:
        """Submits a prepared run; ServiceError with Slurm's message if it is refused."""
        self.runs.submit(run, self._clusters.placement(cluster))

    def submit_together(self, runs: Sequence[Run], cluster: ClusterRef) -> None:
        """Submits prepared runs as arrays, split at Slurm's limit of tasks and throttled by Slurm."""
        size = max(1, int(self._queries.configuration().get("MaxArraySize", "1001")))
        placement = self._clusters.placement(cluster)
        by_request: dict[str, list[Run]] = {}
        for run in runs:
            by_request.setdefault(json.dumps([run.group, *map(run.state.get, _OF_ARRAY)]), []).append(run)
        for alike in by_request.values():
            for begin in range(0, len(alike), size):
                part, group = alike[begin : begin + size], alike[0].group
                # The limit is one array's: the next one of the group waits for the end of this one.
                after = self._latest_arrays.get(group.name, "") if group.limit else ""
                number = self.runs.submit_array(part, placement, limit=group.limit, after=after)
                self._latest_arrays[group.name] = number

    def poll(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        """The status of each run, read as one batch."""
        with self.runs.batched(runs):
            statuses = self._with_silence(self.runs.statuses(runs))
        self._undelivered.deliver_after(runs, statuses)
        return statuses

    def _with_silence(self, statuses: Sequence[RunStatus]) -> Sequence[RunStatus]:
        """The statuses, those of open runs with a warning if Slurm does not answer."""
        if not any(status.is_open for status in statuses) or not (text := self._queries.silence("jobs")):
            return statuses
        warning = Outcome(None).warned(SILENT, text).warnings
        return [
            replace(status, warnings=(*status.warnings, *warning)) if status.is_open else status
            for status in statuses
        ]

    def footprint(self, runs: Sequence[Run], clusters: Sequence[str] = ()) -> Footprint:
        """The folders of these runs and of the setup of these clusters, and the query cache's files."""
        folders = [self._layout.job(run.guid).root for run in runs]
        folders += [bundle_writer.setup_folder(self._layout, guid) for guid in clusters]
        return Footprint(folders, self._queries.files, [programs.folder(self._layout.home)])

    def stop(self, runs: Sequence[Run], *, now: bool = False) -> None:
        """Asks runs to end; those that wait end at once."""
        for run in runs:
            if now:
                self.runs.kill(run)
            self.runs.ask_to_stop(run, TERMINATE)

    def cluster_deleted(self, run: Run, text: str) -> None:
        """Ends a run whose cluster is deleted."""
        is_waiting = self.runs.has_never_started(run)
        self.runs.ask_to_stop(run, text)
        if is_waiting and self.runs.has_never_started(run):
            self.runs.conclude(run, failed_with("ClusterNotFound", text))

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
        """Runs a command on a node: alongside a run's processes, or as a short job if none runs."""
        folder = self._layout.node(cluster.guid, node)
        private_files.make_folder(folder)
        code_file = folder / f"command-{uuid.uuid4().hex}"
        mounts = shlex.quote(str(self._layout.mounts(cluster.guid)))
        in_shell = f"export AZ_BATCHAI_MOUNT_ROOT={mounts}; {command}"
        args = cli_args.NodeCommand(self._srun_target(cluster, node, runs), in_shell, code_file).args(
            python=self._python, programs=programs.installed(self._layout.home)
        )
        env = client.command_environment(self._machine, self._python, self._settings.conf)
        line = CommandLine(args, env, str(folder))
        return client.run_on_node(self._machine, line, code_file=code_file, tick_s=tick_s)

    def _srun_target(
        self, cluster: ClusterRef, node: str, runs: Sequence[tuple[Run, RunStatus]]
    ) -> list[str]:
        """The srun options that place a command on a node."""
        for run, status in runs:
            if node in status.nodes:
                return cli_args.overlap_options(self.runs.slurm_job(run), node)
        return cli_args.separate_job_options(
            cluster.state["partition"], node, shlex.split(cluster.state["options"])
        )

    def close(self) -> None:
        """Closes the connection to another machine."""
        self._machine.close()
