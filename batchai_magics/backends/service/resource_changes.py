"""Creates, resizes and deletes resources, validated and recorded atomically; jobs are created elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Spec, api_errors
from batchai_magics.backends.folders import mounts, private_files
from batchai_magics.backends.service import resource_views, stored_descriptions
from batchai_magics.backends.service.context import (
    HomeContext,
    cluster_of,
    run_of,
    scale_of,
)
from batchai_magics.backends.service.home_subscription import HomeGroups, Nodes, check_quotas
from batchai_magics.backends.service.repository import AFTER, Record
from batchai_magics.backends.service.resource_views import CHANGED
from batchai_magics.backends.service.runner import (
    ClusterChange,
    ClusterRequest,
    EngineState,
    PlannedSetup,
)
from batchai_magics.launch import planning
from batchai_magics.launch.plan import GRACE_S, Limits, PlanNode
from batchai_magics.launch.references import ReferenceKind, joined, reference
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name
from batchai_magics.models.resources import WorkspaceSpec
from batchai_magics.models.states import DeallocationOption
from batchai_magics.models.vm_sizes import lookup

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts
    from batchai_magics.models.cluster_spec import ClusterPatch


END_TIMEOUT_S = GRACE_S + 40.0  # an engine ends a run within half of this, once its processes have ended
_POLL_S = 0.05


def create(context: HomeContext, id: ResourceId, spec: Spec, owner: str = "") -> Record:
    """Creates a resource other than a job atomically, or finds an identical one; returns its record."""
    check_name(id.name, id.kind)
    record = context.new_record(id, spec, owner)
    if isinstance(spec, ClusterSpec):
        spec = stored_descriptions.with_setup_suffix(spec, id, record.guid)
        record = replace(record, spec=stored_descriptions.stored_text(spec))
        with context.snapshot([id, id.parent]):
            lookup(spec.vm_size)
            if existing := context.repository.find_same(record):
                return existing
            context.repository.get(record.resource_id.parent)
            if spec.node_setup and spec.node_setup.mount_volumes:
                context.check_file_servers(spec.node_setup.mount_volumes)
            context.bounds.check_cluster(spec)
            mounts.setup_logs(context.layout, spec)  # raises if they are on no mount
            request = ClusterRequest(spec.vm_size, scale_of(spec.scale_settings), spec.what)
            with context.repository.transaction():
                others = _within_quota(context, request, record.guid)
                state = context.runner.check(replace(request, others=others), None)
                record = record.changed({**state, CHANGED: context.repository.now()})
                return _create_cluster(context, record, spec)
    inserted = context.repository.insert_or_find(record)
    if isinstance(spec, WorkspaceSpec):
        HomeGroups(context.repository.groups).ensure(id.group, spec.location)
    return inserted


def resize(context: HomeContext, id: ResourceId, patch: ClusterPatch) -> None:
    """Resizes a cluster; runs on leaving nodes are handled by the deallocation option."""
    manual = patch.scale_settings.manual
    old = context.repository.get(id)
    spec = resource_views.cluster_spec(old.spec)
    request = ClusterRequest(spec.vm_size, scale_of(patch.scale_settings), spec.what)
    changed = ClusterSpec.from_stored(old.spec).model_copy(update={"scale_settings": patch.scale_settings})
    text = stored_descriptions.stored_text(changed)
    option = manual.node_deallocation_option if manual else DeallocationOption.WAIT_FOR_JOB_COMPLETION
    with context.repository.transaction():
        others = _within_quota(context, request, old.guid)
        request = replace(request, busy=context.busy_nodes(old.guid), others=others)
        state = context.runner.check(request, cluster_of(old))
        more = {**state, CHANGED: context.repository.now()}
        cluster = context.repository.change(id, lambda record: record.changed(more, spec=text))
        runs = [(run_of(job), status) for job, status in context.open_jobs(cluster.guid)]
        context.runner.apply(cluster_of(cluster), ClusterChange(runs=runs, option=option))


def change_tags(context: HomeContext, id: ResourceId, tags: dict[str, str]) -> None:
    """Replaces a workspace's tags."""

    def with_tags(record: Record) -> Record:
        spec = WorkspaceSpec.from_stored(record.spec).model_copy(update={"tags": tags})
        return record.changed({}, spec=stored_descriptions.stored_text(spec))

    context.repository.change(id, with_tags)


def _create_cluster(context: HomeContext, record: Record, spec: ClusterSpec) -> Record:
    """Records a cluster with its nodes; cleans up if that fails or another process was faster."""
    is_new = False
    try:
        with private_files.pipelined(context.layout.home):
            volumes = spec.node_setup.mount_volumes if spec.node_setup else None
            mounts.link(context.layout, context.layout.mounts(record.guid), volumes)
            if logs := mounts.setup_logs(context.layout, spec):
                private_files.make_folder(logs)
        setup = _planned_setup(context, record.guid, spec)
        with context.repository.recorded([record]) as (stored,):
            if stored is record:
                context.runner.apply(cluster_of(record), ClusterChange(setup=setup))
        is_new = stored is record
        return stored
    finally:
        if not is_new:
            context.repository.remove_cluster(record.guid)


def _planned_setup(context: HomeContext, guid: str, spec: ClusterSpec) -> PlannedSetup:
    """What a node of a new cluster mounts and runs before it takes runs, with the secrets of its task."""
    node_setup, layout = spec.node_setup, context.layout
    if not node_setup:
        return PlannedSetup()
    values = (node_setup.setup_task.secrets if node_setup.setup_task else None) or ()
    secrets = {item.name: item.value.get_secret_value() for item in values if item.value}
    has_mounts = node_setup.mount_volumes and node_setup.mount_volumes.unmanaged_file_systems
    if not (context.facts.prepares_nodes and (node_setup.setup_task or has_mounts)):
        return PlannedSetup(secrets=secrets)
    site, name, root = context.facts.site, reference(ReferenceKind.NODE, 0), str(layout.mounts(guid))
    folder = joined([str(layout.nodes(guid)), "/", name])
    tmpdir = joined([folder, "/", site.tmpdir]) if site.tmpdir else ""
    node, exits = PlanNode(name, folder, tmpdir), joined([folder, "/exits"])
    logs = str(mounts.setup_logs(layout, spec) or "")
    plan = planning.setup(node_setup, node, mount_root=root, python=site.python, exits=exits, logs=logs)
    return PlannedSetup(plan._replace(limits=Limits(disk_grace_s=site.disk_grace_s)), secrets)


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
            context.runner.stop([run_of(job) for job, _ in context.open_jobs(cluster.guid)], text)
            context.runner.apply(cluster_of(cluster), None)
        context.repository.delete(id)
    for job in jobs:
        context.repository.remove_open_job(job)
    context.repository.remove_runs([job.guid for job in jobs])
    for cluster in clusters:
        if not context.open_jobs(cluster.guid):
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


def delete_in_group(context: HomeContext, accounts: Accounts | None, name: str) -> None:
    """Deletes all workspaces and storage accounts of a resource group; jobs are ended first."""
    for workspace in (record.resource_id for record in context.repository.workspaces()):
        if workspace.group.lower() == name.lower():
            delete(context, workspace)
    if accounts:
        for account in accounts.list(name):
            accounts.delete(account.name)
