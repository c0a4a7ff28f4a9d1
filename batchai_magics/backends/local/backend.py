"""The local backend: the Backend protocol over a store, folders and detached supervisors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from batchai_magics.backends.base import (
    BackendBase,
    Capabilities,
    Chunk,
    FileRef,
    Listing,
    Look,
    OutputFile,
    Page,
    Span,
    Spec,
    Written,
)
from batchai_magics.backends.local import creation, deletion, devices
from batchai_magics.backends.local.facets import Groups, NodeCommands, Preemption, SetupLogs, Usages
from batchai_magics.backends.local.folders import mounts, outputs
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.folders.shares import LocalStorage
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import jobs, resources, showing
from batchai_magics.backends.local.state.accounts import LocalAccounts
from batchai_magics.backends.local.state.jobs import JobRow
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import scaling, stopping
from batchai_magics.backends.local.watch.upkeep import Upkeep
from batchai_magics.backends.node import records
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.models.cluster import ClusterPatch
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.job import ERR, OUT, STDOUTERR
from batchai_magics.models.resources import Cluster, Node, Resource

CAPABILITIES = Capabilities(name="local", key_vault=False, logins=False, known_sizes=True)
_STREAMS = {OUT: "stdout", ERR: "stderr"}


class LocalBackend(BackendBase):
    """Jobs on this machine. State, shares and logs are below its home, which processes may share."""

    capabilities = CAPABILITIES
    storage: LocalStorage
    containers: LocalStorage
    accounts: LocalAccounts
    groups: Groups

    def __init__(self, settings: LocalSettings) -> None:
        self.settings = settings
        self.layout = Layout(Path(settings.home).expanduser().absolute())
        self.store = Store(self.layout.database)
        self.storage = LocalStorage(self.layout.home / "shares")
        self.containers = LocalStorage(self.layout.home / "containers")
        self.accounts = LocalAccounts(self.store, self.layout)
        self._upkeep = Upkeep(self.store, self.layout)
        self.groups = Groups(self._upkeep, self.accounts)
        self.node_commands = NodeCommands(self._upkeep)
        self.preemption = Preemption(self._upkeep)
        self.setup_logs = SetupLogs(self._upkeep)
        self.usages = Usages(self.store, self.settings.core_quota)

    def _create(self, id: ResourceId, spec: Spec) -> Resource:
        """Makes a resource, or returns it if the very same is there already."""
        draft = creation.check(self.layout, id, spec, container_command=self.settings.container_command)
        is_new = creation.insert(self.store, self.layout, draft, settings=self.settings)
        self._upkeep.settle(is_due=is_new, secrets=draft.secrets if is_new else None)
        resource = self.show(id)
        if is_new and isinstance(resource, Cluster):
            return replace(resource, notes=devices.told(resource.spec, devices.machine()))
        return resource

    def show(self, id: ResourceId) -> Resource:
        """The resource as it stands."""
        self._upkeep.settle()
        with self.store.read() as db:
            return showing.resource(db, resources.get(db, id))

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind inside `parent`, oldest first; all workspaces of its resource group."""
        self._upkeep.settle()
        page = page or Page()
        with self.store.read() as db:
            if kind is not Kind.WORKSPACE:
                resources.get(db, parent)
            found = resources.children(db, parent, kind, page)
            shown = found[: page.size]
            after = None if len(found) == len(shown) else Page(page.size, str(shown[-1].seq))
            return Listing(showing.resources(db, shown), after)

    def look(self, ids: Collection[ResourceId], *, since: Look | None = None, wait_s: float = 0.0) -> Look:
        """Jobs and clusters as they stand, all read in one transaction."""
        self._upkeep.settle()
        with self.store.read() as db:
            found = showing.resources(db, resources.some(db, ids))
        return Look({resource.id.key: resource for resource in found})

    def _update(self, id: ResourceId, patch: ClusterPatch) -> Resource:
        """Resizes a cluster; nodes that have jobs go as the deallocation option says."""
        stopping.wake(self.store, scaling.resize(self.store, id, patch, core_quota=self.settings.core_quota))
        self._upkeep.settle(is_due=True)
        return self.show(id)

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and all inside it. Jobs are ended first; what they wrote stays on its share."""
        deletion.delete(self._upkeep, id)

    def terminate(self, job: ResourceId) -> None:
        """Asks a job to end; nothing happens to one that has ended."""
        with self.store.read() as db:
            resources.get(db, job)
        stopping.wake(self.store, stopping.ask(self.store, job.key))
        self._upkeep.settle(is_due=True)

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""
        self._upkeep.settle()
        with self.store.read() as db:
            resources.get(db, id)
            return showing.nodes_of(db, id)

    def files(
        self, job: ResourceId, directory_id: str = STDOUTERR, path: str = "", *, expiry_min: int = 60
    ) -> Sequence[OutputFile]:
        """One level of a job's output directory, sorted by name; addresses of files here never expire."""
        return outputs.listing(self._directory(job, directory_id)[0], path)

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`, with the ranks that wrote them, and when."""
        self._upkeep.settle()
        folder, run = self._directory(file.job, file.directory_id)
        stream = _STREAMS.get(file.path) if file.directory_id == STDOUTERR else None
        return self._chunk(outputs.inside(folder, file.path), stream, run, offset, limit)

    def tail(
        self,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs; the store is asked once."""
        self._upkeep.settle()
        folder, run = self._directory(job, STDOUTERR)
        chunks: dict[str, Chunk] = {}
        for name, size in outputs.sizes(folder):
            position = positions.get(name, 0)
            if size != position:
                start = position if size > position else 0
                chunks[name] = self._chunk(folder / name, _STREAMS.get(name), run, start, limit)
        return chunks

    def _chunk(self, path: Path, stream: str | None, run: JobRow, offset: int, limit: int) -> Chunk:
        is_complete = not run.is_open  # looked at before the size
        chunk = outputs.read(path, offset, limit, is_complete=is_complete)
        if not stream or not chunk.data:
            return chunk
        job = self.layout.job(run.guid)
        spans = [Span(*record) for record in records.writers(job.spans(stream), offset, chunk.end)]
        times = [Written(*record) for record in records.times(job.times(stream), offset, chunk.end)]
        return replace(chunk, spans=tuple(spans), times=tuple(times))

    def reap(self) -> int:
        """Collects the supervisors that have ended; gives how many that were started here still run."""
        return self._upkeep.reap()

    def close(self) -> None:
        """Lets go of the store's file; jobs run on."""
        self.store.close()

    def _directory(self, job: ResourceId, directory_id: str) -> tuple[Path, JobRow]:
        with self.store.read() as db:
            row, run = resources.get(db, job), jobs.get(db, job.key)
        segment = output_segment(row.id, run.guid)
        if directory_id.lower() == STDOUTERR:
            return Path(run.output_root) / segment / STDOUTERR, run
        spec = showing.job_spec(row.spec)
        with self.store.read() as db:
            cluster = resources.find(db, ResourceId.parse(spec.cluster.id))
        cluster_spec = showing.cluster_spec(cluster.spec) if cluster else None
        return mounts.output_folder(self.layout, spec, cluster_spec, directory_id, segment), run
