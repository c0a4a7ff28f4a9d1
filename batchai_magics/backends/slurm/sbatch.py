"""The parts of a submission: the bundle of a run in the home, its batch script, the options of sbatch."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.folders import installed_programs, private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.node import containers
from batchai_magics.backends.node.node_programs import start_words
from batchai_magics.backends.service.host_runs import HostRuns
from batchai_magics.backends.service.runner import NodeStatus, PlannedRun
from batchai_magics.backends.slurm import parse
from batchai_magics.backends.slurm.node.node_setups import FAILED, NodeSetups, problem
from batchai_magics.backends.slurm.node.run_files import JobBundle, RunFiles, dependency
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.errors import CapabilityError
from batchai_magics.launch.plan import GRACE_S, LaunchMode, Plan
from batchai_magics.models.states import NodeState

PROGRAMS = "backends/slurm/node"  # the folder of the programs of its nodes
HOST = "host"  # in place of an engine: jobs run without their image
ENGINES = ("apptainer", "singularity", "enroot", "podman")
_FIELD = "properties.containerSettings"


def host_runs(settings: SlurmSettings) -> HostRuns:
    """How jobs with an image run if `slurm.container_command` is `host`."""
    return HostRuns(
        f"slurm.container_command is `{HOST}`",
        "Set it to what runs containers on the nodes.",
        "slurm.host_preparation",
        settings.host_preparation,
    )


def container_engine(
    configured: str, *, has_credentials: bool, has: Callable[[str], bool]
) -> tuple[str, ...]:
    """The command that runs a job's containers; empty if jobs run on the host.

    `has` returns whether a program is installed where jobs are submitted, assumed to be like the nodes.

    Raises:
        CapabilityError: No engine is installed.
    """
    if has_credentials:
        field = f"{_FIELD}.imageSourceRegistry.credentials"
        raise _unsupported(field, "", "Sign in where the image is pulled; nothing was written.")
    if configured:
        return () if configured.strip() == HOST else containers.engine(configured)
    engines = [name for name in ENGINES if has(name)]
    if not engines:
        reason = f" here: there is no {', '.join(ENGINES[:-1])} or {ENGINES[-1]}"
        hint = f"Set slurm.container_command to what the nodes have, or to `{HOST}` to do without the image."
        raise _unsupported(_FIELD, reason, hint)
    return (engines[0],)


def check_rank_containers(plan: Plan) -> None:
    """Raises CapabilityError if the ranks of several nodes could not connect from their containers.

    srun passes a rank its process manager as a descriptor, which the processes of a daemon do not inherit:
    each rank would compute alone.
    """
    engine = plan.containers.engine
    is_joined = plan.launcher is LaunchMode.MPI and len(plan.nodes) > 1
    if plan.containers.image and engine and is_joined and not containers.passes_descriptors(engine):
        reason = (
            f" for MPI on {len(plan.nodes)} nodes with {engine[0]}: its containers cannot join srun's MPI"
        )
        hint = "Set slurm.container_command to podman or apptainer, or run the job on one node."
        raise _unsupported(_FIELD, reason, hint)


def _unsupported(field: str, reason: str, hint: str) -> CapabilityError:
    return CapabilityError(
        f"{field} is not supported by the slurm backend{reason}", code="NotSupported", hint=hint
    )


def secrets_file(layout: Layout, guid: str) -> Path:
    """The secrets of a cluster's setup task; exists only as long as the cluster."""
    return layout.cluster(guid) / "setup-secrets.json"


def setup_folder(layout: Layout, guid: str) -> Path:
    """The results of the setup task, per node."""
    return layout.cluster(guid) / "setup"


def with_setup_problems(
    nodes: Sequence[NodeStatus], layout: Layout, cluster_guid: str, busy: Collection[str]
) -> list[NodeStatus]:
    """The nodes of a cluster, with idle ones whose setup failed marked unusable."""
    records = NodeSetups(setup_folder(layout, cluster_guid)).all()
    failed = {name: record for name, record in records.items() if record.exit_code and name not in busy}
    return [
        node._replace(state=NodeState.UNUSABLE, reason=problem(node.name, failed[node.name]), code=FAILED)
        if node.name in failed
        else node
        for node in nodes
    ]


SLACK_S = 90.0  # added to the job's own time limit and grace, so that the job can end itself and report why
NICENESS = (0, 10_000, 20_000)  # for high, normal and low priority


