"""Creates, resizes and deletes resources: validated, recorded atomically; a job is submitted or not made."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from batchai_magics.backends.base import NewJob, Spec, api_errors
from batchai_magics.backends.folders import mounts, private_files
from batchai_magics.backends.folders.run_end import Predecessor
from batchai_magics.backends.service import resource_views, run_labels, run_planner, stored_descriptions
from batchai_magics.backends.service.context import (
    CLUSTER_SPEC,
    OUTPUT_ROOT,
    BusyNodes,
    HomeContext,
    cluster_of,
    run_of,
    scale_of,
)
from batchai_magics.backends.service.home_subscription import HomeGroups, Nodes, check_quotas
from batchai_magics.backends.service.host_runs import host_note, without_preparation
from batchai_magics.backends.service.repository import AFTER, CLUSTER_GUID, GROUP, HOST_NOTE, OWNER, Record
from batchai_magics.backends.service.resource_views import CHANGED
from batchai_magics.backends.service.run_planner import AdmittedJob
from batchai_magics.backends.service.runner import (
    CORE_COUNT,
    ClusterChange,
    ClusterRequest,
    EngineState,
    PlannedSetup,
)
from batchai_magics.cell.cell_script import FOLDER, PROGRAM
from batchai_magics.errors import CapabilityError, NotFoundError, Problem, SpecError, did_you_mean
from batchai_magics.launch.plan import GRACE_S
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name, of_kind
from batchai_magics.models.resources import WorkspaceSpec
from batchai_magics.models.states import DeallocationOption
from batchai_magics.models.vm_sizes import lookup
from batchai_magics.records.record_files import TRIAL
from batchai_magics.records.trial_record import TrialRecord

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts, JobNeeds
    from batchai_magics.models.cluster_spec import ClusterPatch
    from batchai_magics.models.mount_volumes import MountVolumes


_PASSWORD_FIELD = "properties.containerSettings.imageSourceRegistry.credentials.password"
END_TIMEOUT_S = GRACE_S + 40.0  # an engine ends a run within half of this, once its processes have ended
_POLL_S = 0.05
_MAKING = re.compile(rf'{re.escape(PROGRAM)}" "[^"]*/{FOLDER}/(?P<digest>[0-9a-f]+)"')


def create(
    context: HomeContext,
    id: ResourceId,
    spec: Spec,
    owner: str = "",
    records: Mapping[str, str] | None = None,
) -> Record:
    """Creates a resource atomically, or finds the same one; returns the existing record."""
    if isinstance(spec, JobSpec):
        return create_jobs(context, [NewJob(id, spec, records or {}, owner)])[0]
    check_name(id.name, id.kind)
    record = _new_record(context, id, spec, owner)
    if isinstance(spec, ClusterSpec):
        spec = stored_descriptions.with_setup_suffix(spec, id, record.guid)
        record = replace(record, spec=stored_descriptions.stored_text(spec))
        with context.snapshot([id, id.parent]):
            lookup(spec.vm_size)
            if existing := _same(context.repository.find(id), record):
                return existing
            context.repository.get(record.resource_id.parent)
            volumes = spec.node_setup.mount_volumes if spec.node_setup else None
            _check_file_servers(context, volumes)
            context.bounds.check_cluster(spec)
            mounts.setup_logs(context.layout, spec)  # raises if they are on no mount
            request = ClusterRequest(spec.vm_size, scale_of(spec.scale_settings), spec.what)
            with context.repository.transaction():
                others = _within_quota(context, request, record.guid)
                state = context.runner.check(replace(request, others=others), None)
                record = record.changed({**state, CHANGED: context.repository.now()})
                return _made_cluster(context, record, spec)
    inserted = _same(context.repository.insert(id, record), record) or record
    if isinstance(spec, WorkspaceSpec):
        HomeGroups(context.repository.groups).ensure(id.group, spec.location)
    return inserted


def resize(context: HomeContext, id: ResourceId, patch: ClusterPatch) -> None:
    """Resizes a cluster; runs on leaving nodes are handled by the deallocation option."""
    manual = patch.scale_settings.manual
    old = context.repository.get(id)
    spec = resource_views.cluster_spec(old.spec)
    request = ClusterRequest(
        spec.vm_size, scale_of(patch.scale_settings), spec.what, busy=BusyNodes(context, old.guid)
    )
    changed = ClusterSpec.from_stored(old.spec).model_copy(update={"scale_settings": patch.scale_settings})
    text = stored_descriptions.stored_text(changed)
    option = manual.node_deallocation_option if manual else DeallocationOption.WAIT_FOR_JOB_COMPLETION
    with context.repository.transaction():
        others = _within_quota(context, request, old.guid)
        state = context.runner.check(replace(request, others=others), cluster_of(old))
        more = {**state, CHANGED: context.repository.now()}
        cluster = context.repository.change(id, lambda record: record.changed(more, spec=text))
        runs = [(run, status) for _, run, status in context.open_runs(cluster.guid)]
        context.runner.apply(cluster_of(cluster), ClusterChange(runs=runs, option=option))


def change_tags(context: HomeContext, id: ResourceId, tags: dict[str, str]) -> None:
    """Replaces a workspace's tags."""

    def with_tags(record: Record) -> Record:
        spec = WorkspaceSpec.from_stored(record.spec).model_copy(update={"tags": tags})
        return record.changed({}, spec=stored_descriptions.stored_text(spec))

    context.repository.change(id, with_tags)


