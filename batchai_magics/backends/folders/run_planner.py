"""What a run starts: its folder with links, and Plans that refer to nodes, ports and devices yet unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from batchai_magics.backends.folders import mounts
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.outbox import Outbox
from batchai_magics.backends.folders.run_end import StopIfRequest
from batchai_magics.backends.node import containers
from batchai_magics.backends.node.job_environment import JOB_MODULES, with_module_path
from batchai_magics.backends.node.preflight import PreflightRequest, SmallerPlans, max_excluded
from batchai_magics.backends.node.ranks.gpus import BY_BUS, ORDER
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.home_folders import RunFolder
from batchai_magics.backends.service.runner import Launch, NodeSetup, Site
from batchai_magics.launch import planning
from batchai_magics.launch.job_site import JobSite, NodeShare
from batchai_magics.launch.plan import LogFile, Output, Plan, Process
from batchai_magics.launch.references import ReferenceKind, joined, reference
from batchai_magics.launch.toolkits import port_count
from batchai_magics.models.cluster_spec import ClusterSpec, SetupTask
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.job_spec import JobSpec, PreflightMode
from batchai_magics.models.vm_sizes import lookup
from batchai_magics.records import record_files
from batchai_magics.records.record_files import MACHINES, SUBMISSION


class RunPlanner:
    """Makes the folder and the Plans of one run."""

    def __init__(self, layout: Layout, run: RunFolder) -> None:
        self._layout, self._run = layout, run
        self._job = layout.job(run.guid)

    def launch(self) -> Launch:
        """Creates the folder with its links; returns what the run starts."""
        run = self._run
        self._make_folders()
        task = _setup_task(run.cluster)
        plan, preparation = self._plans(run.spec)
        if run.spec.batchai_preflight:
            private_files.write(self._job.preflight, self._preflight(run.spec.batchai_preflight).to_json())
        return Launch(
            plan=plan,
            preparation=preparation,
            setup=self._setup_plan(task, [node.id for node in plan.nodes]) if task else None,
            is_setup_elevated=bool(task and task.run_elevated),
            port_count=port_count(run.spec),
            registry_password=_registry_password(run.spec),
            secrets=_secrets(run.spec),
        )

    def _plans(self, spec: JobSpec) -> tuple[Plan, Plan | None]:
        """The plans of the job's processes and of its preparation."""
        nodes, site = [self._node_share(index) for index in range(spec.node_count)], self._site()
        plan = self._adapted(planning.plan(spec, nodes, site))
        preparation = planning.preparation(_with_copy_once(spec), plan, site)
        return plan._replace(notes=(*plan.notes, *self._notes())), preparation

    def _preflight(self, mode: PreflightMode) -> PreflightRequest:
        """What a check of the nodes needs: the plans on fewer of them, if some may be left out."""
        count = self._run.spec.node_count
        excluded = max_excluded(count) if mode is PreflightMode.EXCLUDE else 0
        plans = (self._plans(self._run.spec.on_nodes(count - less)) for less in range(1, excluded + 1))
        return PreflightRequest(
            tuple(SmallerPlans(plan.to_json(), more.to_json() if more else "") for plan, more in plans)
        )

    def _adapted(self, plan: Plan) -> Plan:
        """The plan with its log files made, and with what runs its containers."""
        plan = with_own_logs(plan, self._layout.home)
        engine = self._run.container_engine
        if engine:  # an image may have a module path of its own
            plan = plan._replace(processes=tuple(map(self._with_module, plan.processes)))
        plan = plan._replace(containers=plan.containers._replace(engine=engine))
        return containers.with_container_note(plan)

    def _with_module(self, process: Process) -> Process:
        return process._replace(command=with_module_path(process.command, self._job.python))

    def _make_folders(self) -> None:
        run, job = self._run, self._job
        for folder in (job.shared_temp, self._logs):
            private_files.make_folder(folder)
        for name, text in run.records.items():
            if name == record_files.CHANNELS:
                Outbox.of_run(job).open(record_files.addresses_of(text))
            else:
                private_files.write(job.records / name, text)
        for name, source in JOB_MODULES.items():
            private_files.write(job.python / name, source.read_text(encoding="utf-8"))
        mounts.link(self._layout, job.mounts, run.spec.mount_volumes)
        if run.spec.batchai_stop_if:
            StopIfRequest(run.spec.batchai_stop_if, run.spec.batchai_patterns or {}).write(job.stop_if)

    def _notes(self) -> Iterator[str]:
        """Notes for the user about the job's cluster and logs."""
        yield from self._run.notes
        root = PurePosixPath(self._run.output_root)
        if PurePosixPath(self._job.unmounted) in (root, *root.parents):
            prefix = self._run.spec.std_out_err_path_prefix
            yield f"stdOutErrPathPrefix {prefix} is on no mount: the logs go with the job"

    @property
    def _logs(self) -> Path:
        return self._layout.home / self._run.output_root / self._run.segment / STDOUTERR

    def _node_share(self, index: int) -> NodeShare:
        run, name = self._run, reference(ReferenceKind.NODE, index)
        nodes = str(self._layout.nodes(run.cluster_guid))
        return NodeShare(
            id=name,
            gpu_count=run.spec.batchai_gpus or lookup(run.cluster.vm_size).gpus,
            mount_root=str(self._layout.mounts(run.cluster_guid)),
            job_mount_root=str(self._job.mounts),
            temp=joined([self._work_folder, "/", name]),
            address=reference(ReferenceKind.ADDRESS, index),
            tmpdir=joined([nodes, "/", name, "/", run.site.tmpdir]) if run.site.tmpdir else "",
            devices=(reference(ReferenceKind.DEVICES, index),) if run.site.has_devices else (),
            core_count=run.site.core_count,
        )

    @property
    def _work_folder(self) -> str:
        """The folder of the working directories: on the nodes' own disks, or where they are kept."""
        return reference(ReferenceKind.SCRATCH, 0) if self._run.site.has_scratch else str(self._job.workdir)

    def _site(self) -> JobSite:
        run, job, engine, environ = self._run, self._job, self._run.site, self._run.site.environ
        streams, ports = ("stdout", "stderr"), port_count(run.spec)
        module_path = ":".join(filter(None, [environ.get("PYTHONPATH"), str(job.python)]))
        return JobSite(
            stdouterr=str(self._logs),
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
            machines=str(job.records / MACHINES) if SUBMISSION in run.records else "",
            device_order=environ.get(ORDER) or BY_BUS,
            disk_grace_s=engine.disk_grace_s,
            module_path="" if run.container_engine else module_path,
            checkpoints=str(job.checkpoints),
            artifacts=str(job.artifacts),
        )

    def _setup_plan(self, task: SetupTask, names: Sequence[str]) -> Plan:
        """The setup task of a run's cluster, a process on each of its nodes."""
        guid, asked = self._run.cluster_guid, self._run.cluster.node_setup
        assert asked, "it has a setup task"
        root, folder = str(self._layout.mounts(guid)), str(self._layout.nodes(guid))
        logs = str(mounts.setup_logs(self._layout, self._run.cluster))
        shares = [NodeShare(name, 0, root, root, joined([folder, "/", name])) for name in names]
        plans = [
            planning.setup(asked, share, python=self._run.site.python, exits="", logs=logs)
            for share in shares
        ]
        processes = (
            Process(rank, rank, task.command_line, output=each.output) for rank, each in enumerate(plans)
        )
        return plans[0]._replace(
            guid=guid,
            nodes=tuple(node for each in plans for node in each.nodes),
            processes=tuple(processes),
            secrets=_secret_names(task),
        )


