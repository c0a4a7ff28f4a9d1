"""The Slurm backend: the Backend protocol over a folder that all nodes share, and Slurm's commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.base import (
    BackendBase,
    Capabilities,
    Chunk,
    FileRef,
    Listing,
    Look,
    Pace,
    Page,
    Patch,
    Spec,
)
from batchai_magics.backends.folders import entries, full_disk, mounts, outputs, private
from batchai_magics.backends.folders.file_clock import FileClock
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.logs import Logs
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.backends.service.groups import OwnGroups
from batchai_magics.backends.slurm import creation, deletion, records, showing
from batchai_magics.backends.slurm.accounts import SlurmGroups
from batchai_magics.backends.slurm.answers import Answers
from batchai_magics.backends.slurm.clusters import Clusters
from batchai_magics.backends.slurm.creation import Home
from batchai_magics.backends.slurm.facets import NodeCommands, Ownership, Telemetry, Usages, groups
from batchai_magics.backends.slurm.preparing import setups
from batchai_magics.backends.slurm.preparing.setups import SetupLogs
from batchai_magics.backends.slurm.records import Record, Records
from batchai_magics.backends.slurm.runs import Runs
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.backends.slurm.share_use import GuardedAccounts, GuardedStorage, Users
from batchai_magics.backends.slurm.talk import Slurm
from batchai_magics.models.execution import STDOUTERR, OutputFile
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.resources import Node, Resource, WorkspacePatch

CAPABILITIES = Capabilities(
    name="slurm",
    unmanaged_mounts=False,
    key_vault=False,
    logins=False,
    stop_conditions=True,
    custom_processes=True,
    slurm_options=True,
    known_sizes=True,
    pace=Pace(look_s=0.5),  # each look reads some small files of each job: a file system that many share
)


_SHOWN: Mapping[Kind, Callable[[Record], Resource]] = {
    Kind.WORKSPACE: showing.workspace,
    Kind.EXPERIMENT: showing.experiment,
    Kind.FILE_SERVER: showing.file_server,
}

_MOVING = (Kind.CLUSTER, Kind.JOB)  # what does not stay as it was made


class SlurmBackend(BackendBase):
    """Jobs on a Slurm cluster. State, shares and logs are below its home, which hosts and nodes share."""

    capabilities = CAPABILITIES
    storage: GuardedStorage
    containers: GuardedStorage
    accounts: GuardedAccounts
    groups: OwnGroups

    def __init__(self, settings: SlurmSettings) -> None:
        machine = settings.machine
        layout = Layout(machine.folder(settings.usual_home))
        private.make_home(layout.home, setting="slurm.home")
        slurm = Slurm(machine, settings.conf)
        answers = Answers(slurm, layout.home / "asked", settings.look_s, FileClock(layout.home / "clock"))
        found = Records(layout.home / "resources", machine)
        runs = Runs(layout, slurm, answers, settings)
        clusters = Clusters(layout, found, runs, answers, settings)
        users = Users(layout, clusters)
        self._home = Home(machine, settings, layout, found, runs, clusters, SlurmGroups(layout), answers)
        self.storage = _storage(layout, "shares", "share", users)
        self.containers = _storage(layout, "containers", "container", users)
        self.accounts = GuardedAccounts(layout, self._home.groups, users=users)
        self.groups = groups(self._home, self.accounts)
        self.node_commands = NodeCommands(self._home)
        self.telemetry = Telemetry(self._home)
        self.usages = Usages(self._home)
        self.ownership = Ownership(found)
        self.setup_logs = SetupLogs(layout, found)

    def _create(self, id: ResourceId, spec: Spec, owner: str) -> Resource:
        """Makes a resource, or returns it if the very same is there already."""
        with full_disk.refused(self._home.layout.home, setting="slurm.home"):
            record = creation.create(self._home, id, spec, owner)
        return self._all_shown([record])[0]

    def show(self, id: ResourceId) -> Resource:
        """The resource as it stands."""
        return self._all_shown([self._home.records.get(id)])[0]

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind inside `parent`, oldest first; all workspaces of its resource group."""
        if kind is not Kind.WORKSPACE:
            self._home.records.get(parent)
        shown, after = records.pages(self._home.records.children(parent, kind, page), page)
        return Listing(self._all_shown(shown), after)

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names inside `parent` that begin so; nothing but records is read."""
        self._home.records.get(parent)
        names = self._home.records.names(parent, kind)
        return [name for name in names if name.lower().startswith(prefix.lower())]

    def look(self, ids: Collection[ResourceId], *, since: Look | None = None, wait_s: float = 0.0) -> Look:
        """Jobs and clusters as they stand; Slurm is asked once for all of them, if at all."""
        shown = self._all_shown(self._home.records.find_all(ids))
        return Look({resource.id.key: resource for resource in shown})

    def close(self) -> None:
        """Lets go of the connection to another machine."""
        self._home.machine.close()

    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Tags a workspace, or resizes a cluster: nodes with jobs go as the deallocation option says."""
        with full_disk.refused(self._home.layout.home, setting="slurm.home"):
            if isinstance(patch, WorkspacePatch):
                creation.change_tags(self._home, id, dict(patch.tags))
            else:
                creation.resize(self._home, id, patch)
        return self.show(id)

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and all inside it. Jobs are ended first; what they wrote stays on its share."""
        deletion.delete(self._home, id)

    def terminate(self, job: ResourceId) -> None:
        """Asks a job to end; nothing happens to one that has ended."""
        self._home.runs.ask_to_stop(self._home.records.get(job))

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""
        record = self._home.records.get(id)
        if id.kind is Kind.JOB:
            return showing.nodes(record.resource_id, self._home.runs.settle(record))
        return [node for node, _ in self._nodes_of(record)]

    def files(
        self,
        job: ResourceId,
        directory_id: str = STDOUTERR,
        path: str = "",
        *,
        expiry_min: int = 60,
        limit: int | None = None,
    ) -> Sequence[OutputFile]:
        """One level of a job's output directory, sorted by name; addresses of files here never expire."""
        folder = self._directory(self._home.records.get(job), directory_id)
        return outputs.listing(folder, path, limit=limit)

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`, with the ranks that wrote them, and when."""
        record = self._home.records.get(file.job)
        if file.directory_id.lower() == STDOUTERR:
            with self._logs(record) as logs:
                return logs.read(file.path, offset, limit)
        is_complete = not self._home.runs.settle(record).is_open
        folder = self._directory(record, file.directory_id)
        return outputs.read(entries.inside(folder, file.path), offset, limit, is_complete=is_complete)

    def tail(
        self,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs."""
        record = self._home.records.get(job)
        with self._logs(record) as logs:
            return logs.tail(positions, limit)

    def _all_shown(self, records: Sequence[Record]) -> Sequence[Resource]:
        """These as they stand; what tells it is read together."""
        clusters, jobs = ([each for each in records if each.resource_id.kind is kind] for kind in _MOVING)
        with self._home.clusters.together(clusters), self._home.runs.together(jobs):
            return [self._shown(record) for record in records]

    def _shown(self, record: Record) -> Resource:
        kind = record.resource_id.kind
        if kind is Kind.JOB:
            return showing.job(record, self._home.runs.settle(record))
        if kind is Kind.CLUSTER:
            return showing.cluster(
                record, self._nodes_of(record), self._home.clusters.other_partition(record)
            )
        return _SHOWN[kind](record)

    def _nodes_of(self, cluster: Record) -> Sequence[tuple[Node, str]]:
        """The nodes of a cluster, each with why it cannot be used, if it cannot."""
        with self._home.clusters.together([cluster]):
            problems = setups.problems(self._home.layout, cluster)
            return setups.marked(self._home.clusters.nodes(cluster), problems)

    @contextlib.contextmanager
    def _logs(self, record: Record) -> Iterator[Logs]:
        is_open = self._home.runs.settle(record).is_open
        job, folder = self._home.layout.job(record.guid), self._directory(record, STDOUTERR)
        # Only now: what is not open any more has all its records. What is secret is read behind the bytes.
        with self._home.machine.together([job.root], listed=[folder]):
            yield Logs(folder, job, is_open)

    def _directory(self, record: Record, directory_id: str) -> Path:
        """The folder of one of a job's output directories."""
        segment = output_segment(record.resource_id, record.guid)
        if directory_id.lower() == STDOUTERR:
            root: str = record.more["output_root"]
            return self._home.layout.home / root / segment / STDOUTERR
        cluster = showing.cluster_spec(record.more["cluster_spec"])
        spec = showing.job_spec(record.spec)
        return mounts.output_folder(self._home.layout, spec, cluster, directory_id, segment)


def _storage(layout: Layout, kind: str, noun: str, users: Users) -> GuardedStorage:
    return GuardedStorage(layout.home / kind, layout.unfinished(kind), noun, users=users)
