"""A job's description becomes what its first node is told, and what Slurm is told of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.folders import mounts, own_logs
from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.folders.stop_order import StopOrder
from batchai_magics.backends.node import containers
from batchai_magics.backends.node.programs import JOB_MODULE
from batchai_magics.backends.node.runner.gpus import BY_BUS, ORDER
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.backends.slurm import programs, say
from batchai_magics.backends.slurm.node.order import Order
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.preparing import setups
from batchai_magics.launch import planning as launch
from batchai_magics.launch.description import Description
from batchai_magics.launch.nodes import JobSite, NodeShare
from batchai_magics.launch.plan import LogFile, Output, Plan
from batchai_magics.launch.references import Subject, joined, reference
from batchai_magics.launch.threads import THREADS
from batchai_magics.launch.toolkits import port_count
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.execution import STDOUTERR
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobPriority, JobSpec
from batchai_magics.models.times import duration
from batchai_magics.models.vm_sizes import lookup

SLACK_S = 120.0  # what a job gets of Slurm beyond its own limit: it ends itself, and says why
NICENESS = {JobPriority.HIGH: 0, JobPriority.NORMAL: 10_000, JobPriority.LOW: 20_000}


@dataclass(frozen=True)
class Run:
    """One run of a job, and what it stands on."""

    id: ResourceId
    guid: str
    spec: JobSpec
    cluster_guid: str
    cluster: ClusterSpec
    core_count: int  # of a node
    output_root: Path
    engine: tuple[str, ...]
    environ: Mapping[str, str]  # of whoever submits it
    python: str
    mpi: str
    disk_grace_s: float
    note: str = ""  # what its user is to know of it
    scratch: str = ""
    scratch_limit_bytes: int = 0

    @property
    def segment(self) -> str:
        """The path below the output prefix that belongs to the run."""
        return output_segment(self.id, self.guid)

    @property
    def logs(self) -> Path:
        """The folder of its logs."""
        return self.output_root / self.segment / STDOUTERR


def write(layout: Layout, run: Run, programs_folder: Path) -> None:
    """Makes the run's folders, and writes down what its first node does."""
    files = RunFiles(layout.job(run.guid).root)
    job = files.layout
    _make_folders(layout, run, job)
    nodes = [_node_share(layout, run, index) for index in range(run.spec.node_count)]
    site = _site(run, files, programs_folder)
    description = Description.of(run.spec)
    plan = _on_slurm(layout, launch.plan(description, nodes, site), run)
    plan = plan._replace(notes=(*plan.notes, *_notes(run, job)))
    prepared = launch.preparation(description, plan, site)
    names = [node.id for node in nodes]
    setup = setups.plan(
        layout, run.cluster_guid, run.cluster, names, python=run.python, exits=files.setup_exits
    )
    order = Order(
        plan=plan.to_json(),
        preparation=prepared.to_json() if prepared else "",
        node_count=run.spec.node_count,
        port_count=port_count(description),
        mpi=run.mpi,
        programs=str(programs_folder),
        home=str(layout.home),
        setup=setup.to_json() if setup else "",
        setups=str(setups.folder(layout, run.cluster_guid)),
        setup_secrets=str(setups.secrets_file(layout, run.cluster_guid)),
        is_setup_elevated=setups.is_elevated(run.cluster),
        scratch=run.scratch,
        scratch_limit_bytes=run.scratch_limit_bytes,
    )
    if run.spec.batchai_stop_if:
        StopOrder(run.spec.batchai_stop_if, run.spec.batchai_patterns or {}).write(job.stop_if)
    files.keep_room(len(plan.processes))
    private_files.write(files.order, order.to_json())
    _keep_secrets(files, run.spec)
    _write_script(files, 1, python=run.python, programs_folder=programs_folder)


def _make_folders(layout: Layout, run: Run, job: JobLayout) -> None:
    for folder in (job.shared_temp, run.logs, *([job.hidden] if run.spec.secrets else [])):
        private_files.make_folder(folder)
    private_files.write(job.python / "batchai_magics.py", JOB_MODULE.read_text(encoding="utf-8"))
    mounts.link(layout, job.mounts, run.spec.mount_volumes)


