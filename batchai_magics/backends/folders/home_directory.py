"""A home as a folder: links for mounts, a folder for each run, and the output and logs of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

from batchai_magics.backends.base import Chunk
from batchai_magics.backends.folders import entries, full_disk, mounts, outputs, telemetry
from batchai_magics.backends.folders.file_repository import Snapshots
from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.folders.logs import Logs
from batchai_magics.backends.folders.shares import FolderStorage
from batchai_magics.backends.folders.stop_order import StopIfRequest
from batchai_magics.backends.node import containers
from batchai_magics.backends.node.node_programs import JOB_MODULE, with_module_path
from batchai_magics.backends.node.ranks.gpus import BY_BUS, ORDER
from batchai_magics.backends.service import private_files, recorded_job, resource_views
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.backends.service.home_folders import CLUSTER_SPEC, OUTPUT_ROOT, RunFolder
from batchai_magics.backends.service.repository import Record
from batchai_magics.backends.service.runner import Launch
from batchai_magics.launch import planning
from batchai_magics.launch.job_site import JobSite, NodeShare
from batchai_magics.launch.plan import LogFile, Output, Plan, Process
from batchai_magics.launch.process_variables import THREADS
from batchai_magics.launch.references import ReferenceKind, joined, reference
from batchai_magics.launch.toolkits import port_count
from batchai_magics.models.cluster_spec import ClusterSpec, SetupTask
from batchai_magics.models.job_execution import STDOUTERR, OutputFile
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.telemetry_records import TelemetryRecord
from batchai_magics.models.vm_sizes import lookup


def with_own_logs(plan: Plan, folder: Path = Path()) -> Plan:
    """The plan with per-process log files; a single process's files are links to the job's logs.

    Lines of several processes are written twice, so that any program can open a process's file. Relative
    paths in the plan are below `folder`.
    """
    return plan._replace(processes=tuple(_create_logs(plan, process, folder) for process in plan.processes))


def _create_logs(plan: Plan, process: Process, folder: Path) -> Process:
    if not process.own:
        return process
    paths = [folder / log.path for log in process.own]
    if len(plan.processes) == 1 and all(map(_link, paths, plan.output)):
        return process._replace(own=None)
    for path in paths:
        path.touch(mode=private_files.FILE)
    return process


def _link(path: Path, target: LogFile) -> bool:
    """Links a file to another of the folder; False if the file system has no links."""
    try:
        path.symlink_to(Path(target.path).name)
    except FileExistsError:
        return path.is_symlink()
    except OSError:
        return False
    return True


class HomeDirectory:
    """The folders of a home; see `backends.service.home_folders.HomeFolders`."""

    def __init__(self, layout: Layout, machine: Snapshots, *, setting: str) -> None:
        """`setting` is the setting that selects the home, for error messages."""
        self._layout, self._machine, self._setting = layout, machine, setting
        self._shares = FolderStorage(layout.home / "shares", layout.unfinished("shares"))

    def batch(self) -> AbstractContextManager[None]:
        """Within the context, small files may be written in one request; all are written when it exits."""
        return private_files.pipelined(self._layout.home)

    def refusing_full_disk(self) -> AbstractContextManager[None]:
        """Within the context, a full disk raises a StorageError that says what to do."""
        return full_disk.refused(self._layout.home, setting=self._setting)

    def write_files(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes the script files of jobs to the folder of a share, each whole or not at all."""
        self._shares.make(share)
        self._shares.upload(share, files)

    # -- clusters

    def check_cluster(self, spec: ClusterSpec) -> None:
        """Raises a SpecError if the output of the setup task is not on a mount."""
        if _setup_task(spec):
            mounts.setup_logs(self._layout, spec)

    def make_cluster(self, guid: str, spec: ClusterSpec) -> None:
        """Links a cluster's mounts, and creates the output folder of its setup task."""
        volumes = spec.node_setup.mount_volumes if spec.node_setup else None
        mounts.link(self._layout, self._layout.mounts(guid), volumes)
        if _setup_task(spec):
            private_files.make_folder(mounts.setup_logs(self._layout, spec))

    def remove_cluster(self, guid: str) -> None:
        """Deletes a cluster's folder."""
        private_files.remove_folder(self._layout.cluster(guid))

    def setup_files(self, spec: ClusterSpec, path: str) -> Sequence[OutputFile]:
        """Lists the output of a cluster's setup task, one folder at a time."""
        return outputs.listing(mounts.setup_logs(self._layout, spec), path)

    # -- runs

    def output_root(self, spec: JobSpec, cluster: ClusterSpec, guid: str) -> str:
        """The folder of a job's stdOutErrPathPrefix; SpecError if it cannot be resolved."""
        return str(mounts.output_root(self._layout, spec, cluster, guid))

    def make_run(self, run: RunFolder) -> Launch:
        """Creates the folder of a run with its links, and the Plans of what it starts."""
        job = self._layout.job(run.guid)
        self._make_folders(run, job)
        nodes = [self._node_share(run, index) for index in range(run.spec.node_count)]
        site = _site(run, job, self._logs(run), port_count(run.spec))
        plan = with_own_logs(planning.plan(run.spec, nodes, site), self._layout.home)
        plan = _with_engine(plan, run.container_engine, job)
        if run.spec.batchai_stop_if:
            StopIfRequest(run.spec.batchai_stop_if, run.spec.batchai_patterns or {}).write(job.stop_if)
        task = _setup_task(run.cluster)
        return Launch(
            plan=plan._replace(notes=(*plan.notes, *self._notes(run, job))),
            preparation=planning.preparation(run.spec, plan, site),
            setup=self._setup_plan(run, task, [node.id for node in nodes]) if task else None,
            is_setup_elevated=bool(task and task.run_elevated),
            port_count=port_count(run.spec),
            secrets=_secrets(run.spec),
        )

    def remove_run(self, guid: str) -> None:
        """Deletes the folder of a run."""
        private_files.remove_folder(self._layout.job(guid).root)

    def _make_folders(self, run: RunFolder, job: JobLayout) -> None:
        for folder in (job.shared_temp, self._logs(run), *([job.secret_spans] if run.spec.secrets else [])):
            private_files.make_folder(folder)
        private_files.write(job.python / "batchai_magics.py", JOB_MODULE.read_text(encoding="utf-8"))
        mounts.link(self._layout, job.mounts, run.spec.mount_volumes)

    def _notes(self, run: RunFolder, job: JobLayout) -> Iterator[str]:
        """Notes for the user about the job's cluster and logs."""
        yield from run.notes
        root = PurePosixPath(run.output_root)
        if PurePosixPath(job.unmounted) in (root, *root.parents):
            prefix = run.spec.std_out_err_path_prefix
            yield f"stdOutErrPathPrefix {prefix} is on no mount: the logs go with the job"

    def _logs(self, run: RunFolder) -> Path:
        return self._layout.home / run.output_root / run.segment / STDOUTERR

    def _node_share(self, run: RunFolder, index: int) -> NodeShare:
        name, nodes = reference(ReferenceKind.NODE, index), str(self._layout.nodes(run.cluster_guid))
        return NodeShare(
            id=name,
            gpu_count=lookup(run.cluster.vm_size).gpus,
            mount_root=str(self._layout.mounts(run.cluster_guid)),
            job_mount_root=str(self._layout.job(run.guid).mounts),
            temp=joined([self._work_folder(run), "/", name]),
            address=reference(ReferenceKind.ADDRESS, index),
            tmpdir=joined([nodes, "/", name, "/", run.site.tmpdir]) if run.site.tmpdir else "",
            devices=(reference(ReferenceKind.DEVICES, index),) if run.site.has_devices else (),
            core_count=run.site.core_count,
        )

    def _work_folder(self, run: RunFolder) -> str:
        """The folder of the working directories: on the nodes' own disks, or in the home."""
        if run.site.has_scratch:
            return reference(ReferenceKind.SCRATCH, 0)
        return str(self._layout.job(run.guid).workdir)

    def _setup_plan(self, run: RunFolder, task: SetupTask, names: Sequence[str]) -> Plan:
        """The setup task of a run's cluster, with a process for each of its nodes."""
        guid, node_setup = run.cluster_guid, run.cluster.node_setup
        assert node_setup, "it has a setup task"
        root, folder = str(self._layout.mounts(guid)), str(self._layout.nodes(guid))
        logs = str(mounts.setup_logs(self._layout, run.cluster))
        shares = [NodeShare(name, 0, root, root, joined([folder, "/", name])) for name in names]
        plans = [
            planning.setup(node_setup, share, python=run.site.python, exits="", logs=logs) for share in shares
        ]
        processes = (
            Process(rank, rank, task.command_line, output=plan.output) for rank, plan in enumerate(plans)
        )
        return plans[0]._replace(
            guid=guid,
            nodes=tuple(node for node_plan in plans for node in node_plan.nodes),
            processes=tuple(processes),
            secrets=tuple(item.name for item in task.secrets or ()),
        )

    # -- output of jobs

    def files(self, job: Record, directory_id: str, path: str, limit: int | None) -> Sequence[OutputFile]:
        """Lists a folder of one of a job's output directories, sorted by name."""
        return outputs.listing(self._output(job, directory_id), path, limit=limit)

    def read(
        self, job: Record, directory_id: str, path: str, offset: int, limit: int, *, is_open: bool
    ) -> Chunk:
        """Reads at most `limit` bytes of a job's file; `is_open` must have been determined before."""
        folder = self._output(job, directory_id)
        if directory_id.lower() != STDOUTERR:
            return outputs.read(entries.resolve_inside(folder, path), offset, limit, is_complete=not is_open)
        layout = self._layout.job(job.guid)
        with self._machine.prefetched([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).read(path, offset, limit)

    def tail(
        self, job: Record, positions: Mapping[str, int], limit: int, *, is_open: bool
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs."""
        folder, layout = self._output(job, STDOUTERR), self._layout.job(job.guid)
        # Read after `is_open` was determined: an ended run has all its records. Secret spans are read after
        # the data.
        with self._machine.prefetched([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).tail(positions, limit)

    def telemetry(self, guid: str, after: float) -> TelemetryRecord:
        """The samples of a run taken after the time `after`."""
        return telemetry.read(self._layout.job(guid).telemetry, after)

    def _output(self, job: Record, directory_id: str) -> Path:
        """The folder of one of a job's output directories."""
        segment = output_segment(job.resource_id, job.guid)
        if directory_id.lower() == STDOUTERR:
            return self._layout.home / str(job.more[OUTPUT_ROOT]) / segment / STDOUTERR
        cluster = resource_views.cluster_spec(job.more[CLUSTER_SPEC])
        spec = recorded_job.job_spec(job.spec)
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
        hidden=str(job.secret_spans),
        telemetry=str(job.telemetry),
        threads={name: environ[name] for name in THREADS if environ.get(name)},
        device_order=environ.get(ORDER) or BY_BUS,
        disk_grace_s=engine.disk_grace_s,
        module_path=""
        if run.container_engine
        else ":".join(filter(None, [environ.get("PYTHONPATH"), str(job.python)])),
    )


def _with_engine(plan: Plan, engine: tuple[str, ...], job: JobLayout) -> Plan:
    """The plan with what runs its containers, if anything does."""
    plan = containers.with_container_note(plan._replace(containers=plan.containers._replace(engine=engine)))
    if engine:  # an image may have a module path of its own
        plan = plan._replace(processes=tuple(_with_module(each, job) for each in plan.processes))
    return plan


def _secrets(spec: JobSpec) -> dict[str, str]:
    return {item.name: item.value.get_secret_value() for item in spec.secrets or () if item.value}


def _with_module(process: Process, job: JobLayout) -> Process:
    return process._replace(command=with_module_path(process.command, job.python))
