"""Creates resources: validated, then inserted in one transaction; the caller reconciles."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from batchai_magics.backends.base import Spec
from batchai_magics.backends.folders import mounts
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local import submission
from batchai_magics.backends.local.folders import mounted_trees
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import (
    account_table,
    cluster_table,
    database_errors,
    job_table,
    node_table,
    record_filling,
    resource_table,
    store_rebuild,
    stored_specs,
)
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process, scheduler
from batchai_magics.backends.local.watch.job_secrets import Secrets
from batchai_magics.backends.node import containers
from batchai_magics.backends.service import api_errors, descriptions, quotas
from batchai_magics.errors import CapabilityError, Problem, SpecError
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobPriority, JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name
from batchai_magics.models.resources import WorkspaceSpec
from batchai_magics.models.states import DeallocationOption
from batchai_magics.models.vm_sizes import lookup

_CREDENTIALS = "containerSettings.imageSourceRegistry.credentials"
_PRIORITY = {JobPriority.LOW: 0, JobPriority.NORMAL: 1, JobPriority.HIGH: 2}


@dataclass(frozen=True)
class Draft:
    """A validated resource: what is stored, and the secrets that never are."""

    id: ResourceId
    spec: Spec
    guid: str  # the name of its folder
    engine: tuple[str, ...] = ()  # the command that runs its containers, none for the host
    secrets: Secrets = field(default_factory=Secrets)
    owner: str = ""  # the user who creates it; empty if unknown


def check(layout: Layout, id: ResourceId, spec: Spec, *, container_command: str) -> Draft:
    """Validates a description without the store; raises SpecError or CapabilityError."""
    check_name(id.name, id.kind)
    _check_supported(spec)
    guid = str(uuid.uuid4())
    if isinstance(spec, JobSpec):
        engine = containers.engine(container_command) if spec.container_settings else ()
        _check_engine(spec, engine)
        return Draft(id, spec, guid, engine, Secrets.of_job(guid, spec))
    if isinstance(spec, ClusterSpec) and spec.node_setup and spec.node_setup.setup_task:
        spec = descriptions.with_setup_suffix(spec, id, guid)
        mounts.setup_logs(layout, spec)
        return Draft(id, spec, guid, secrets=Secrets.of_setup(spec))
    return Draft(id, spec, guid)


def insert(store: Store, layout: Layout, draft: Draft, *, settings: LocalSettings) -> bool:
    """Inserts a resource atomically; False if one with the same spec exists."""
    store.make_reserve()
    try:
        with store.write() as db:
            return _insert(db, layout, draft, settings)
    except BaseException:
        if isinstance(draft.spec, JobSpec):
            mounted_trees.remove(layout.job(draft.guid).root)
        raise


def _insert(db: Database, layout: Layout, draft: Draft, settings: LocalSettings) -> bool:
    if not _insert_resource(db, draft):
        return False
    _check_servers(db, draft.spec)
    if isinstance(draft.spec, ClusterSpec):
        _insert_cluster(db, draft, draft.spec, settings)
    elif isinstance(draft.spec, JobSpec):
        _insert_job(db, layout, draft, settings)
    record_filling.fill_records(db, draft.id.key)
    if isinstance(draft.spec, JobSpec):
        _write_backup(db, layout, draft, draft.spec)
    return True


def _write_backup(db: Database, layout: Layout, draft: Draft, spec: JobSpec) -> None:
    folder = layout.job(draft.guid)
    try:
        store_rebuild.write_backup(db, draft.id, ResourceId.parse(spec.cluster.id), folder)
    except OSError as error:
        raise database_errors.no_room(folder.root, error) from error


def _check_supported(spec: Spec) -> None:
    """Raises for what this machine does not support."""
    if isinstance(spec, ClusterSpec):
        lookup(spec.vm_size)
    elif isinstance(spec, JobSpec):
        _check_credentials(spec)


def _check_credentials(spec: JobSpec) -> None:
    source = spec.container_settings.image_source_registry if spec.container_settings else None
    credentials = source.credentials if source else None
    if credentials and not credentials.password:
        path = f"properties.{_CREDENTIALS}.password"
        problem = Problem(path, "this field is required", "it is kept nowhere: give it each time")
        raise SpecError([problem], what=JobSpec.what)


def _check_engine(spec: JobSpec, engine: Sequence[str]) -> None:
    """Raises CapabilityError for a private image if the container engine has no registry login."""
    source = spec.container_settings.image_source_registry if spec.container_settings else None
    if source and engine and containers.is_daemonless(engine):
        _refuse(_CREDENTIALS, source.credentials, "Docker and podman can pull private images.")


def _refuse(path: str, value: object, hint: str = "Leave it out; nothing was written.") -> None:
    if value:
        raise CapabilityError(
            f"properties.{path} is not supported by the local backend",
            code="NotSupported",
            hint=hint,
        )


def change_tags(store: Store, workspace: ResourceId, tags: Mapping[str, str]) -> None:
    """Replaces the tags of a workspace."""
    with store.write() as db:
        old = WorkspaceSpec.from_stored(resource_table.get(db, workspace).spec)
        spec = old.model_copy(update={"tags": dict(tags)})
        resource_table.change_spec(db, workspace, descriptions.stored_text(spec))


def _insert_resource(db: Database, draft: Draft) -> bool:
    """False if a resource with the same spec exists; raises ConflictError for a different one."""
    id, digest = draft.id, descriptions.fingerprint(draft.spec)
    existing = resource_table.find(db, id)
    if existing and existing.fingerprint == digest:
        return False
    if existing:
        raise api_errors.already_exists(id)
    if id.kind is not Kind.WORKSPACE:
        resource_table.get(db, id.parent)
    if isinstance(draft.spec, WorkspaceSpec):
        account_table.ensure_group(db, id.group, draft.spec.location)
    spec = descriptions.stored_text(draft.spec)
    resource_table.insert(db, id, spec=spec, fingerprint=digest, owner=draft.owner)
    return True


def _check_servers(db: Database, spec: Spec) -> None:
    """Raises NotFoundError for a mounted file server that does not exist."""
    volumes = spec.mount_volumes if isinstance(spec, JobSpec) else None
    if isinstance(spec, ClusterSpec) and spec.node_setup:
        volumes = spec.node_setup.mount_volumes
    for mount in (volumes.file_servers if volumes else None) or ():
        resource_table.get(db, ResourceId.parse(mount.file_server.id))


def _insert_cluster(db: Database, draft: Draft, spec: ClusterSpec, settings: LocalSettings) -> None:
    """The cluster and its first nodes."""
    key, scale = draft.id.key, spec.scale_settings.auto_scale if spec.scale_settings else None
    wanted = quotas.Nodes(spec.vm_size, spec.target_node_count)
    quotas.check(wanted, stored_specs.quota_nodes(db, except_for=key), settings.core_quota)
    bounds = (scale.minimum_node_count, scale.maximum_node_count) if scale else (None, None)
    cluster_table.insert(
        db,
        cluster_table.ClusterRow(
            key, draft.guid, time.time(), minimum=bounds[0], maximum=bounds[1], idle_s=settings.idle_s
        ),
    )
    node_table.resize(db, key, spec.target_node_count, DeallocationOption.REQUEUE)


def _insert_job(db: Database, layout: Layout, draft: Draft, settings: LocalSettings) -> None:
    spec = draft.spec
    assert isinstance(spec, JobSpec)
    cluster = ResourceId.parse(spec.cluster.id)
    cluster_spec = ClusterSpec.from_wire(json.loads(resource_table.get(db, cluster).spec))
    _check_size(cluster_table.get(db, cluster.key), cluster, spec)
    run = job_table.JobRow(
        key=draft.id.key,
        guid=draft.guid,
        cluster=cluster.key,
        node_count=spec.node_count,
        priority=_PRIORITY[spec.scheduling_priority],
        output_root=str(mounts.output_root(layout, spec, cluster_spec, draft.guid)),
        python=scheduler.python_of_this_process(),
        needs_secrets=bool(draft.secrets.jobs),
        engine=draft.engine,
        changed=time.time(),
        spawner=process.own_identity(),
    )
    job_table.insert(db, run)
    submission.submit(db, layout, run, settings)


def _check_size(row: cluster_table.ClusterRow, cluster: ResourceId, spec: JobSpec) -> None:
    most = row.target if row.maximum is None else row.maximum
    if most and spec.node_count > most:
        raise api_errors.too_many_nodes(spec.node_count, cluster, most)