def _with_copy_once(spec: JobSpec) -> JobSpec:
    """The job whose uploads are copied by its first attempt: a later one finds what that has changed."""
    if spec.job_preparation is None:
        return spec
    from batchai_magics.cell.cell_job_spec import copied_once  # few jobs need it

    command = copied_once(spec.job_preparation.command_line)
    preparation = spec.job_preparation.model_copy(update={"command_line": command})
    return spec.model_copy(update={"job_preparation": preparation})


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


def node_setup(layout: Layout, guid: str, spec: ClusterSpec, site: Site) -> NodeSetup:
    """What one node of a cluster mounts and runs before it takes runs."""
    asked, task = spec.node_setup, _setup_task(spec)
    volumes = asked.mount_volumes if asked else None
    if not asked or not (task or (volumes and volumes.unmanaged_file_systems)):
        return NodeSetup()
    name, root = reference(ReferenceKind.NODE, 0), str(layout.mounts(guid))
    folder = joined([str(layout.nodes(guid)), "/", name])
    tmpdir = joined([folder, "/", site.tmpdir]) if site.tmpdir else ""
    share = NodeShare(name, 0, root, root, folder, tmpdir=tmpdir)
    logs = str(mounts.setup_logs(layout, spec)) if task else ""
    plan = planning.setup(asked, share, python=site.python, exits=joined([folder, "/exits"]), logs=logs)
    return NodeSetup(plan._replace(secrets=_secret_names(task)), bool(task and task.run_elevated))


def _setup_task(spec: ClusterSpec) -> SetupTask | None:
    return spec.node_setup.setup_task if spec.node_setup else None


def _secret_names(task: SetupTask | None) -> tuple[str, ...]:
    return tuple(item.name for item in (task.secrets if task else None) or ())


def _secrets(spec: JobSpec) -> dict[str, str]:
    return {item.name: item.value.get_secret_value() for item in spec.secrets or () if item.value}


def _registry_password(spec: JobSpec) -> str:
    source = spec.container_settings.image_source_registry if spec.container_settings else None
    password = source.credentials.password if source and source.credentials else None
    return password.get_secret_value() if password else ""
