"""Records as small files on a shared file system, and its clock.

A record is created by a link and replaced by a rename.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from batchai_magics.backends.base import Page, api_errors
from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.repository import CLUSTER_GUID, OWNER, Record, RecordPage, Repository
from batchai_magics.backends.service.row_files import locked, readable, refusing_damaged
from batchai_magics.errors import SpecError, StorageError, is_disk_full
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.untrusted_files import read_json, read_text

READ_INTERVAL_S = 30.0  # between reads, the time elapsed here is added
_MARK = re.compile(r"\d{13}\.\d{6} .+", re.ASCII)  # of a record, and so the token of the page behind it
_TICK_S = 0.02  # file times are usually rounded down by less than this


class FileClock:
    """The clock of the file system that contains `file`, which is created if necessary.

    If it cannot be written, the clock is this host's.
    """

    def __init__(self, file: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._file, self._monotonic = file, monotonic
        self._offset_s: float | None = None  # offset to this host's monotonic clock
        self._read_s = 0.0

    def read(self) -> float:
        """Reads the file system's time, rounded down, in seconds since 1970."""
        try:
            with private_files.pipelined(self._file):
                self._file.touch(mode=private_files.FILE)
                time_s = self._file.stat().st_mtime
        except OSError:
            return self._extrapolated()
        self._read_s = self._monotonic()
        offset_s = time_s - self._read_s
        is_rounded = self._offset_s is not None and 0 < self._offset_s - offset_s < _TICK_S
        self._offset_s = self._offset_s if is_rounded else offset_s
        return time_s

    def now(self) -> float:
        """The current time; the file system is only read every half minute."""
        if self._offset_s is None or self._monotonic() - self._read_s > READ_INTERVAL_S:
            self.read()
        return self._extrapolated()

    def age_s(self, moment: float) -> float:
        """The age of a time. If it seems to be in the future, the clock is read again."""
        age_s = self.now() - moment
        return age_s if age_s >= 0 else self.read() - moment

    def _extrapolated(self) -> float:
        """The time extrapolated from the last read; this host's time if there was none."""
        return time.time() if self._offset_s is None else self._monotonic() + self._offset_s


_CONTAINER_FILE = "resource.json"  # the record of a resource that contains others