def write(layout: Layout, planned: PlannedRun, settings: SlurmSettings) -> None:
    """Writes a run's job bundle, its secrets, and the batch script of its first attempt.

    The programs of nodes must have been installed.
    """
    run, cluster_guid = planned.run, planned.cluster.guid
    files = RunFiles(layout.job(run.guid).root)
    programs = str(installed_programs.current(layout.home, PROGRAMS))
    setup = planned.setup._replace(exits=str(files.setup_exits)) if planned.setup else None
    bundle = JobBundle(
        plan=planned.plan.to_json(),
        mpi=settings.mpi,
        programs=programs,
        home=str(layout.home),
        setup=setup.to_json() if setup else "",
        setups=str(setup_folder(layout, cluster_guid)),
        setup_secrets=str(secrets_file(layout, cluster_guid)),
        scratch=settings.scratch,
        scratch_limit_bytes=settings.scratch_limit_mib << 20,
        lost_s=settings.lost_s,
    )
    files.reserve_room(len(planned.plan.processes))
    private_files.write(files.bundle, bundle.to_json())
    if planned.secrets:
        private_files.write(files.secrets, json.dumps(dict(planned.secrets)))
    write_script(files, 1, python=run.state["python"], programs=programs)


def minutes(wall_s: float, partition_limit: str, *, grace_s: float = GRACE_S) -> int:
    """The time limit for Slurm: slightly above the job's own, capped at the partition's."""
    minutes_needed, limit = math.ceil((wall_s + grace_s + SLACK_S) / 60), parse.minutes(partition_limit)
    return minutes_needed if limit is None else min(minutes_needed, limit)


def write_script(files: RunFiles, attempt: int, *, python: str, programs: str) -> None:
    """Writes the batch script of an attempt, with the folder of the programs of nodes."""
    text = batch_script(files.root, attempt, python=python, programs=programs)
    private_files.write(files.script, text)


_RUN_JOB = "batchai_magics.backends.slurm.node.run_job"

_SCRIPT = """#!/bin/bash
# The first node of a job's allocation runs this. What the job is lies in {root}
trap '' TERM USR1
exec {line}
"""


_ARRAY_SCRIPT = """#!/bin/bash
# Each task of the array runs the job in one of these folders.
trap '' TERM USR1
names=({names})
exec {start} {folder}/"${{names[$SLURM_ARRAY_TASK_ID]}}" 1
"""


@dataclass(frozen=True)
class SubmitOptions:
    """The sbatch options of one attempt of a job, or of the first attempts of many: the tasks of an array.

    The tasks are numbered from 0, and `guid` and `log` are the array's.
    """

    name: str
    guid: str
    partition: str
    node_count: int
    minutes: int
    log: Path
    niceness: int = 0
    excluded: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # the numbers of the jobs that must end first
    is_held: bool = False
    is_restarted: bool = False  # whether Slurm is to queue it again when it loses its nodes
    notice_s: int = 0  # how long before its end its program is signalled; 0: never
    more: tuple[str, ...] = ()  # user-supplied options
    task_count: int = 0  # of an array
    task_limit: int = 0  # how many tasks run at once; 0: any number

    @property
    def options(self) -> list[str]:
        """The options of sbatch; user-supplied ones come last and take precedence."""
        log = str(self.log).replace("%", "%%")  # Slurm's own patterns begin with a percent sign
        throttle = f"%{self.task_limit}" * bool(self.task_limit)
        args = [f"--array=0-{self.task_count - 1}{throttle}"] * bool(self.task_count)
        args += [
            f"--job-name={job_name(self.name)}",
            f"--comment={self.guid}",
            f"--nodes={self.node_count}",
            f"--time={self.minutes}",
            f"--output={log}{'/%a' * bool(self.task_count)}",
            "--open-mode=append",
            "--requeue" if self.is_restarted else "--no-requeue",
            f"--nice={self.niceness}",
        ]
        args += [f"--signal=B:USR1@{self.notice_s}"] * bool(self.notice_s)
        args += [f"--partition={self.partition}"] * bool(self.partition)
        args += [f"--exclude={','.join(self.excluded)}"] * bool(self.excluded)
        args += [f"--dependency={dependency(self.after)}"] * bool(self.after)
        return [*args, *["--hold"] * self.is_held, *self.more]


def array_script(folder: Path, names: Sequence[str], *, python: str, programs: str) -> str:
    """The batch script of an array: each task runs the job in one of these folders."""
    start = shlex.join(start_words(python, _RUN_JOB, programs))
    return _ARRAY_SCRIPT.format(folder=shlex.quote(str(folder)), names=" ".join(names), start=start)


def job_name(name: str) -> str:
    """The name of a job in Slurm."""
    return f"batchai-{name}"


def batch_script(root: Path, attempt: int, *, python: str, programs: str) -> str:
    """The batch script, which execs the program that runs the job."""
    args = [*start_words(python, _RUN_JOB, programs), str(root), str(attempt)]
    return _SCRIPT.format(root=root, line=shlex.join(args))
