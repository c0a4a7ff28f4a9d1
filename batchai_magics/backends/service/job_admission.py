"""Creates jobs: checks them on their cluster, records and plans their runs, and submits these or makes none.

A run has a folder with links, and Plans that refer to nodes, ports and devices which are not known yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from batchai_magics.backends.base import NewJob, api_errors
from batchai_magics.backends.folders import mounts, private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.outbox import Outbox
from batchai_magics.backends.folders.run_end import Predecessor, StopIfRequest
from batchai_magics.backends.node.job_environment import JOB_MODULES, with_module_path
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.preflight import max_excluded
from batchai_magics.backends.node.ranks.gpus import BY_BUS, ORDER
from batchai_magics.backends.service import resource_views, run_labels, stored_descriptions
from batchai_magics.backends.service.context import (
    CLUSTER_SPEC,
    OUTPUT_ROOT,
    HomeContext,
    cluster_of,
    run_of,
    scale_of,
)
from batchai_magics.backends.service.host_runs import host_note, without_preparation
from batchai_magics.backends.service.repository import (
    AFTER,
    CLUSTER_GUID,
    CLUSTER_NOTES,
    GROUP,
    HOST_NOTE,
    OWNER,
    Record,
)
from batchai_magics.backends.service.runner import (
    CORE_COUNT,
    ClusterChange,
    ClusterRef,
    ClusterRequest,
    EngineSite,
    PlannedRun,
)
from batchai_magics.cell.cell_job_spec import copied_once, without_copy
from batchai_magics.cell.cell_script import FOLDER, PROGRAM
from batchai_magics.errors import CapabilityError, NotFoundError, Problem, SpecError, did_you_mean
from batchai_magics.launch import planning
from batchai_magics.launch.plan import GRACE_S, LaunchMode, LogPaths, Output, Plan, PlanNode, Process
from batchai_magics.launch.references import ReferenceKind, joined, reference, references
from batchai_magics.launch.toolkits import JobSite, port_count
from batchai_magics.models.cluster_spec import ClusterSpec, SetupTask
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.job_spec import JobSpec, PreflightMode
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name, of_kind
from batchai_magics.models.runs.labels import BASELINE
from batchai_magics.models.states import DeallocationOption
from batchai_magics.models.vm_sizes import lookup
from batchai_magics.records.record_checks import addresses_of
from batchai_magics.records.record_files import CHANNELS, MACHINES, SUBMISSION, TRIAL
from batchai_magics.records.trial_record import TrialRecord

if TYPE_CHECKING:
    from batchai_magics.backends.base import JobNeeds

_PASSWORD_FIELD = "properties.containerSettings.imageSourceRegistry.credentials.password"
_MAKING = re.compile(rf'{re.escape(PROGRAM)}" "[^"]*/{FOLDER}/(?P<digest>[0-9a-f]+)"')


def note_before_submission(context: HomeContext, spec: JobSpec) -> str:
    """What to tell the user of a job that will run without its image; see `Backend.host_note`."""
    if not spec.container_settings or _container_engine(context, spec):
        return ""
    return host_note(spec, context.facts.host_runs)


def check_needs(context: HomeContext, needs: JobNeeds, spec: JobSpec) -> None:
    """Checks a job on its cluster, or on the one that is to be created for it; raises if it is refused.

    Whether it can run without its image is up to `note_before_submission`.
    """
    id, job = _cluster_id(spec), NewJob(needs.job, spec)
    if cluster := context.repository.find(id):
        _state_on(context, job, cluster)
        return
    cluster_spec = next((resource for key, resource in needs.resources if key.key == id.key), None)
    if isinstance(cluster_spec, ClusterSpec):
        _check(context, job, id, cluster_spec)
        scale = scale_of(cluster_spec.scale_settings)
        request = ClusterRequest(cluster_spec.vm_size, scale, cluster_spec.what)
        state = context.runner.check(request, None)
        context.runner.check(spec, ClusterRef("", id.name, request.vm_size, request.scale, state))
    else:
        context.check_exists(id)


def create_jobs(context: HomeContext, jobs: Sequence[NewJob]) -> list[Record]:
    """Creates jobs, together where the engine can; returns existing identical ones instead of new ones."""
    created: dict[str, Record] = {}
    admitted: dict[str, list[AdmittedJob]] = {}  # by cluster
    engines: list[tuple[str, ...]] = []
    ids: list[ResourceId] = []
    for job in jobs:
        check_name(job.id.name, job.id.kind)
        engines.append(_container_engine(context, job.spec) if job.spec.container_settings else ())
        ids += [job.id, job.id.parent, ResourceId.parse(job.spec.cluster.id)]
        ids += map(ResourceId.parse, job.spec.predecessors)
    with context.snapshot(ids):
        for job, engine in zip(jobs, engines, strict=True):
            record = context.new_record(job.id, job.spec, job.owner)
            if existing := context.repository.find_same(record):
                created[existing.key] = existing
                continue
            context.repository.get(job.id.parent)
            new = _admitted(context, record, job, engine)
            admitted.setdefault(new.cluster.guid, []).append(new)
        for of_cluster in admitted.values():
            for record in _create_admitted(context, of_cluster):
                created[record.key] = record
    return [created[job.id.key] for job in jobs]


def _container_engine(context: HomeContext, spec: JobSpec) -> tuple[str, ...]:
    """The command that runs the containers of a job that has some; empty if nothing here does."""
    assert spec.container_settings, "it has containers"
    credentials = spec.container_settings.image_source_registry.credentials
    if credentials and not credentials.password:
        problem = Problem(_PASSWORD_FIELD, "this field is required", "it is not stored: give it each time")
        raise SpecError([problem], what=spec.what)
    has_credentials = bool(credentials)
    engine = context.facts.container_engine(has_credentials=has_credentials)
    if not engine:
        host_note(spec, context.facts.host_runs)  # raises for an image that the user named
    return engine


def _admitted(context: HomeContext, record: Record, job: NewJob, engine: tuple[str, ...]) -> AdmittedJob:
    """The job, if its cluster can run it."""
    spec, cluster_record = job.spec, context.repository.get(_cluster_id(job.spec))
    after, state = _state_on(context, job, cluster_record, record.guid)
    cluster = cluster_of(cluster_record)
    more, labels = dict(state), run_labels.initial(job.records)
    if any(labels):
        more[run_labels.STORED_LABELS] = labels.to_json()
    if TRIAL in job.records:
        trial = TrialRecord.from_text(job.records[TRIAL])
        more[GROUP] = f"{job.id.parent.key}/{trial.sweep.lower()}", trial.parallel
    notes = [warning.message for warning in context.facts.warnings(cluster)]
    if notes:
        more[CLUSTER_NOTES] = [*notes]
    if spec.container_settings and not engine:
        notes.append(host_note(spec, context.facts.host_runs))
        more[HOST_NOTE] = notes[-1]
        spec = without_preparation(spec, context.facts.host_runs)
    site = context.facts.site
    cores = cluster.state.get(CORE_COUNT, site.core_count)
    site = replace(site, core_count=cores, container_engine=engine)
    layout, segment = context.layout, stored_descriptions.output_segment(job.id, record.guid)
    return AdmittedJob(
        layout=layout,
        id=job.id,
        record=record.changed(more),
        folder=layout.job(record.guid),
        segment=segment,
        logs=layout.home / str(more[OUTPUT_ROOT]) / segment / STDOUTERR,
        spec=spec,
        cluster=cluster,
        cluster_spec=resource_views.cluster_spec(cluster_record.spec),
        site=site,
        notes=notes,
        records=job.records,
        after=after,
        is_baseline=BASELINE in labels.tags,
    )


def _cluster_id(spec: JobSpec) -> ResourceId:
    return of_kind(ResourceId.parse(spec.cluster.id), Kind.CLUSTER)


def _state_on(
    context: HomeContext, job: NewJob, cluster: Record, guid: str = ""
) -> tuple[tuple[Predecessor, ...], dict[str, object]]:
    """What a job starts after, and what is stored of its run, if its cluster can run it."""
    cluster_spec = resource_views.cluster_spec(cluster.spec)
    after = _check(context, job, cluster.resource_id, cluster_spec)
    return after, {
        "cluster": cluster.id,
        CLUSTER_GUID: cluster.guid,
        CLUSTER_SPEC: cluster.spec,
        OUTPUT_ROOT: str(mounts.output_root(context.layout, job.spec, cluster_spec, guid)),
        **({AFTER: [predecessor.guid for predecessor in after]} if after else {}),
        **context.runner.check(job.spec, cluster_of(cluster)),
    }


def _check(
    context: HomeContext, job: NewJob, id: ResourceId, cluster: ClusterSpec
) -> tuple[Predecessor, ...]:
    """Checks a job on a cluster of this description, which may not exist yet; returns its predecessors."""
    spec = job.spec
    if spec.mount_volumes:
        context.check_file_servers(spec.mount_volumes)
    maximum = scale_of(cluster.scale_settings).maximum
    if maximum and spec.node_count > maximum:
        raise api_errors.too_many_nodes(spec.node_count, id, maximum)
    context.bounds.check(spec, gpus_per_node=spec.batchai_gpus or lookup(cluster.vm_size).gpus)
    if spec.job_preparation:
        _check_environment(context, spec, spec.job_preparation.command_line, cluster)
    _check_paths(context, spec, cluster)
    return _predecessors(context, job) if spec.predecessors else ()


def _check_paths(context: HomeContext, job: JobSpec, cluster: ClusterSpec) -> None:
    """Raises SpecError for a Python or an input that no node has, unless something may make it before."""
    preparation = without_copy(job.job_preparation.command_line) if job.job_preparation else ""
    has_setup = cluster.node_setup and cluster.node_setup.setup_task
    if job.container_settings or job.predecessors or preparation or has_setup:
        return
    interpreter = getattr(job.settings, "python_interpreter_path", None) or ""
    paths = {f"properties.{job.toolkit.wire_key}.pythonInterpreterPath": ("--python", interpreter)}
    for index, directory in enumerate(job.input_directories or ()):
        if not directory.create_new:
            paths[f"properties.inputDirectories[{index}].path"] = ("--input", directory.path)
    problems = [
        Problem(field, f"there is no {path} on this machine", f"correct {option}, or make it with --prep")
        for field, (option, path) in paths.items()
        if path.startswith("/") and "$" not in path and not context.facts.has_path(path)
    ]
    if problems:
        raise SpecError(problems, what=job.what)


def _check_environment(context: HomeContext, job: JobSpec, preparation: str, cluster: ClusterSpec) -> None:
    """Raises CapabilityError if this machine, and so the nodes, lacks uv for the environment of `--with`."""
    match = _MAKING.search(preparation)
    has_own_uv = job.container_settings or (cluster.node_setup and cluster.node_setup.setup_task)
    if match is None or has_own_uv:  # the image or the setup task may bring it
        return
    shares = context.layout.home / "shares"
    environments = shares.glob(f"*/*/{FOLDER}/{match['digest']}/bin/python")
    if not any(environments) and not context.facts.has_uv():
        problem = "--with and the packages of a script need uv to make the environment"
        text = f"{problem}, and the machine that submits has none"
        hint = "`pip install uv`, or install the packages with --prep. Nothing was submitted."
        raise CapabilityError(text, code="NotSupported", hint=hint)


def _predecessors(context: HomeContext, job: NewJob) -> tuple[Predecessor, ...]:
    """The runs after which a job starts.

    Raises:
        SpecError: An id names no job, the job itself, or a job of another user.
        NotFoundError: The job does not exist.
    """
    predecessors: dict[str, Predecessor] = {}
    for text in job.spec.predecessors:
        must_succeed = text in (job.spec.batchai_after or ())
        id = of_kind(ResourceId.parse(text), Kind.JOB)
        other = context.repository.find(id)
        if id.key == job.id.key:
            field = "batchaiAfter" if must_succeed else "batchaiAfterAny"
            problem = Problem(f"properties.{field}", f"the job {id.name} cannot wait for its own end")
            raise SpecError([problem], what=job.spec.what)
        if other is None or (job.owner and other.more.get(OWNER) != job.owner):
            why = "it is another user's" if other else "it does not exist, or was deleted"
            hint = "" if other else did_you_mean(id.name, context.repository.names(id.parent, Kind.JOB))
            why = f"no job can start after {id.name} of experiment {id.experiment}: {why}"
            raise NotFoundError(why, code="JobNotFound", hint=hint)
        grace_s = other.more.get("grace_s", GRACE_S)
        predecessor = Predecessor(other.guid, other.name, must_succeed, other.created, grace_s)
        predecessors.setdefault(other.guid, predecessor)
    return tuple(predecessors.values())


def _create_admitted(context: HomeContext, jobs: Sequence[AdmittedJob]) -> list[Record]:
    """Creates jobs of one cluster together; returns the records that exist then."""
    fresh: list[AdmittedJob] = []
    try:
        with context.repository.transaction():  # a killed program leaves the records and pins, or neither
            with context.repository.recorded([job.record for job in jobs]) as recorded:
                new, planned = list[AdmittedJob](), list[PlannedRun]()
                with private_files.pipelined(context.layout.home):
                    for job, record in zip(jobs, recorded, strict=True):
                        if record is job.record:  # it did not exist
                            new.append(job)
                            planned.append(job.planned_run())
                            context.repository.add_open_job(record)
                    context.runner.submit(planned)
            for job in new:
                if job.is_baseline:
                    run_labels.RunRecords(context).pin(job.id)
        fresh = new
    finally:
        guids = {job.record.guid for job in fresh}
        for job in jobs:
            # Where records are files, those of jobs that were submitted stay although a pin has failed.
            if job.record.guid not in guids and not _is_recorded(context, job):
                context.repository.remove_open_job(job.record)
                context.repository.remove_runs([job.record.guid])
    cluster = context.repository.find(_cluster_id(fresh[0].spec)) if fresh else None
    if cluster and cluster.more != fresh[0].cluster.state:  # it was resized while they were created
        runs = [(run_of(job.record), context.status(job.record)) for job in fresh]
        change = ClusterChange(runs=runs, option=DeallocationOption.WAIT_FOR_JOB_COMPLETION)
        context.runner.apply(cluster_of(cluster), change)
    return recorded


def _is_recorded(context: HomeContext, job: AdmittedJob) -> bool:
    """Whether the job exists, and is not another one of the same name."""
    record = context.repository.find(job.id)
    return record is not None and record.guid == job.record.guid


@dataclass(frozen=True)
class AdmittedJob:
    """A job that its cluster can run, before it is created; makes the folder and the Plans of its run."""

    layout: Layout  # where the files of the home are
    id: ResourceId
    record: Record  # the record that it gets
    folder: JobLayout  # the files of its run
    segment: str  # the path of its run below each output prefix
    logs: Path  # the folder of its logs
    spec: JobSpec  # what it runs, with secrets
    cluster: ClusterRef
    cluster_spec: ClusterSpec
    site: EngineSite  # what its Plan depends on
    notes: Sequence[str]  # for the user, about the cluster
    records: Mapping[str, str]  # the texts of the run's record files, by name
    after: tuple[Predecessor, ...] = ()  # the runs after which it starts
    is_baseline: bool = False  # whether it has the tag

    def planned_run(self) -> PlannedRun:
        """Creates the folder with its links; returns what the run starts."""
        self._make_folder()
        spec, setup = self.spec, self.cluster_spec.node_setup
        plan, task = self._plan(spec), setup.setup_task if setup else None
        if spec.batchai_preflight:
            count = spec.node_count
            excluded = max_excluded(count) if spec.batchai_preflight is PreflightMode.EXCLUDE else 0
            plans = (self._plan(spec.on_nodes(count - fewer)) for fewer in range(1, excluded + 1))
            private_files.write(self.folder.preflight, json.dumps([smaller.to_json() for smaller in plans]))
        source = spec.container_settings.image_source_registry if spec.container_settings else None
        password = source.credentials.password if source and source.credentials else None
        return PlannedRun(
            run_of(self.record),
            self.cluster,
            plan,
            after=self.after,
            setup=self._setup_plan(task, [node.id for node in plan.nodes]) if task else None,
            registry_password=password.get_secret_value() if password else "",
            secrets=spec.secret_values,
        )

    def _make_folder(self) -> None:
        """Creates the folder with its links, the record files, and the modules of the job's processes."""
        spec, job = self.spec, self.folder
        for folder in (job.shared_temp, self.logs):
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

    def _plan(self, spec: JobSpec) -> Plan:
        """The plan of the job, with its log files made, and with what runs its containers."""
        nodes, site = [self._node(index) for index in range(spec.node_count)], self._job_site(spec)
        plan = _with_process_logs(planning.plan(spec, nodes, site), self.layout.home)
        engine = self.site.container_engine
        if engine:  # an image may have a module path of its own
            processes = []
            for process in plan.processes:
                command = with_module_path(process.command, self.folder.python)
                processes.append(process._replace(command=command))
            containers = plan.containers._replace(engine=engine)
            plan = plan._replace(processes=tuple(processes), containers=containers)
            image = plan.containers.image
            if image and image.shm_size and plan.launcher is LaunchMode.MPI:
                text = "shmSize is not used: the ranks of an MPI job share the memory of the machine"
                plan = plan._replace(notes=(text,))
        if spec.job_preparation:
            # the first attempt copies the uploads: a later one finds what has changed in them
            command = copied_once(spec.job_preparation.command_line)
            plan = planning.with_preparation(command, plan, site)
        notes = [*plan.notes, *self.notes]
        root = PurePosixPath(self.record.more[OUTPUT_ROOT])
        if PurePosixPath(self.folder.unmounted) in (root, *root.parents):
            prefix = spec.std_out_err_path_prefix
            notes.append(f"stdOutErrPathPrefix {prefix} is on no mount: the logs go with the job")
        return plan._replace(notes=tuple(notes))

    def _node(self, number: int) -> PlanNode:
        site, name = self.site, reference(ReferenceKind.NODE, number)
        nodes = str(self.layout.nodes(self.cluster.guid))
        # on the nodes' own disks, or where working directories are kept
        workdir = reference(ReferenceKind.SCRATCH, 0) if site.has_scratch else str(self.folder.workdir)
        tmpdir = joined([nodes, "/", name, "/", site.tmpdir]) if site.tmpdir else ""
        return PlanNode(name, joined([workdir, "/", name]), tmpdir)

    def _job_site(self, spec: JobSpec) -> JobSite:
        job, site = self.folder, self.site
        environ, streams, count = site.environ, ("stdout", "stderr"), spec.node_count
        module_path = ":".join(filter(None, [environ.get("PYTHONPATH"), str(job.python)]))
        return JobSite(
            stdouterr=str(self.logs),
            shared_temp=str(job.shared_temp),
            host_file=str(job.host_file),
            output_segment=self.segment,
            mount_root=str(self.layout.mounts(self.cluster.guid)),
            job_mount_root=str(job.mounts),
            python="python" if site.container_engine else site.python,
            python_wrapper=site.script_wrapper,
            addresses=references(ReferenceKind.ADDRESS, count),
            gpu_count=spec.batchai_gpus or lookup(self.cluster.vm_size).gpus,
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
        guid, node_setup = self.cluster.guid, self.cluster_spec.node_setup
        assert node_setup, "it has a setup task"
        root, folder = str(self.layout.mounts(guid)), str(self.layout.nodes(guid))
        logs = str(mounts.setup_logs(self.layout, self.cluster_spec))
        nodes = [PlanNode(name, joined([folder, "/", name])) for name in names]
        python = self.site.python
        plans = [
            planning.setup(node_setup, node, mount_root=root, python=python, exits="", logs=logs)
            for node in nodes
        ]
        processes = (
            Process(rank, rank, task.command_line, output=setup.output) for rank, setup in enumerate(plans)
        )
        return plans[0]._replace(
            guid=guid,
            nodes=tuple(node for setup in plans for node in setup.nodes),
            processes=tuple(processes),
        )


def _with_process_logs(plan: Plan, home: Path) -> Plan:
    """Creates the processes' own log files; returns the plan with those that processes have to write.

    The files of a single process are links to the job's logs, and not in the plan. Lines of several
    processes are written twice, so that any program can open a process's file.
    """
    logs = plan.processes[0].own if len(plan.processes) == 1 else None
    if logs and all(_link(home / log.path, target) for log, target in zip(logs, plan.output, strict=True)):
        return plan._replace(processes=(plan.processes[0]._replace(own=None),))
    for process in plan.processes:
        for log in process.own or ():
            (home / log.path).touch(mode=private_files.FILE)
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