def _made_cluster(context: HomeContext, record: Record, spec: ClusterSpec) -> Record:
    """Records a cluster with its nodes; cleans up if that fails or another process was faster."""
    is_new = False
    try:
        with private_files.pipelined(context.layout.home):
            volumes = spec.node_setup.mount_volumes if spec.node_setup else None
            mounts.link(context.layout, context.layout.mounts(record.guid), volumes)
            if logs := mounts.setup_logs(context.layout, spec):
                private_files.make_folder(logs)
        task = spec.node_setup.setup_task if spec.node_setup else None
        values = ((item.name, item.value) for item in (task.secrets if task else None) or ())
        setup = PlannedSetup()
        if context.facts.prepares_nodes:
            setup = run_planner.node_setup(context.layout, record.guid, spec, context.facts.site)
        setup = replace(setup, secrets={name: text.get_secret_value() for name, text in values if text})
        with _recorded(context, [record]) as (made,):
            if made is record:
                context.runner.apply(cluster_of(record), ClusterChange(setup=setup))
        is_new = made is record
        return made
    finally:
        if not is_new:
            context.repository.remove_cluster(record.guid)


def create_jobs(context: HomeContext, jobs: Sequence[NewJob]) -> list[Record]:
    """Creates jobs, together where the engine can; existing identical ones are found."""
    made: dict[str, Record] = {}
    admitted: dict[str, list[AdmittedJob]] = {}  # by cluster
    for job in jobs:
        check_name(job.id.name, job.id.kind)
    engines = [_container_engine(context, job.spec) for job in jobs]
    ids = [id for job in jobs for id in (job.id, job.id.parent, ResourceId.parse(job.spec.cluster.id))]
    ids += {ResourceId.parse(text) for job in jobs for _, text in _predecessor_ids(job.spec)}
    with context.snapshot(ids):
        for job, engine in zip(jobs, engines, strict=True):
            record = _new_record(context, job.id, job.spec, job.owner)
            if existing := _same(context.repository.find(job.id), record):
                made[existing.key] = existing
                continue
            context.repository.get(job.id.parent)
            _check_file_servers(context, job.spec.mount_volumes)
            new = _admitted(context, record, job.spec, engine, job.records)
            _check_environment(context, job.spec, resource_views.cluster_spec(new.cluster.spec))
            admitted.setdefault(new.cluster.guid, []).append(new)
        for of_cluster in admitted.values():
            made |= {record.key: record for record in _create_admitted(context, of_cluster)}
    return [made[job.id.key] for job in jobs]


