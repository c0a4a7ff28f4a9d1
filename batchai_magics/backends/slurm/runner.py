"""Slurm as an engine of the service: clusters and runs on its queue and nodes, late notifications."""

from __future__ import annotations

import json
import math
import shlex
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from batchai_magics.backends.base import Capabilities, CommandOutput, Pace, api_errors
from batchai_magics.backends.folders import installed_programs, private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import write_predecessors
from batchai_magics.backends.machines.machine import CommandLine, Machine
from batchai_magics.backends.node.node_programs import RUN_COMMAND, start_words
from batchai_magics.backends.node.outcome import TERMINATE, failed_with
from batchai_magics.backends.service.file_repository import FileClock, FileRepository
from batchai_magics.backends.service.runner import (
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
)
from batchai_magics.backends.service.service import Service
from batchai_magics.backends.service.undelivered import UndeliveredNotifications
from batchai_magics.backends.slurm import client, sbatch
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.clusters import SILENT, Placement, SlurmClusters
from batchai_magics.backends.slurm.queries import QueryCache
from batchai_magics.backends.slurm.runs import Runs
from batchai_magics.backends.slurm.settings import SBATCH, SlurmSettings, slurm_values
from batchai_magics.errors import Problem, SpecError
from batchai_magics.launch import planning
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.states import DeallocationOption


class SlurmFacts(EngineFacts):
    """The features of a Slurm cluster."""

    capabilities = Capabilities(
        name="slurm",
        unmanaged_mounts=False,
        key_vault=False,
        logins=False,
        stop_conditions=True,
        notifications=True,
        restarts=True,
        shared_gpus=True,
        preflight=True,
        chains=True,
        custom_processes=True,
        backend_options=(SBATCH.name,),
        known_sizes=True,
        # Each poll reads some small files of each job: a file system that many share.
        pace=Pace(poll_interval_s=0.5),
    )
    has_node_commands = True

    def __init__(
        self, layout: Layout, machine: Machine, settings: SlurmSettings, clusters: SlurmClusters
    ) -> None:
        self._layout, self._machine, self._settings = layout, machine, settings
        self._clusters = clusters
        self.host_runs = sbatch.host_runs(settings)

    @property
    def python(self) -> str:
        """The interpreter used on nodes."""
        return self._settings.python or self._machine.python

    @property
    def site(self) -> EngineSite:
        """The facts that Plans of runs depend on; installs the programs of nodes in the home."""
        folder = installed_programs.install(self._layout.home, sbatch.PROGRAMS)
        return EngineSite(
            python=self.python,
            script_wrapper=str(folder / installed_programs.RUN_SCRIPT),
            environ=self._machine.environ,
            core_count=None,
            disk_grace_s=self._settings.disk_grace_s,
            has_scratch=bool(self._settings.scratch),
        )

    def container_engine(self, *, has_credentials: bool) -> tuple[str, ...]:
        """The command that runs a job's containers on nodes."""
        command = self._settings.container_command
        return sbatch.container_engine(
            command, has_credentials=has_credentials, has=self._machine.has_program
        )

    def warnings(self, cluster: ClusterRef) -> Sequence[ClusterWarning]:
        """Warnings if the settings now name another partition, and if Slurm does not answer."""
        return self._clusters.warnings(cluster)

    def has_uv(self) -> bool:
        """Whether jobs would find `uv`, or the module of their Python, where they are submitted."""
        env = client.command_environment(self._machine, self.python, self._settings.conf)
        line = CommandLine(["sh", "-c", "command -v uv || python -c 'import uv'"], env)
        return self._machine.run(line, timeout_s=client.TIMEOUT_S).code == 0


# The fields of a run's state that are equal for all tasks of an array.
_OF_ARRAY = (
    *("partition", "options", "minutes", "niceness", "is_restarted", "notice_s", "node_count", "python"),
)
MAX_SIGNAL_S = 65_535  # the longest time that `sbatch --signal` takes


