"""Making and forgetting resources in the store: each in one transaction, all or nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from batchai_magics.backends.base import Spec, WorkspaceSpec
from batchai_magics.backends.local import devices, refusals
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state import cluster_rows, job_rows
from batchai_magics.backends.local.state.accounts import ensure_group
from batchai_magics.backends.local.state.catalog import (
    fingerprint,
    is_there,
    not_found,
    parent_key,
    wire_text,
)
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.state.verdict import OPEN, record
from batchai_magics.backends.local.watch import scheduler
from batchai_magics.backends.local.watch.job_secrets import JobSecrets
from batchai_magics.backends.node import containers
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.errors import ConflictError, ServiceError
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.ids import Kind, ResourceId, check_name
from batchai_magics.models.job import JobSpec
from batchai_magics.models.resources import Cluster, Resource


@dataclass(frozen=True)
class Created:
    """What creating did: whether the resource is new, who holds its secrets now, what to say of it."""

    is_new: bool
    supervisor: subprocess.Popen[bytes] | None = None
    setup_secrets: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def noted(self, found: Resource) -> Resource:
        """The resource, with what is to be said to who made it."""
        return replace(found, notes=self.notes) if isinstance(found, Cluster) else found


def create(
    store: Store, layout: Layout, id: ResourceId, spec: Spec, *, limits: cluster_rows.Limits
) -> Created:
    """Writes a resource down. Nothing is written when the description is refused."""
    check_name(id.name, id.kind)
    refusals.check(spec)
    store.make_reserve()
    guid = str(uuid.uuid4())
    run = job_rows.Run(guid, containers.engine(limits.container_command) if _is_boxed(spec) else ())
    if isinstance(spec, JobSpec):
        refusals.check_engine(spec, run.engine)
    if isinstance(spec, ClusterSpec):
        spec = cluster_rows.with_setup_suffix(spec, id, guid)
        cluster_rows.check_setup(layout, spec)
    with store.write() as db:
        if not _insert(db, id, spec):
            return Created(is_new=False)
        _check_servers(db, spec)
        if isinstance(spec, ClusterSpec):
            cluster_rows.insert(db, id, spec, guid=guid, limits=limits)
            told = devices.told(spec, devices.machine())
            return Created(is_new=True, setup_secrets=cluster_rows.setup_secrets(spec), notes=told)
        if not isinstance(spec, JobSpec):
            return Created(is_new=True)
        row = job_rows.insert(db, layout, id, spec, run)
    return Created(True, _holder(store, layout, row, job_rows.secrets_of(spec)))


def _holder(
    store: Store, layout: Layout, row: sqlite3.Row, secrets: JobSecrets
) -> subprocess.Popen[bytes] | None:
    """The supervisor that waits with a job's secrets for its nodes; a job without any gets its own later."""
    try:
        return scheduler.spawn(store, layout, row, secrets=secrets) if secrets else None
    except OSError as error:
        with store.write() as db:
            for table in ("job", "resource"):
                db.execute(f"DELETE FROM {table} WHERE key = ?", (row["key"],))
        raise ServiceError(
            f"The job's supervisor could not be started: {error}", code="JobLaunchFailed"
        ) from error


def _is_boxed(spec: Spec) -> bool:
    return isinstance(spec, JobSpec) and spec.container_settings is not None


def _insert(db: sqlite3.Connection, id: ResourceId, spec: Spec) -> bool:
    """Inserts the resource; False when the very same is there, ConflictError when another is."""
    print_ = fingerprint(spec)
    existing = db.execute("SELECT * FROM resource WHERE key = ?", (id.key,)).fetchone()
    if existing:
        if id.kind in (Kind.WORKSPACE, Kind.EXPERIMENT) or existing["fingerprint"] == print_:
            return False
        raise _exists(id)
    if id.kind is not Kind.WORKSPACE and not is_there(db, id.parent):
        raise not_found(db, id.parent)
    if isinstance(spec, WorkspaceSpec):
        ensure_group(db, id.group, spec.location)
    db.execute(
        "INSERT INTO resource (key, id, kind, parent, spec, fingerprint, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (id.key, str(id), id.kind.value, parent_key(id), wire_text(spec), print_, time.time()),
    )
    return True


def _check_servers(db: sqlite3.Connection, spec: Spec) -> None:
    """Raises NotFoundError for a mounted file server that is not there."""
    volumes = spec.mount_volumes if isinstance(spec, JobSpec) else None
    if isinstance(spec, ClusterSpec) and spec.node_setup:
        volumes = spec.node_setup.mount_volumes
    for mount in (volumes.file_servers if volumes else None) or ():
        server = ResourceId.parse(mount.file_server.id)
        if not is_there(db, server):
            raise not_found(db, server)


def _exists(id: ResourceId) -> ConflictError:
    if id.kind is Kind.JOB:
        text = "A job with given name, experiment, workspace and resource group already exists."
        return ConflictError(
            f"{text} It is a different job.", code="JobAlreadyExists", hint=f"Name: {id.name}"
        )
    text = f'"{id.name}" already exists in "{id.group}" resource group under {id.workspace} resource group.'
    return ConflictError(text, code=f"{id.kind.code}AlreadyExists", hint="Show it, or delete it first.")


def forget(store: Store, ids: Sequence[ResourceId]) -> list[str]:
    """Deletes resources from the store; gives the guids whose folders can go. Jobs outlive their cluster."""
    guids = []
    with store.write() as db:
        for id in ids:
            if id.kind is Kind.CLUSTER:
                _end_jobs_on(db, id)
            for table in ("job", "cluster"):
                guids += [g for (g,) in db.execute(f"SELECT guid FROM {table} WHERE key = ?", (id.key,))]
                db.execute(f"DELETE FROM {table} WHERE key = ?", (id.key,))
            db.execute("DELETE FROM node WHERE cluster = ?", (id.key,))
            db.execute("DELETE FROM resource WHERE key = ?", (id.key,))
    return guids


def _end_jobs_on(db: sqlite3.Connection, cluster: ResourceId) -> None:
    query = f"SELECT key, guid, is_assigned FROM job WHERE cluster = ? AND state IN {OPEN}"
    text = f"The cluster {cluster.name} was deleted"
    for row in db.execute(query, (cluster.key,)).fetchall():
        if row["is_assigned"]:
            db.execute("UPDATE job SET stop = ? WHERE key = ?", (text, row["key"]))
        else:
            record(db, row["key"], row["guid"], failed_with("ClusterNotFound", text))