def _check_environment(context: HomeContext, job: JobSpec, cluster: ClusterSpec) -> None:
    """Raises CapabilityError if this machine, and so the nodes, lacks uv for the environment of `--with`."""
    making = _MAKING.search(job.job_preparation.command_line) if job.job_preparation else None
    has_own_uv = job.container_settings or (cluster.node_setup and cluster.node_setup.setup_task)
    if making is None or has_own_uv:  # the image or the setup task may bring it
        return
    shares = context.layout.home / "shares"
    made = shares.glob(f"*/*/{FOLDER}/{making['digest']}/bin/python")
    if not any(made) and not context.facts.has_uv():
        what = "--with and the packages of a script need uv to make the environment"
        text = f"{what}, and the machine that submits has none"
        hint = "`pip install uv`, or install the packages with --prep. Nothing was submitted."
        raise CapabilityError(text, code="NotSupported", hint=hint)


def _admitted(
    context: HomeContext, record: Record, spec: JobSpec, engine: tuple[str, ...], records: Mapping[str, str]
) -> AdmittedJob:
    """The job, if its cluster can run it."""
    cluster = context.repository.get(ResourceId.parse(spec.cluster.id))
    cluster_spec = resource_views.cluster_spec(cluster.spec)
    _check_size(context, spec, cluster.resource_id, cluster_spec)
    after = _predecessors(context, record, spec)
    more: dict[str, object] = {
        "cluster": cluster.id,
        CLUSTER_GUID: cluster.guid,
        CLUSTER_SPEC: cluster.spec,
        OUTPUT_ROOT: str(mounts.output_root(context.layout, spec, cluster_spec, record.guid)),
        **run_labels.initial(records),
        **({AFTER: [each.guid for each in after]} if after else {}),
    }
    if TRIAL in records:
        trial = TrialRecord.from_text(records[TRIAL])
        more[GROUP] = f"{record.resource_id.parent.key}/{trial.sweep.lower()}", trial.parallel
    notes = [warning.message for warning in context.facts.warnings(cluster_of(cluster))]
    if spec.container_settings and not engine:
        notes.append(host_note(spec, context.facts.host_runs))
        more[HOST_NOTE] = notes[-1]
        spec = without_preparation(spec, context.facts.host_runs)
    state = context.runner.check(spec, cluster_of(cluster))
    record = record.changed({**more, **state})
    site = context.facts.site
    cores = cluster.more.get(CORE_COUNT, site.core_count)
    site = replace(site, core_count=cores, container_engine=engine)
    return AdmittedJob(context.layout, record, spec, cluster, site, notes, records, after)


def _predecessors(context: HomeContext, record: Record, spec: JobSpec) -> tuple[Predecessor, ...]:
    """The runs after which a job starts.

    Raises:
        SpecError: An id names no job, the job itself, or a job of another user.
        NotFoundError: The job does not exist.
    """
    found: dict[str, Predecessor] = {}
    for field, text in _predecessor_ids(spec):
        id = of_kind(ResourceId.parse(text), Kind.JOB)
        job = context.repository.find(id)
        if id.key == record.key:
            problem = Problem(f"properties.{field}", f"the job {id.name} cannot wait for its own end")
            raise SpecError([problem], what=spec.what)
        if job is None or job.more.get(OWNER) != record.more.get(OWNER, job.more.get(OWNER)):
            why = "it is another user's" if job else "it does not exist, or was deleted"
            hint = "" if job else did_you_mean(id.name, context.repository.names(id.parent, Kind.JOB))
            why = f"no job can start after {id.name} of experiment {id.experiment}: {why}"
            raise NotFoundError(why, code="JobNotFound", hint=hint)
        must_succeed, grace_s = field == "batchaiAfter", job.more.get("grace_s", GRACE_S)
        found.setdefault(job.guid, Predecessor(job.guid, job.name, must_succeed, job.created, grace_s))
    return tuple(found.values())


def _predecessor_ids(spec: JobSpec) -> list[tuple[str, str]]:
    """The ids of the jobs after which a job starts, each with its field."""
    asked = [("batchaiAfter", text) for text in spec.batchai_after or ()]
    return asked + [("batchaiAfterAny", text) for text in spec.batchai_after_any or ()]


