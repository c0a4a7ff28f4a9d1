"""What a run starts: its folder with links, and Plans that refer to nodes, ports and devices yet unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from batchai_magics.backends.folders import mounts, private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.outbox import Outbox
from batchai_magics.backends.folders.run_end import Predecessor, StopIfRequest
from batchai_magics.backends.node.job_environment import JOB_MODULES, with_module_path
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.preflight import max_excluded
from batchai_magics.backends.node.ranks.gpus import BY_BUS, ORDER
from batchai_magics.backends.service import resource_views, stored_descriptions
from batchai_magics.backends.service.context import OUTPUT_ROOT, cluster_of, run_of
from batchai_magics.backends.service.repository import Record
from batchai_magics.backends.service.runner import EngineSite, PlannedRun, PlannedSetup
from batchai_magics.launch import planning
from batchai_magics.launch.job_site import JobSite
from batchai_magics.launch.plan import LaunchMode, Limits, LogPaths, Output, Plan, PlanNode, Process
from batchai_magics.launch.references import ReferenceKind, joined, reference, references
from batchai_magics.launch.toolkits import port_count
from batchai_magics.models.cluster_spec import ClusterSpec, SetupTask
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.job_spec import JobSpec, PreflightMode
from batchai_magics.models.vm_sizes import lookup
from batchai_magics.records.record_checks import addresses_of
from batchai_magics.records.record_files import CHANNELS, MACHINES, SUBMISSION


@dataclass(frozen=True)
class AdmittedJob:
    """A job that its cluster can run, before it is created; makes the folder and the Plans of its run.

    Attributes:
        layout: Where the files of the home are.
        record: The record that it gets.
        spec: What it runs, with secrets.
        cluster: The record of its cluster.
        site: What its Plan depends on.
        notes: For the user, about the cluster.
        records: The texts of the run's record files, by name.
        after: The runs after which it starts.
    """

    layout: Layout
    record: Record
    spec: JobSpec
    cluster: Record
    site: EngineSite
    notes: Sequence[str]
    records: Mapping[str, str]
    after: tuple[Predecessor, ...] = ()

    def planned_run(self) -> PlannedRun:
        """Creates the folder with its links; returns what the run starts."""
        spec, job, task = self.spec, self._job, _setup_task(self._cluster_spec)
        for folder in (job.shared_temp, self._logs):
            private_files.make_folder(folder)
        for name, text in self.records.items():
            if name == CHANNELS:
                Outbox.of_run(job).open(addresses_of(text))
            else:
                private_files.write(job.records / name, text)
        for name, module in JOB_MODULES.items():
            private_files.write(job.python / name, module.read_text(encoding="utf-8"))
        mounts.link(self.layout, job.mounts, spec.mount_volumes)
        if spec.batchai_stop_if:
            StopIfRequest(spec.batchai_stop_if, spec.batchai_patterns or {}).write(job.stop_if)
        plan = self._plan(spec)
        if spec.batchai_preflight:
            count = spec.node_count
            excluded = max_excluded(count) if spec.batchai_preflight is PreflightMode.EXCLUDE else 0
            plans = (self._plan(spec.on_nodes(count - less)) for less in range(1, excluded + 1))
            private_files.write(job.preflight, json.dumps([smaller.to_json() for smaller in plans]))
        source = spec.container_settings.image_source_registry if spec.container_settings else None
        password = source.credentials.password if source and source.credentials else None
        return PlannedRun(
            run_of(self.record),
            cluster_of(self.cluster),
            plan,
            after=self.after,
            setup=self._setup_plan(task, [node.id for node in plan.nodes]) if task else None,
            registry_password=password.get_secret_value() if password else "",
            secrets={item.name: item.value.get_secret_value() for item in spec.secrets or () if item.value},
        )

    @property
    def _job(self) -> JobLayout:
        return self.layout.job(self.record.guid)

    @property
    def _cluster_spec(self) -> ClusterSpec:
        return resource_views.cluster_spec(self.cluster.spec)

    @property
    def _segment(self) -> str:
        return stored_descriptions.output_segment(self.record.resource_id, self.record.guid)

    @property
    def _logs(self) -> Path:
        root = str(self.record.more[OUTPUT_ROOT])
        return self.layout.home / root / self._segment / STDOUTERR

    def _plan(self, spec: JobSpec) -> Plan:
        """The plan of the job, with its log files made, and with what runs its containers."""
        nodes, site = [self._node(index) for index in range(spec.node_count)], self._job_site(spec)
        plan = with_own_logs(planning.plan(spec, nodes, site), self.layout.home)
        engine = self.site.container_engine
        if engine:  # an image may have a module path of its own
            commands = [with_module_path(process.command, self._job.python) for process in plan.processes]
            processes = zip(plan.processes, commands, strict=True)
            plan = plan._replace(
                processes=tuple(each._replace(command=text) for each, text in processes),
                containers=plan.containers._replace(engine=engine),
            )
            image = plan.containers.image
            if image and image.shm_size and plan.launcher is LaunchMode.MPI:
                text = "shmSize is not used: the ranks of an MPI job share the memory of the machine"
                plan = plan._replace(notes=(text,))
        if preparation := spec.job_preparation:
            from batchai_magics.cell.cell_job_spec import copied_once  # few jobs need it

            # the first attempt copies the uploads: a later one finds what has changed in them
            once = {"command_line": copied_once(preparation.command_line)}
            spec = spec.model_copy(update={"job_preparation": preparation.model_copy(update=once)})
        plan = planning.with_preparation(spec, plan, site)
        notes = [*plan.notes, *self.notes]
        root = PurePosixPath(self.record.more[OUTPUT_ROOT])
        if PurePosixPath(self._job.unmounted) in (root, *root.parents):
            prefix = spec.std_out_err_path_prefix
            notes.append(f"stdOutErrPathPrefix {prefix} is on no mount: the logs go with the job")
        return plan._replace(notes=tuple(notes))

    def _node(self, number: int) -> PlanNode:
        site, name = self.site, reference(ReferenceKind.NODE, number)
        nodes = str(self.layout.nodes(self.cluster.guid))
        # on the nodes' own disks, or where working directories are kept
        workdir = reference(ReferenceKind.SCRATCH, 0) if site.has_scratch else str(self._job.workdir)
        tmpdir = joined([nodes, "/", name, "/", site.tmpdir]) if site.tmpdir else ""
        return PlanNode(name, joined([workdir, "/", name]), tmpdir)

    def _job_site(self, spec: JobSpec) -> JobSite:
        job, site = self._job, self.site
        environ, streams, count = site.environ, ("stdout", "stderr"), spec.node_count
        module_path = ":".join(filter(None, [environ.get("PYTHONPATH"), str(job.python)]))
        return JobSite(
            stdouterr=str(self._logs),
            shared_temp=str(job.shared_temp),
            host_file=str(job.host_file),
            output_segment=self._segment,
            mount_root=str(self.layout.mounts(self.cluster.guid)),
            job_mount_root=str(job.mounts),
            python="python" if site.container_engine else site.python,
            python_wrapper=site.script_wrapper,
            addresses=references(ReferenceKind.ADDRESS, count),
            gpu_count=spec.batchai_gpus or lookup(self._cluster_spec.vm_size).gpus,
            core_count=site.core_count,
            devices=references(ReferenceKind.DEVICES, count) if site.has_devices else (),
            ports=references(ReferenceKind.PORT, port_count(spec)),
            guid=self.record.guid,
            rank_python=site.python,
            exits=str(job.exits),
            preparation_exits=str(job.preparation_exits),
            records=Output(*(LogPaths("", str(job.spans(name)), str(job.times(name))) for name in streams)),
            hidden=str(job.secret_spans),
            telemetry=str(job.telemetry),
            machines=str(job.records / MACHINES) if SUBMISSION in self.records else "",
            device_order=environ.get(ORDER) or BY_BUS,
            disk_grace_s=site.disk_grace_s,
            module_path="" if site.container_engine else module_path,
            checkpoints=str(job.checkpoints),
            artifacts=str(job.artifacts),
        )

    def _setup_plan(self, task: SetupTask, names: Sequence[str]) -> Plan:
        """The setup task of a run's cluster, a process on each of its nodes."""
        guid, asked = self.cluster.guid, self._cluster_spec.node_setup
        assert asked, "it has a setup task"
        root, folder = str(self.layout.mounts(guid)), str(self.layout.nodes(guid))
        logs = str(mounts.setup_logs(self.layout, self._cluster_spec))
        nodes = [PlanNode(name, joined([folder, "/", name])) for name in names]
        python = self.site.python
        plans = [
            planning.setup(asked, node, mount_root=root, python=python, exits="", logs=logs) for node in nodes
        ]
        processes = (
            Process(rank, rank, task.command_line, output=each.output) for rank, each in enumerate(plans)
        )
        return plans[0]._replace(
            guid=guid,
            nodes=tuple(node for each in plans for node in each.nodes),
            processes=tuple(processes),
        )