class SlurmRunner(Runner):
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
        self._undelivered = UndeliveredNotifications(layout)
        self._latest_arrays: dict[str, str] = {}  # the number of the last array by the name of its group
        self.facts = SlurmFacts(layout, machine, settings, self._clusters)

    def check(self, request: Request, cluster: ClusterRef | None) -> EngineState:
        """The state that a submission needs, or that of a cluster: its partition, and its nodes if fixed."""
        if isinstance(request, ClusterRequest):
            return self._clusters.state_of(request, cluster)
        assert cluster, "every run has one"
        options, general = request.backend_options.get(SBATCH.name, ""), self._settings.options
        if request.batchai_gpus:  # Slurm keeps the GPUs of jobs apart that share a node
            general = " ".join(word for word in general.split() if word != "--exclusive")
            options = f"--gpus-per-node={request.batchai_gpus} {options}".rstrip()
        self._clusters.check(cluster, request, options)
        more, limits = cluster.state, planning.limits(request)
        return {
            "partition": more["partition"],
            "options": " ".join((general, more["options"], options)),
            "minutes": sbatch.minutes(limits.wall_s, more["limit"], grace_s=limits.grace_s),
            "niceness": sbatch.NICENESS[request.scheduling_priority.rank],
            "is_restarted": bool(limits.max_restarts),
            "grace_s": limits.grace_s,
            "notice_s": min(MAX_SIGNAL_S, math.ceil(limits.warn_s)),
            "node_count": request.node_count,
            "python": self.facts.python,
        }

    # -- clusters

    def apply(self, cluster: ClusterRef, change: ClusterChange | None) -> None:
        """Ends or requeues runs on nodes that leave, and updates the placement of pending ones.

        The secrets of a setup task, which jobs run here, are in a file that only its owner can read.
        """
        secrets_file = sbatch.secrets_file(self._layout, cluster.guid)
        if change is None:
            return secrets_file.unlink(missing_ok=True)
        if change.setup and change.setup.secrets:
            private_files.write(secrets_file, json.dumps(dict(change.setup.secrets)))
        if change.runs:
            placement = self._clusters.placement(cluster)
            leaving = {*cluster.state["leaving"]}
            for run, status in change.runs:
                if not status.nodes:
                    self.runs.update_placement(run, placement)
                elif leaving.isdisjoint(status.nodes):
                    continue
                elif change.option is DeallocationOption.REQUEUE:
                    self.runs.requeue(run, placement)
                elif change.option is DeallocationOption.TERMINATE:
                    self.runs.ask_to_stop(run)

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        """The nodes of a cluster; those whose setup task failed are unusable."""
        nodes = self._clusters.nodes(cluster, busy)
        return sbatch.with_setup_problems(nodes, self._layout, cluster.guid, busy)

    # -- runs

    def submit(self, runs: Sequence[PlannedRun]) -> None:
        """Submits runs, several of a cluster as arrays; ServiceError with Slurm's message if refused."""
        by_cluster: dict[str, list[PlannedRun]] = {}
        for planned in runs:
            sbatch.check_rank_containers(planned.plan)
            if planned.after and "dependency" in slurm_values(shlex.split(planned.run.state["options"])):
                text = "--dependency does not go with --after and --after-any"
                raise SpecError([Problem("properties.batchaiSlurm", text)], what="the job description")
            by_cluster.setdefault(planned.cluster.guid, []).append(planned)
        with private_files.pipelined(self._layout.home):
            for planned in runs:
                sbatch.write(self._layout, planned, self._settings)
                write_predecessors(self._layout.job(planned.run.guid), planned.after)
            for of_cluster in by_cluster.values():
                placement = self._clusters.placement(of_cluster[0].cluster)
                if len(of_cluster) == 1:
                    self.runs.submit(of_cluster[0].run, placement)
                else:
                    self._submit_arrays(of_cluster, placement)

    def _submit_arrays(self, runs: Sequence[PlannedRun], placement: Placement) -> None:
        """Submits runs as arrays, split at Slurm's limit of tasks and throttled by Slurm."""
        size = max(1, int(self._queries.configuration().get("MaxArraySize", "1001")))
        by_request: dict[str, list[Run]] = {}
        for run, after in ((planned.run, planned.after) for planned in runs):
            predecessors = [(predecessor.guid, predecessor.must_succeed) for predecessor in after]
            request = [run.group, predecessors, *map(run.state.get, _OF_ARRAY)]
            by_request.setdefault(json.dumps(request), []).append(run)
        for alike in by_request.values():
            for begin in range(0, len(alike), size):
                part, group = alike[begin : begin + size], alike[0].group
                # The limit is one array's: the next one of the group waits for the end of this one.
                previous = self._latest_arrays.get(group.name, "") if group.limit else ""
                number = self.runs.submit_array(part, placement, limit=group.limit, after=previous)
                self._latest_arrays[group.name] = number

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        """The status of each run, read as one batch; open ones have a warning if Slurm does not answer."""
        with self.runs.observer.batched(runs):
            statuses = self.runs.observer.statuses(runs)
            silence = self._queries.silence("jobs") if any(status.is_open for status in statuses) else ""
        if silence:
            warning = Outcome(None).warned(SILENT, silence).warnings
            statuses = [
                replace(status, warnings=(*status.warnings, *warning)) if status.is_open else status
                for status in statuses
            ]
        self._undelivered.observe(runs, statuses)
        return statuses

    def reconcile(self) -> None:
        """Records the ends that runs could not report, and delivers pending notifications."""
        self.runs.record_due()
        self._undelivered.deliver()

    def snapshot(self, runs: Sequence[Run], clusters: Sequence[str] = ()) -> AbstractContextManager[None]:
        """The folders of these runs, of the setup of these clusters, and the query cache's files."""
        folders = self.runs.observer.folders(runs)
        folders += [sbatch.setup_folder(self._layout, guid) for guid in clusters]
        programs = installed_programs.folder_of(self._layout.home)
        return private_files.read_ahead(folders, self._queries.files, listed=[programs])

    def stop(self, runs: Sequence[Run], reason: str = "", *, grace_s: float | None = None) -> None:
        """Asks runs to end; pending ones end at once."""
        for run in runs:
            if grace_s == 0.0:
                self.runs.kill(run)
            is_waiting = bool(reason) and self.runs.observer.has_never_started(run)
            self.runs.ask_to_stop(run, reason or TERMINATE)
            if is_waiting and self.runs.observer.has_never_started(run):
                self.runs.conclude(run, failed_with("ClusterNotFound", reason))

    def fail_waiting(self, runs: Sequence[Run], predecessor: Run) -> None:
        """Ends the pending runs of a predecessor that is about to be deleted."""
        for run in runs:
            self.runs.fail_waiting(run, predecessor)

    # -- commands on nodes

    def execute(self, cluster: ClusterRef, command: NodeCommand) -> CommandOutput:
        """Runs a command on a node: alongside a run's processes, or as a short job if none runs."""
        node = command.node
        if node not in command.busy and not self._clusters.has_node(cluster, node, command.busy):
            raise api_errors.node_not_found(node)
        folder = self._layout.node(cluster.guid, node)
        private_files.make_folder(folder)
        code_file = folder / f"command-{uuid.uuid4().hex}"
        programs = installed_programs.install(self._layout.home, sbatch.PROGRAMS)
        start = start_words(self.facts.python, RUN_COMMAND, programs)  # which ends with its standard input
        placement = self._srun_target(cluster, node, command.runs)
        options = ["--nodes=1", "--ntasks=1", "--mpi=none", "--quiet"]
        in_shell = command.with_mounts(self._layout.mounts(cluster.guid))
        args = ["srun", *placement, *options, *start, str(code_file), in_shell]
        env = client.command_environment(self._machine, self.facts.python, self._settings.conf)
        line = CommandLine(args, env, str(folder))
        return client.run_on_node(self._machine, line, code_file=code_file, tick_s=command.tick_s)

    def _srun_target(
        self, cluster: ClusterRef, node: str, runs: Sequence[tuple[Run, RunStatus]]
    ) -> list[str]:
        """The srun options that place a command on a node."""
        for run, status in runs:
            if node in status.nodes:
                return [f"--jobid={self.runs.observer.slurm_job(run)}", "--overlap", f"--nodelist={node}"]
        options = shlex.split(cluster.state["options"])
        return [
            f"--partition={cluster.state['partition']}",
            f"--nodelist={node}",
            "--job-name=batchai-exec",
            *options,
        ]

    def close(self) -> None:
        """Closes the connection to another machine."""
        self._machine.close()


class SlurmBackend(Service):
    """Jobs on a Slurm cluster. State, shares and logs are below its home, which hosts and nodes share."""

    def __init__(
        self, settings: SlurmSettings, bounds: JobBounds | None = None, *, pass_env: str = ""
    ) -> None:
        self.settings, machine = settings, settings.machine
        self.layout = Layout(machine.resolve(settings.usual_home))
        private_files.make_home(self.layout.home, setting="slurm.home")
        repository = FileRepository(self.layout)
        self.runner = SlurmRunner(self.layout, machine, settings, repository.clock, pass_env=pass_env)
        quota = settings.core_quota
        super().__init__(repository, self.runner, setting="slurm.home", core_quota=quota, bounds=bounds)
