"""The Repository: the records of a home, which of its runs are open, and the folders of runs and clusters.

A record is what the service stores about a resource. A repository inserts a record unless it exists, changes
one atomically, reads many in one go and lists children by page. Several processes may use it at once.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.backends.base import api_errors
from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.row_files import FileRows
from batchai_magics.models.resource_ids import Kind, ResourceId

if TYPE_CHECKING:
    from batchai_magics.backends.base import Page

OWNER = "owner"  # in `more`: the user who created the resource
GROUP = "group"  # in a job's `more`: the name and the limit of its group
AFTER = "after"  # in a job's `more`: the guids of the runs after which it starts
HOST_NOTE = "host_note"  # in a job's `more`: that it runs on the host, without its image
CLUSTER_NOTES = "cluster_notes"  # in a job's `more`: what its creator should know of its cluster
BASELINES = "baselines"  # in an experiment's `more`: owner → name and guid of a job, the last one last
CLUSTER_GUID = "cluster_guid"  # in a job's `more`: the guid of its cluster


@dataclass(frozen=True)
class Record:
    """What is stored about a resource.

    `guid` names its folder, `spec` is its description as wire JSON without secrets, `fingerprint` a digest of
    the requested description, `created` seconds since 1970. `more` has the values of its kind, and those that
    the engine stores with it.
    """

    id: str
    guid: str
    spec: str
    fingerprint: str
    created: float
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def resource_id(self) -> ResourceId:
        """The id as a value."""
        return ResourceId.parse(self.id)

    @property
    def kind(self) -> Kind:
        """The kind of the resource, without parsing the whole id."""
        return Kind(self.id.rsplit("/", 2)[1])

    @property
    def key(self) -> str:
        """The key of the id, without parsing the id."""
        return self.id.lower()

    @property
    def name(self) -> str:
        """The name of the resource, without parsing the whole id."""
        return self.id.rpartition("/")[2]

    @property
    def mark(self) -> str:
        """The sort key of the order of creation."""
        return f"{self.created:020.6f} {self.guid}"

    def changed(self, more: Mapping[str, Any], *, spec: str | None = None) -> Record:
        """The record with these entries of `more`, and another description where one is given."""
        return replace(self, spec=self.spec if spec is None else spec, more={**self.more, **more})


class RecordPage(NamedTuple):
    """The records of one page, and the page after it; None at the end."""

    records: list[Record]
    after: Page | None = None


class Repository(ABC):
    """The records and the folders of a home."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Where the files of the home are."""

    @abstractmethod
    def now(self) -> float:
        """The time by the clock that all hosts of the home share, in seconds since 1970."""

    @abstractmethod
    def find(self, id: ResourceId) -> Record | None:
        """The record of a resource; None if it does not exist."""

    @abstractmethod
    def find_all(self, ids: Collection[ResourceId]) -> list[Record]:
        """The records of those resources that exist, read together."""

    @abstractmethod
    def get(self, id: ResourceId) -> Record:
        """The record of a resource; NotFoundError for the outermost resource that is missing."""

    @abstractmethod
    def insert(self, record: Record) -> Record | None:
        """Inserts a record unless one exists; returns the one that existed before, if any."""

    def find_same(self, record: Record) -> Record | None:
        """The record of the same resource, if it exists.

        Raises:
            ConflictError: A different resource has its name.
        """
        return _checked(self.find(record.resource_id), record)

    def insert_or_find(self, record: Record) -> Record:
        """Inserts a record, or returns the same resource's existing one; ConflictError as for `find_same`."""
        return _checked(self.insert(record), record) or record

    @contextlib.contextmanager
    def recorded(self, records: Sequence[Record]) -> Iterator[list[Record]]:
        """Inserts records, and removes them if the block raises; yields them, or the same ones that exist."""
        stored: list[Record] = []
        try:
            with self.transaction():
                for record in records:
                    stored.append(self.insert_or_find(record))
                yield stored
        except BaseException:
            for record in records[: len(stored)]:
                remaining = self.find(record.resource_id)
                if remaining and remaining.guid == record.guid:
                    self.delete(record.resource_id)
            raise

    @abstractmethod
    def change(self, id: ResourceId, make: Callable[[Record], Record]) -> Record:
        """Replaces a record by what `make` returns for it; concurrent changes are serialized."""

    @abstractmethod
    def delete(self, id: ResourceId) -> None:
        """Deletes a record and those in it, innermost first if that takes more than one step."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[object]:
        """Within the context, changes of records and of an engine's state in the same store are atomic.

        Where that is impossible, they are made one after the other.
        """

    @abstractmethod
    def children(self, parent: ResourceId, kind: Kind, page: Page) -> RecordPage:
        """A page of the records of a kind in `parent` (workspaces: in its group), oldest first."""

    @abstractmethod
    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> list[str]:
        """The names of a kind in `parent` with a prefix, matched case-insensitively, oldest first."""

    @abstractmethod
    def subtree(self, id: ResourceId) -> list[Record]:
        """A resource and everything in it, innermost first; NotFoundError if it does not exist."""

    @abstractmethod
    def workspaces(self) -> list[Record]:
        """The workspaces of all resource groups."""

    @abstractmethod
    def clusters(self) -> list[Record]:
        """The clusters of all workspaces."""

    @abstractmethod
    def owners(self, key: str) -> dict[str, str]:
        """The known owners of the resource or group of that key and of everything in it, by key."""

    @abstractmethod
    def add_open_job(self, job: Record) -> None:
        """Marks the run of a job as open."""

    @abstractmethod
    def remove_open_job(self, job: Record) -> None:
        """Removes the mark."""

    @abstractmethod
    def open_jobs(self, cluster_guid: str) -> list[Record]:
        """The jobs of a cluster with open runs, oldest first."""

    @abstractmethod
    def all_open_jobs(self) -> Iterable[Record]:
        """The jobs of all clusters with open runs."""

    @abstractmethod
    def snapshot(
        self, ids: Sequence[ResourceId] = (), clusters: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Within the context, this thread may read these records from a snapshot.

        It has the open jobs of the clusters, too, which are given by their guids.
        """

    def make_home(self) -> None:
        """Creates the home before the first write, unless opening it has done so."""
        return

    @property
    def accounts(self) -> FileRows:
        """The rows of storage accounts."""
        return FileRows(self.layout.home / "accounts", self.make_home)

    @property
    def groups(self) -> FileRows:
        """The rows of resource groups."""
        return FileRows(self.layout.home / "groups", self.make_home)

    def remove_cluster(self, guid: str) -> None:
        """Deletes the folder of a cluster."""
        private_files.remove_folder(self.layout.cluster(guid))

    def remove_runs(self, guids: Sequence[str]) -> None:
        """Deletes the folders of runs; each disappears at once for concurrent readers."""
        for root in (self.layout.job(guid).root for guid in guids):
            deleted = root.with_name(f"{root.name}.deleted")
            with contextlib.suppress(FileNotFoundError):
                root.rename(deleted)
            private_files.remove_folder(deleted)


def _checked(existing: Record | None, record: Record) -> Record | None:
    if existing and existing.fingerprint != record.fingerprint:
        raise api_errors.already_exists(record.resource_id)
    return existing