def with_own_logs(plan: Plan, folder: Path = Path()) -> Plan:
    """The plan with per-process log files; a single process's files are links to the job's logs.

    Lines of several processes are written twice, so that any program can open a process's file. Relative
    paths in the plan are below `folder`.
    """
    own = plan.processes[0].own if len(plan.processes) == 1 else None
    if own and all(_link(folder / log.path, target) for log, target in zip(own, plan.output, strict=True)):
        return plan._replace(processes=(plan.processes[0]._replace(own=None),))
    for process in plan.processes:
        for log in process.own or ():
            (folder / log.path).touch(mode=private_files.FILE)
    return plan


def _link(path: Path, target: LogPaths) -> bool:
    """Links a file to another of the folder; False if the file system has no links."""
    try:
        path.symlink_to(Path(target.path).name)
    except FileExistsError:
        return path.is_symlink()
    except OSError:
        return False
    return True


def node_setup(layout: Layout, guid: str, spec: ClusterSpec, site: EngineSite) -> PlannedSetup:
    """What one node of a cluster mounts and runs before it takes runs."""
    asked, task = spec.node_setup, _setup_task(spec)
    volumes = asked.mount_volumes if asked else None
    if not asked or not (task or (volumes and volumes.unmanaged_file_systems)):
        return PlannedSetup()
    name, root = reference(ReferenceKind.NODE, 0), str(layout.mounts(guid))
    folder = joined([str(layout.nodes(guid)), "/", name])
    tmpdir = joined([folder, "/", site.tmpdir]) if site.tmpdir else ""
    node, exits = PlanNode(name, folder, tmpdir), joined([folder, "/exits"])
    logs = str(mounts.setup_logs(layout, spec) or "")
    plan = planning.setup(asked, node, mount_root=root, python=site.python, exits=exits, logs=logs)
    return PlannedSetup(plan._replace(limits=Limits(disk_grace_s=site.disk_grace_s)))


def _setup_task(spec: ClusterSpec) -> SetupTask | None:
    return spec.node_setup.setup_task if spec.node_setup else None
