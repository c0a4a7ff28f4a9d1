"""A home as a folder: mounts as links, a folder for each run, outputs and logs where jobs wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

from batchai_magics.backends.base import Chunk
from batchai_magics.backends.folders import entries, full_disk, mounts, outputs, own_logs, telemetry
from batchai_magics.backends.folders.file_repository import Snapshots
from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.folders.logs import Logs
from batchai_magics.backends.folders.stop_order import StopIfRequest
from batchai_magics.backends.node import containers
from batchai_magics.backends.node.node_programs import JOB_MODULE
from batchai_magics.backends.node.ranks.gpus import BY_BUS, ORDER
from batchai_magics.backends.service import private_files, resource_views
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.backends.service.home_folders import CLUSTER_SPEC, OUTPUT_ROOT, RunFolder
from batchai_magics.backends.service.repository import Record
from batchai_magics.backends.service.runner import Launch
from batchai_magics.launch import planning
from batchai_magics.launch.job_description import Description
from batchai_magics.launch.job_site import JobSite, NodeShare
from batchai_magics.launch.plan import LogFile, Output, Plan, Process
from batchai_magics.launch.process_variables import THREADS
from batchai_magics.launch.references import ReferenceKind, joined, reference
from batchai_magics.launch.toolkits import port_count
from batchai_magics.models.cluster import ClusterSpec, SetupTask
from batchai_magics.models.execution import STDOUTERR, OutputFile
from batchai_magics.models.job import JobSpec
from batchai_magics.models.telemetry import TelemetryRecord
from batchai_magics.models.vm_sizes import lookup


class HomeDirectory:
    """The folders of a home; see `backends.service.home_folders.HomeFolders`."""

    def __init__(self, layout: Layout, machine: Snapshots, *, setting: str) -> None:
        """`setting` is the setting that chooses the home, for errors."""
        self._layout, self._machine, self._setting = layout, machine, setting

    def batch(self) -> AbstractContextManager[None]:
        """Within it, small files may be written in one request; all are there when it ends."""
        return private_files.at_once(self._layout.home)

    def refusing_full_disk(self) -> AbstractContextManager[None]:
        """Within it, a change that the disk has no room for is a StorageError that says what to do."""
        return full_disk.refused(self._layout.home, setting=self._setting)

    # -- clusters

    def check_cluster(self, spec: ClusterSpec) -> None:
        """Raises a SpecError for a setup task whose output is on no mount."""
        if _setup_task(spec):
            mounts.setup_logs(self._layout, spec)

    def make_cluster(self, guid: str, spec: ClusterSpec) -> None:
        """Links a cluster's mounts, and makes the folder of its setup task's output."""
        volumes = spec.node_setup.mount_volumes if spec.node_setup else None
        mounts.link(self._layout, self._layout.mounts(guid), volumes)
        if _setup_task(spec):
            private_files.make_folder(mounts.setup_logs(self._layout, spec))

    def remove_cluster(self, guid: str) -> None:
        """Deletes what belongs to a cluster alone."""
        private_files.remove_folder(self._layout.cluster(guid))

    def setup_files(self, spec: ClusterSpec, path: str) -> Sequence[OutputFile]:
        """One level of what a cluster's setup task wrote."""
        return outputs.listing(mounts.setup_logs(self._layout, spec), path)

    # -- runs

    def output_root(self, spec: JobSpec, cluster: ClusterSpec, guid: str) -> str:
        """The folder behind a job's stdOutErrPathPrefix; SpecError for one that nobody knows."""
        return str(mounts.output_root(self._layout, spec, cluster, guid))

    def make_run(self, run: RunFolder) -> Launch:
        """Makes the folder of a run with its links, and the Plans of what it starts."""
        job, description = self._layout.job(run.guid), Description.of(run.spec)
        self._make_folders(run, job)
        nodes = [self._node_share(run, index) for index in range(run.spec.node_count)]
        site = _site(run, job, self._logs(run), port_count(description))
        plan = own_logs.made(planning.plan(description, nodes, site), self._layout.home)
        engine = plan.containers._replace(engine=run.container_engine)
        plan = containers.with_container_note(plan._replace(containers=engine))
        if run.spec.batchai_stop_if:
            StopIfRequest(run.spec.batchai_stop_if, run.spec.batchai_patterns or {}).write(job.stop_if)
        task = _setup_task(run.cluster)
        return Launch(
            plan=plan._replace(notes=(*plan.notes, *self._notes(run, job))),
            preparation=planning.preparation(description, plan, site),
            setup=self._setup_plan(run, task, [node.id for node in nodes]) if task else None,
            is_setup_elevated=bool(task and task.run_elevated),
            port_count=port_count(description),
            secrets={
                item.name: item.value.get_secret_value() for item in run.spec.secrets or () if item.value
            },
        )

    def remove_run(self, guid: str) -> None:
        """Deletes the folder of a run."""
        private_files.remove_folder(self._layout.job(guid).root)

    def _make_folders(self, run: RunFolder, job: JobLayout) -> None:
        for folder in (job.shared_temp, self._logs(run), *([job.hidden] if run.spec.secrets else [])):
            private_files.make_folder(folder)
        private_files.write(job.python / "batchai_magics.py", JOB_MODULE.read_text(encoding="utf-8"))
        mounts.link(self._layout, job.mounts, run.spec.mount_volumes)

    def _notes(self, run: RunFolder, job: JobLayout) -> Iterator[str]:
        """What the user is told of the job's cluster and logs."""
        yield from run.notes
        root = PurePosixPath(run.output_root)
        if PurePosixPath(job.unmounted) in (root, *root.parents):
            prefix = run.spec.std_out_err_path_prefix
            yield f"stdOutErrPathPrefix {prefix} is on no mount: the logs go with the job"

    def _logs(self, run: RunFolder) -> Path:
        return self._layout.home / run.output_root / run.segment / STDOUTERR

    def _node_share(self, run: RunFolder, index: int) -> NodeShare:
        name = reference(ReferenceKind.NODE, index)
        return NodeShare(
            id=name,
            gpu_count=lookup(run.cluster.vm_size).gpus,
            mount_root=str(self._layout.mounts(run.cluster_guid)),
            job_mount_root=str(self._layout.job(run.guid).mounts),
            temp=joined([self._work_folder(run), "/", name]),
            address=reference(ReferenceKind.ADDRESS, index),
            core_count=run.site.core_count,
        )

    def _work_folder(self, run: RunFolder) -> str:
        """The folder of the working directories: on the nodes' own disks, or where they are kept."""
        if run.site.has_scratch:
            return reference(ReferenceKind.SCRATCH, 0)
        return str(self._layout.job(run.guid).workdir)

    def _setup_plan(self, run: RunFolder, task: SetupTask, names: Sequence[str]) -> Plan:
        """The setup task of a run's cluster, a process on each of its nodes."""
        guid, asked = run.cluster_guid, run.cluster.node_setup
        assert asked, "it has a setup task"
        root, folder = str(self._layout.mounts(guid)), str(self._layout.nodes(guid))
        logs = str(mounts.setup_logs(self._layout, run.cluster))
        shares = [NodeShare(name, 0, root, root, joined([folder, "/", name])) for name in names]
        plans = [
            planning.setup(asked, share, python=run.site.python, exits="", logs=logs) for share in shares
        ]
        processes = (
            Process(rank, rank, task.command_line, output=each.output) for rank, each in enumerate(plans)
        )
        return plans[0]._replace(
            guid=guid,
            nodes=tuple(node for each in plans for node in each.nodes),
            processes=tuple(processes),
            secrets=tuple(item.name for item in task.secrets or ()),
        )

    # -- what jobs wrote

    def files(self, job: Record, directory_id: str, path: str, limit: int | None) -> Sequence[OutputFile]:
        """One level of one of a job's output directories, sorted by name."""
        return outputs.listing(self._output(job, directory_id), path, limit=limit)

    def read(
        self, job: Record, directory_id: str, path: str, offset: int, limit: int, *, is_open: bool
    ) -> Chunk:
        """At most `limit` bytes of a file of a job; `is_open` must have been found out before."""
        folder = self._output(job, directory_id)
        if directory_id.lower() != STDOUTERR:
            return outputs.read(entries.inside(folder, path), offset, limit, is_complete=not is_open)
        layout = self._layout.job(job.guid)
        with self._machine.prefetched([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).read(path, offset, limit)

    def tail(
        self, job: Record, positions: Mapping[str, int], limit: int, *, is_open: bool
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs."""
        folder, layout = self._output(job, STDOUTERR), self._layout.job(job.guid)
        # Read only now: a run that has ended has all its records. Secrets are read after the bytes.
        with self._machine.prefetched([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).tail(positions, limit)

    def telemetry(self, guid: str, after: float) -> TelemetryRecord:
        """The samples of a run that were taken later than `after`."""
        return telemetry.read(self._layout.job(guid).telemetry, after)

    def _output(self, job: Record, directory_id: str) -> Path:
        """The folder of one of a job's output directories."""
        segment = output_segment(job.resource_id, job.guid)
        if directory_id.lower() == STDOUTERR:
            return self._layout.home / str(job.more[OUTPUT_ROOT]) / segment / STDOUTERR
        cluster = resource_views.cluster_spec(job.more[CLUSTER_SPEC])
        spec = resource_views.job_spec(job.spec)
        return mounts.output_folder(self._layout, spec, cluster, directory_id, segment)


def _setup_task(spec: ClusterSpec) -> SetupTask | None:
    return spec.node_setup.setup_task if spec.node_setup else None


def _site(run: RunFolder, job: JobLayout, logs: Path, ports: int) -> JobSite:
    engine, environ = run.site, run.site.environ
    streams = ("stdout", "stderr")
    return JobSite(
        stdouterr=str(logs),
        shared_temp=str(job.shared_temp),
        host_file=str(job.host_file),
        output_segment=run.segment,
        python="python" if run.container_engine else engine.python,
        python_wrapper=engine.script_wrapper,
        ports=tuple(reference(ReferenceKind.PORT, index) for index in range(ports)),
        guid=run.guid,
        rank_python=engine.python,
        exits=str(job.exits),
        preparation_exits=str(job.preparation_exits),
        records=Output(*(LogFile("", str(job.spans(name)), str(job.times(name))) for name in streams)),
        hidden=str(job.hidden),
        telemetry=str(job.telemetry),
        threads={name: environ[name] for name in THREADS if environ.get(name)},
        device_order=environ.get(ORDER) or BY_BUS,
        disk_grace_s=engine.disk_grace_s,
        module_path=":".join(filter(None, [environ.get("PYTHONPATH"), str(job.python)])),
    )