def check_needs(context: HomeContext, needs: JobNeeds, spec: JobSpec) -> None:
    """Raises what the job is refused for on its cluster, or on the one that is to be created for it."""
    cluster, record = ResourceId.parse(spec.cluster.id), _new_record(context, needs.job, spec, "")
    if context.repository.find(cluster):
        _admitted(context, record, spec, _container_engine(context, spec), {})
        return
    _predecessors(context, record, spec)
    for id, wanted in needs.resources:
        if id.key == cluster.key and isinstance(wanted, ClusterSpec):
            _check_size(context, spec, cluster, wanted)


def _check_size(context: HomeContext, spec: JobSpec, id: ResourceId, cluster: ClusterSpec) -> None:
    maximum = scale_of(cluster.scale_settings).maximum
    if maximum and spec.node_count > maximum:
        raise api_errors.too_many_nodes(spec.node_count, id, maximum)
    context.bounds.check(spec, gpus_per_node=spec.batchai_gpus or lookup(cluster.vm_size).gpus)


def _create_admitted(context: HomeContext, jobs: Sequence[AdmittedJob]) -> list[Record]:
    """Creates jobs of one cluster together; returns the records that exist then."""
    cluster, fresh = jobs[0].cluster, list[Record]()
    try:
        with _recorded(context, [job.record for job in jobs]) as made:
            new = [job for job, record in zip(jobs, made, strict=True) if record is job.record]
            with private_files.pipelined(context.layout.home):
                planned = []
                for job in new:
                    planned.append(job.planned_run())
                    context.repository.add_open_job(job.record)
                context.runner.submit(planned)
        fresh = [job.record for job in new]
    finally:
        for record in (job.record for job in jobs if job.record not in fresh):
            context.repository.remove_open_job(record)
            context.repository.remove_runs([record.guid])
    for record in fresh:
        run_labels.RunRecords(context).pin_if_tagged(record)
    now = context.repository.find(cluster.resource_id)
    if fresh and now and now.more != cluster.more:  # it was resized meanwhile
        runs = [(run_of(record), context.status(record)) for record in fresh]
        change = ClusterChange(runs=runs, option=DeallocationOption.WAIT_FOR_JOB_COMPLETION)
        context.runner.apply(cluster_of(now), change)
    return made


def _container_engine(context: HomeContext, spec: JobSpec) -> tuple[str, ...]:
    """The command that runs the job's containers; empty for a job without containers."""
    if not spec.container_settings:
        return ()
    credentials = spec.container_settings.image_source_registry.credentials
    if credentials and not credentials.password:
        problem = Problem(_PASSWORD_FIELD, "this field is required", "it is not stored: give it each time")
        raise SpecError([problem], what=spec.what)
    has_credentials = bool(credentials)
    engine = context.facts.container_engine(has_credentials=has_credentials)
    if not engine:
        host_note(spec, context.facts.host_runs)  # raises for an image that the user named
    return engine


def note_before_submission(context: HomeContext, spec: JobSpec) -> str:
    """What to tell the user of a job that will run without its image; see `Backend.host_note`."""
    if not spec.container_settings or _container_engine(context, spec):
        return ""
    return host_note(spec, context.facts.host_runs)


def _check_file_servers(context: HomeContext, volumes: MountVolumes | None) -> None:
    """Raises NotFoundError for a mounted file server that does not exist."""
    for mount in (volumes.file_servers if volumes else None) or ():
        context.repository.get(ResourceId.parse(mount.file_server.id))


def _new_record(context: HomeContext, id: ResourceId, spec: Spec, owner: str) -> Record:
    text, digest = stored_descriptions.stored_text(spec), stored_descriptions.fingerprint(spec)
    more = {OWNER: owner} if owner else {}
    return Record(str(id), str(uuid.uuid4()), text, digest, context.repository.now(), more)


@contextlib.contextmanager
def _recorded(context: HomeContext, records: Sequence[Record]) -> Iterator[list[Record]]:
    """Inserts records, and removes them if the block raises; yields them, or identical ones that exist."""
    made: list[Record] = []
    try:
        with context.repository.transaction():
            for record in records:
                existing = context.repository.insert(record.resource_id, record)
                made.append(_same(existing, record) or record)
            yield made
    except BaseException:
        for record in records[: len(made)]:
            left = context.repository.find(record.resource_id)
            if left and left.guid == record.guid:
                context.repository.delete(record.resource_id)
        raise