def _notes(run: Run, job: JobLayout) -> Sequence[str]:
    """What the user is told of the job's cluster and logs."""
    notes = [run.note] if run.note else []
    if job.unmounted in (run.output_root, *run.output_root.parents):
        prefix = run.spec.std_out_err_path_prefix
        notes.append(f"stdOutErrPathPrefix {prefix} is on no mount: the logs go with the job")
    return notes


def _keep_secrets(files: RunFiles, spec: JobSpec) -> None:
    """Keeps the job's secrets for its nodes, in a file for their owner's eyes alone, until it has ended."""
    values = {
        item.name: item.value.get_secret_value() for item in spec.secrets or () if item.value is not None
    }
    if values:
        private_files.write(files.secrets, json.dumps(values))


def minutes(spec: JobSpec, limit: int | None) -> int:
    """The time limit that Slurm is told: a little more than the job's own, and no more than a partition's."""
    wanted_s = duration(spec.constraints.max_wall_clock_time).total_seconds() + SLACK_S
    wanted = math.ceil(wanted_s / 60)
    return wanted if limit is None else min(wanted, limit)


def write_script(layout: Layout, guid: str, attempt: int, *, python: str) -> None:
    """Writes the batch script of a later attempt."""
    files = RunFiles(layout.job(guid).root)
    programs_folder = layout.home / Order.read(files.order).programs
    _write_script(files, attempt, python=python, programs_folder=programs_folder)


def _write_script(files: RunFiles, attempt: int, *, python: str, programs_folder: Path) -> None:
    text = say.batch_script(files.root, attempt, python=python, programs=programs_folder)
    private_files.write(files.script, text)


def _node_share(layout: Layout, run: Run, index: int) -> NodeShare:
    name = reference(Subject.NODE, index)
    return NodeShare(
        id=name,
        gpu_count=lookup(run.cluster.vm_size).gpus,
        mount_root=str(layout.mounts(run.cluster_guid)),
        job_mount_root=str(layout.job(run.guid).mounts),
        temp=joined([_work_folder(layout, run), "/", name]),
        address=reference(Subject.ADDRESS, index),
        core_count=run.core_count,
    )


def _work_folder(layout: Layout, run: Run) -> str:
    """The folder of the working directories: on the nodes' own disks, or where they are kept."""
    return reference(Subject.SCRATCH, 0) if run.scratch else str(layout.job(run.guid).workdir)


def _site(run: Run, files: RunFiles, programs_folder: Path) -> JobSite:
    job = files.layout
    return JobSite(
        stdouterr=str(run.logs),
        shared_temp=str(job.shared_temp),
        host_file=str(job.host_file),
        output_segment=run.segment,
        python="python" if run.engine else run.python,
        python_wrapper=str(programs_folder / programs.RUN_SCRIPT),
        ports=tuple(reference(Subject.PORT, index) for index in range(port_count(Description.of(run.spec)))),
        guid=run.guid,
        rank_python=run.python,
        exits=str(job.exits),
        preparation_exits=str(job.preparation_exits),
        records=Output(
            *(LogFile("", str(job.spans(name)), str(job.times(name))) for name in ("stdout", "stderr"))
        ),
        hidden=str(job.hidden),
        telemetry=str(job.telemetry),
        threads={name: run.environ[name] for name in THREADS if run.environ.get(name)},
        device_order=run.environ.get(ORDER) or BY_BUS,
        disk_grace_s=run.disk_grace_s,
        module_path=":".join(filter(None, [run.environ.get("PYTHONPATH"), str(job.python)])),
    )


def _on_slurm(layout: Layout, plan: Plan, run: Run) -> Plan:
    """The plan as Slurm's nodes carry it out: which GPUs are a job's is Slurm's to say."""
    nodes = tuple(
        node._replace(env={name: text for name, text in node.env.items() if name != "CUDA_VISIBLE_DEVICES"})
        for node in plan.nodes
    )
    plan = own_logs.made(plan, layout.home)
    engine = plan.containers._replace(engine=run.engine)
    return containers.noted(plan._replace(nodes=nodes, containers=engine))