class FileRepository(Repository):
    """The records of a home as small files."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._root = layout.home / "resources"
        self.clock = FileClock(layout.home / "clock")

    @property
    def layout(self) -> Layout:
        """Where the files of the home are."""
        return self._layout

    def now(self) -> float:
        """The file system's time, in seconds since 1970."""
        return self.clock.now()

    def find(self, id: ResourceId) -> Record | None:
        """The record of a resource; None if it does not exist."""
        return _read(self._file(id))

    def find_all(self, ids: Collection[ResourceId]) -> list[Record]:
        """The records of those resources that exist."""
        return self._read_all(map(self._file, ids))

    def snapshot(
        self, ids: Sequence[ResourceId] = (), clusters: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Within the context, this thread may read these records and open jobs from a cache."""
        folders, files = [self._open_folder(guid) for guid in clusters], [self._file(id) for id in ids]
        return private_files.read_ahead(folders, files)

    def get(self, id: ResourceId) -> Record:
        """The record of a resource; NotFoundError for the outermost one that is missing."""
        record = self.find(id)
        if record is None:
            if id.kind is not Kind.WORKSPACE:
                self.get(id.parent)
            raise api_errors.not_found(id, self.names(id.parent, id.kind))
        return record

    def insert(self, record: Record) -> Record | None:
        """Adds the record of a new resource; returns the existing one if there is one."""
        id = record.resource_id
        file = self._file(id)
        outer = None if id.kind is Kind.WORKSPACE else self._file(id.parent)
        try:
            is_new = private_files.write_new(file, json.dumps(asdict(record)), needs=outer)
        except OSError as error:
            if is_disk_full(error):
                raise
            if isinstance(error, FileNotFoundError) and outer:
                self.get(id.parent)
            text = f"{file} cannot be written: {error.strerror}"
            raise StorageError(text, code="StateUnavailable") from error
        return None if is_new else _read(file)

    def change(self, id: ResourceId, make: Callable[[Record], Record]) -> Record:
        """Replaces a record by a changed one, under a lock."""
        with self.locked(id):
            record = make(self.get(id))
            private_files.write(self._file(id), json.dumps(asdict(record)))
            return record

    def children(self, parent: ResourceId, kind: Kind, page: Page) -> RecordPage:
        """A page of the records of a kind inside `parent` (workspaces: in its group), oldest first."""
        if page.after and not _MARK.fullmatch(page.after):
            raise api_errors.unknown_page(page.after)
        rest = [record for record in self._children(parent, kind) if record.mark > page.after]
        shown = rest[: page.size]
        return RecordPage(shown, None if len(shown) == len(rest) else Page(page.size, shown[-1].mark))

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> list[str]:
        """The names of a kind inside `parent` that begin with `prefix` in any case, oldest first."""
        names = [record.name for record in self._children(parent, kind)]
        return [name for name in names if name.lower().startswith(prefix.lower())]

    def workspaces(self) -> list[Record]:
        """All workspaces of all groups."""
        return self._read_all(self._root.glob(f"*/*/*/{_CONTAINER_FILE}"))

    def subtree(self, id: ResourceId) -> list[Record]:
        """A resource and everything in it, innermost first."""
        kinds = {
            Kind.WORKSPACE: (Kind.EXPERIMENT, Kind.CLUSTER, Kind.FILE_SERVER),
            Kind.EXPERIMENT: (Kind.JOB,),
        }
        inner = [record for kind in kinds.get(id.kind, ()) for record in self._children(id, kind)]
        descendants = [item for record in inner for item in self.subtree(record.resource_id)]
        return [*descendants, self.get(id)]

    def owners(self, key: str) -> dict[str, str]:
        """The known owners of the resource of that key and of everything in it, by key."""
        try:
            containers = [ResourceId.parse(key)]
        except SpecError:  # the key of a resource group, which has no record
            containers = [record.resource_id for record in self.workspaces()]
        inside = [record for id in containers if self.find(id) for record in self.subtree(id)]
        known = {record.resource_id.key: record.more.get(OWNER) for record in inside}
        return {
            resource_key: owner
            for resource_key, owner in known.items()
            if owner and f"{resource_key}/".startswith(f"{key}/")
        }

    def clusters(self) -> list[Record]:
        """The clusters of all workspaces."""
        files = [*self._root.glob(f"*/*/*/{Kind.CLUSTER.value}/*.json")]
        workspaces = {file.parents[1] / _CONTAINER_FILE for file in files}
        with private_files.read_ahead(files=[*workspaces, *files]):
            existing = {workspace.parent for workspace in workspaces if workspace.exists()}
            return self._read_all(file for file in files if file.parents[1] in existing)

    def delete(self, id: ResourceId) -> None:
        """Deletes a record and those inside it, innermost first."""
        file = self._file(id)
        if not _is_container(id.kind):
            return file.unlink(missing_ok=True)
        for inner in sorted(file.parent.rglob("*.json"), key=lambda path: len(path.parts), reverse=True):
            inner.unlink(missing_ok=True)
        private_files.remove_folder(file.parent)

    def transaction(self) -> AbstractContextManager[None]:
        """Nothing: each file is changed for itself."""
        return contextlib.nullcontext()

    # -- open runs

    def add_open_job(self, job: Record) -> None:
        """Marks the run of a job as open."""
        private_files.write(self._open_file(job), job.id)

    def remove_open_job(self, job: Record) -> None:
        """Removes the mark."""
        self._open_file(job).unlink(missing_ok=True)

    def open_jobs(self, cluster_guid: str) -> list[Record]:
        """The jobs of a cluster with open runs, oldest first."""
        folder = self._open_folder(cluster_guid)
        with private_files.read_ahead([folder]):
            files = {file.stem: file for file in folder.glob("*.id")}
            jobs = self.find_all([id for file in files.values() if (id := _id_in(file))])
        return sorted((job for job in jobs if job.guid in files), key=lambda job: job.mark)

    def all_open_jobs(self) -> Iterable[Record]:
        """The jobs of all clusters with open runs."""
        for folder in self.layout.clusters.glob("*"):
            yield from self.open_jobs(folder.name)

    def _open_folder(self, cluster_guid: str) -> Path:
        return self.layout.cluster(cluster_guid) / "open"

    def _open_file(self, job: Record) -> Path:
        return self._open_folder(job.more[CLUSTER_GUID]) / f"{job.guid}.id"

    @contextlib.contextmanager
    def locked(self, id: ResourceId) -> Iterator[None]:
        """Holds the lock of a resource within the context, across hosts."""
        with locked(self._file(id).with_suffix(".lock")):
            yield

    def _children(self, parent: ResourceId, kind: Kind) -> list[Record]:
        folder = self._folder(parent, kind)
        records = self._read_all(
            folder.glob(f"*/{_CONTAINER_FILE}") if _is_container(kind) else folder.glob("*.json")
        )
        return sorted(records, key=lambda record: record.mark)

    def _read_all(self, files: Iterable[Path]) -> list[Record]:
        paths = [*files]
        with private_files.read_ahead(files=paths):
            return [*readable(_read, paths)]

    def _file(self, id: ResourceId) -> Path:
        folder = self._folder(id.parent if id.kind is not Kind.WORKSPACE else id, id.kind)
        name = _folder_name(id.name)
        return folder / name / _CONTAINER_FILE if _is_container(id.kind) else folder / f"{name}.json"

    def _folder(self, parent: ResourceId, kind: Kind) -> Path:
        collection: str = kind.value
        group = self._root / _folder_name(parent.subscription) / _folder_name(parent.group)
        if kind is Kind.WORKSPACE:
            return group
        workspace = group / _folder_name(parent.workspace)
        if kind is Kind.JOB:
            return workspace / str(Kind.EXPERIMENT.value) / _folder_name(parent.name) / collection
        return workspace / collection


def _is_container(kind: Kind) -> bool:
    return kind in (Kind.WORKSPACE, Kind.EXPERIMENT)


def _folder_name(name: str) -> str:
    """A name as a safe folder name, in lower case."""
    return f"={name.lower()}"


def _read(file: Path) -> Record | None:
    with refusing_damaged(file):
        return Record(**read_json(file))
    return None


def _id_in(file: Path) -> ResourceId | None:
    try:
        return ResourceId.parse(read_text(file))
    except FileNotFoundError:
        return None