def _same(existing: Record | None, record: Record) -> Record | None:
    """The existing record; ConflictError if it is of a different resource."""
    if existing and existing.fingerprint != record.fingerprint:
        raise api_errors.already_exists(record.resource_id)
    return existing


def _within_quota(context: HomeContext, request: ClusterRequest, guid: str) -> list[EngineState]:
    """Raises ConflictError if a cluster exceeds the quota; returns the states of the other clusters."""
    others = [record for record in context.repository.clusters() if record.guid != guid]
    requested = Nodes(request.vm_size, request.scale.maximum)
    check_quotas(requested, map(Nodes.of, others), context.core_quota)
    return [record.more for record in others]


def delete(context: HomeContext, id: ResourceId) -> None:
    """Deletes a resource and everything in it; what jobs wrote to shares is kept."""
    inner = context.repository.subtree(id)
    jobs = [record for record in inner if record.kind is Kind.JOB]
    clusters = [record for record in inner if record.kind is Kind.CLUSTER]
    _fail_dependents(context, jobs)
    context.runner.stop(list(map(run_of, jobs)))
    _wait_for_end(context, jobs)
    with context.repository.transaction() if clusters else contextlib.nullcontext():
        for cluster in clusters:
            text = f"The cluster {cluster.name} was deleted"
            context.runner.stop([run for _, run, _ in context.open_runs(cluster.guid)], text)
            context.runner.apply(cluster_of(cluster), None)
        context.repository.delete(id)
    for job in jobs:
        context.repository.remove_open_job(job)
    context.repository.remove_runs([job.guid for job in jobs])
    for cluster in clusters:
        if not context.open_runs(cluster.guid):
            context.repository.remove_cluster(cluster.guid)


def _fail_dependents(context: HomeContext, jobs: Sequence[Record]) -> None:
    """Ends the runs that wait for jobs which are about to be deleted, if those have not ended or failed."""
    if not (jobs and context.facts.capabilities.chains):
        return
    guids = {job.guid for job in jobs}
    waiting = [job for job in context.repository.all_open_jobs() if guids & {*job.more.get(AFTER, ())}]
    for job in context.still_open(jobs) if waiting else ():
        runs = [run_of(record) for record in waiting if job.guid in record.more[AFTER]]
        context.runner.fail_waiting(runs, run_of(job))
    if waiting:
        context.runner.reconcile()  # records what was just seen of those whose predecessors have failed


def _wait_for_end(context: HomeContext, jobs: Sequence[Record]) -> None:
    """Waits until the jobs have ended, for a limited time; kills those that save for longer than usual."""
    started_s, is_killed = time.monotonic(), False
    while jobs := context.still_open(jobs):
        waited_s = time.monotonic() - started_s
        if waited_s > END_TIMEOUT_S:
            raise api_errors.does_not_end(jobs[0].resource_id)
        if waited_s > GRACE_S and not is_killed:
            context.runner.stop(list(map(run_of, jobs)), grace_s=0.0)
            is_killed = True
        context.runner.reconcile()
        time.sleep(_POLL_S)
    context.runner.reconcile()  # records the end of what has lost its process: its nodes are released


class ServiceGroups(HomeGroups):
    """The resource groups of a home, which are deleted with all their workspaces and storage accounts."""

    def __init__(self, context: HomeContext, accounts: Accounts | None) -> None:
        super().__init__(context.repository.groups)
        self._context, self._accounts = context, accounts

    def delete(self, name: str) -> None:
        """Deletes a group with everything in it; jobs are ended first."""
        self.show(name)
        for workspace in (record.resource_id for record in self._context.repository.workspaces()):
            if workspace.group.lower() == name.lower():
                delete(self._context, workspace)
        if self._accounts:
            for account in self._accounts.list(name):
                self._accounts.delete(account.name)
        self.rows.delete(name)
