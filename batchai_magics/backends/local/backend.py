"""The local backend: the Backend protocol over a store, folders and detached supervisors."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from batchai_magics.backends.base import Capabilities, Chunk, FileRef, OutputFile, Span, Spec, Written
from batchai_magics.backends.local.facets import Groups, NodeCommands, Preemption, SetupLogs, Usages
from batchai_magics.backends.local.folders import outputs, unmanaged
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.folders.shares import LocalStorage
from batchai_magics.backends.local.state import catalog, cluster_rows, creation, job_rows, rows
from batchai_magics.backends.local.state.accounts import LocalAccounts
from batchai_magics.backends.local.state.cluster_rows import Limits
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import recovery, step, stopping
from batchai_magics.backends.local.watch.planning import output_segment
from batchai_magics.backends.node import records
from batchai_magics.models.cluster import ClusterPatch
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.job import ERR, OUT, STDOUTERR
from batchai_magics.models.resources import Node, Resource

CAPABILITIES = Capabilities(name="local", key_vault=False, runs_here=True)
_PENDING = """
SELECT 1 FROM node WHERE state = 'preparing'
UNION ALL SELECT 1 FROM cluster WHERE maximum IS NOT NULL
UNION ALL SELECT 1 FROM job WHERE state = 'queued' AND is_assigned = 0 LIMIT 1
"""
_STREAMS = {OUT: "stdout", ERR: "stderr"}


class LocalBackend:
    """Jobs on this machine. State, shares and logs are below `home`; any number of processes may share it."""

    capabilities = CAPABILITIES

    def __init__(self, home: Path, *, limits: Limits | None = None) -> None:
        self.layout = Layout(Path(home).expanduser().absolute())
        self.store = Store(self.layout.database)
        self.storage = LocalStorage(self.layout.home / "shares")
        self.containers = LocalStorage(self.layout.home / "containers")
        self.accounts = LocalAccounts(self.store, self.layout)
        self.groups = Groups(self)
        self.node_commands = NodeCommands(self)
        self.preemption = Preemption(self)
        self.setup_logs = SetupLogs(self)
        self.usages = Usages(self)
        self.limits = limits or Limits()
        self._supervisors: list[subprocess.Popen[bytes]] = []
        self._lock = threading.RLock()

    def create(self, id: ResourceId, spec: Spec) -> Resource:
        """Makes a resource, or returns it if the very same is there already."""
        created = creation.create(self.store, self.layout, id, spec, limits=self.limits)
        if created.supervisor:
            self._supervisors.append(created.supervisor)
        self.settle(force=created.is_new, setup_secrets=created.setup_secrets)
        return created.noted(self.show(id))

    def show(self, id: ResourceId) -> Resource:
        """The resource as it stands."""
        self.settle()
        with self.store.read() as db:
            return rows.resource(db, _row(db, id))

    def list(self, parent: ResourceId, kind: Kind) -> Sequence[Resource]:
        """The resources of a kind inside `parent`, oldest first; all workspaces of its resource group."""
        self.settle()
        with self.store.read() as db:
            if kind is Kind.WORKSPACE:
                return _workspaces(db, parent)
            _row(db, parent)
            query = "SELECT * FROM resource WHERE parent = ? AND kind = ? ORDER BY seq"
            return [rows.resource(db, row) for row in db.execute(query, (parent.key, kind.value)).fetchall()]

    def update(self, id: ResourceId, patch: ClusterPatch) -> Resource:
        """Resizes a cluster; nodes that have jobs go as the deallocation option says."""
        stopping.wake(self.store, cluster_rows.resize(self.store, id, patch, limits=self.limits))
        self.settle(force=True)
        return self.show(id)

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and all inside it. Jobs are ended first; what they wrote stays on its share."""
        with self.store.read() as db:
            _row(db, id)
            inner = stopping.resources_inside(db, id)
        jobs = [item for item in inner if item.kind is Kind.JOB]
        for job in jobs:
            self.terminate(job)
        stopping.wait_for_end(self.store, jobs, settle=self.settle)
        for guid in creation.forget(self.store, inner):
            unmanaged.remove_job(self.layout, guid)
            unmanaged.remove_cluster(self.layout, guid)
        self.settle(force=True)

    def terminate(self, job: ResourceId) -> None:
        """Asks a job to end; nothing happens to one that has ended."""
        with self.store.read() as db:
            _row(db, job)
        stopping.wake(self.store, stopping.ask(self.store, job.key))
        self.settle(force=True)

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""
        self.settle()
        column = "node.cluster" if id.kind is Kind.CLUSTER else "job.key"
        with self.store.read() as db:
            _row(db, id)
            query = (
                "SELECT node.*, resource.id AS job_id FROM node LEFT JOIN job ON job.guid = node.job"
                f" LEFT JOIN resource ON resource.key = job.key WHERE {column} = ? ORDER BY ordinal"
            )
            return [rows.node(row) for row in db.execute(query, (id.key,)).fetchall()]

    def files(
        self, job: ResourceId, directory_id: str = STDOUTERR, path: str = "", *, expiry_min: int = 60
    ) -> Sequence[OutputFile]:
        """One level of a job's output directory, sorted by name; addresses of files here never expire."""
        return outputs.listing(self._directory(job, directory_id)[0], path)

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`, with the ranks that wrote them, and when."""
        self.settle()
        folder, row = self._directory(file.job, file.directory_id)
        is_complete = row["state"] in ("succeeded", "failed")  # looked at before the size
        path = outputs.inside(folder, file.path)
        chunk = outputs.read(path, offset, limit, is_complete=is_complete)
        stream = _STREAMS.get(file.path) if file.directory_id == STDOUTERR else None
        if not stream or not chunk.data:
            return chunk
        job = self.layout.job(row["guid"])
        spans = [Span(*record) for record in records.writers(job.spans(stream), offset, chunk.end)]
        times = [Written(*record) for record in records.times(job.times(stream), offset, chunk.end)]
        return replace(chunk, spans=tuple(spans), times=tuple(times))

    def reap(self) -> int:
        """Collects the supervisors that have ended; gives how many that were started here still run."""
        with self._lock:
            self._supervisors = [child for child in self._supervisors if child.poll() is None]
            return len(self._supervisors)

    def workspaces(self) -> Sequence[ResourceId]:
        """The ids of all workspaces, of whatever group."""
        with self.store.read() as db:
            rows_ = db.execute("SELECT id FROM resource WHERE kind = ?", (Kind.WORKSPACE.value,)).fetchall()
        return [ResourceId.parse(row["id"]) for row in rows_]

    def close(self) -> None:
        """Lets go of the store's file; jobs run on."""
        self.store.close()

    def _directory(self, job: ResourceId, directory_id: str) -> tuple[Path, sqlite3.Row]:
        with self.store.read() as db:
            resource = _row(db, job)
            row = db.execute("SELECT * FROM job WHERE key = ?", (job.key,)).fetchone()
        segment = output_segment(ResourceId.parse(resource["id"]), row["guid"])
        if directory_id.lower() == STDOUTERR:
            return Path(row["output_root"]) / segment / STDOUTERR, row
        return job_rows.output_folder(self.layout, self.store, job, directory_id, segment), row

    def settle(self, *, force: bool = False, setup_secrets: Mapping[str, str] | None = None) -> None:
        """Makes what the store says true again: reaps, recovers, prepares nodes, starts what can start."""
        with self._lock:
            self.reap()
            if recovery.recover(self.store, self.layout) or force or self._is_pending():
                self._supervisors += step.settle(self.store, self.layout, setup_secrets=setup_secrets)

    def _is_pending(self) -> bool:
        """Whether a step may have something to do."""
        with self.store.read() as db:
            return db.execute(_PENDING).fetchone() is not None


def _row(db: sqlite3.Connection, id: ResourceId) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute("SELECT * FROM resource WHERE key = ?", (id.key,)).fetchone()
    if row is None:
        raise catalog.not_found(db, id)
    return row


def _workspaces(db: sqlite3.Connection, beside: ResourceId) -> list[Resource]:
    query = "SELECT * FROM resource WHERE kind = ? ORDER BY seq"
    found = db.execute(query, (Kind.WORKSPACE.value,)).fetchall()
    group = replace(beside.workspace_id, workspace="", name="").key
    return [rows.resource(db, row) for row in found if row["key"].startswith(group)]
