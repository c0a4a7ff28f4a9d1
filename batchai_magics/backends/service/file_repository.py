"""Records as small files on a shared file system, and its clock.

A record is created by a link and replaced by a rename.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from batchai_magics.backends.base import Page, api_errors
from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.repository import CLUSTER_GUID, OWNER, Record, RecordPage, Repository
from batchai_magics.errors import DISK_FULL, SpecError, StorageError, is_disk_full
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.untrusted_files import NotRegularError, read_json, read_text

Content = TypeVar("Content")

READ_INTERVAL_S = 30.0  # between reads, the time elapsed here is added
_TICK_S = 0.02  # file times are usually rounded down by less than this


class FileClock:
    """The clock of the file system that contains `file`, which is created if necessary.

    If it cannot be written, the clock is this host's.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
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
        self._read_s = time.monotonic()
        offset_s = time_s - self._read_s
        is_rounded = self._offset_s is not None and 0 < self._offset_s - offset_s < _TICK_S
        self._offset_s = self._offset_s if is_rounded else offset_s
        return time_s

    def now(self) -> float:
        """The current time; the file system is only read every half minute."""
        if self._offset_s is None or time.monotonic() - self._read_s > READ_INTERVAL_S:
            self.read()
        return self._extrapolated()

    def age_s(self, moment: float) -> float:
        """The age of a time. If it seems to be in the future, the clock is read again."""
        age_s = self.now() - moment
        return age_s if age_s >= 0 else self.read() - moment

    def _extrapolated(self) -> float:
        """The time extrapolated from the last read; this host's time if there was none."""
        return time.time() if self._offset_s is None else time.monotonic() + self._offset_s


_CONTAINER_FILE = "resource.json"  # the record of a resource that contains others
LOCK_EXPIRY_S = 60.0  # an older lock belongs to a process that died
_POLL_S = 0.02


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

    def insert(self, id: ResourceId, record: Record) -> Record | None:
        """Adds the record of a new resource; returns the existing one if there is one."""
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
        return [*(each for record in inner for each in self.subtree(record.resource_id)), self.get(id)]

    def owners(self, key: str) -> dict[str, str]:
        """The known owners of the resource of that key and of everything in it, by key."""
        try:
            containers = [ResourceId.parse(key)]
        except SpecError:  # the key of a resource group, which has no record
            containers = [record.resource_id for record in self.workspaces()]
        inside = [record for id in containers if self.find(id) for record in self.subtree(id)]
        known = {record.resource_id.key: record.more.get(OWNER) for record in inside}
        return {each: owner for each, owner in known.items() if owner and f"{each}/".startswith(f"{key}/")}

    def clusters(self) -> list[Record]:
        """The clusters of all workspaces."""
        files = [*self._root.glob(f"*/*/*/{Kind.CLUSTER.value}/*.json")]
        workspaces = {file.parents[1] / _CONTAINER_FILE for file in files}
        with private_files.read_ahead(files=[*workspaces, *files]):
            left = {workspace.parent for workspace in workspaces if workspace.exists()}
            return self._read_all(file for file in files if file.parents[1] in left)

    def delete(self, id: ResourceId) -> None:
        """Deletes a record and those inside it, innermost first."""
        file = self._file(id)
        if not _is_container(id.kind):
            return file.unlink(missing_ok=True)
        for inner in sorted(file.parent.rglob("*.json"), key=lambda each: len(each.parts), reverse=True):
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

    @property
    def accounts(self) -> FileRows:
        """The rows of storage accounts, each a file."""
        return FileRows(self.layout.home / "accounts")

    @property
    def groups(self) -> FileRows:
        """The rows of resource groups, each a file."""
        return FileRows(self.layout.home / "groups")

    @contextlib.contextmanager
    def locked(self, id: ResourceId) -> Iterator[None]:
        """Holds the lock of a resource within the context, across hosts."""
        with locked(self._file(id).with_suffix(".lock")):
            yield

    def _children(self, parent: ResourceId, kind: Kind) -> list[Record]:
        folder = self._folder(parent, kind)
        found = self._read_all(
            folder.glob(f"*/{_CONTAINER_FILE}") if _is_container(kind) else folder.glob("*.json")
        )
        return sorted(found, key=lambda each: each.mark)

    def _read_all(self, files: Iterable[Path]) -> list[Record]:
        paths = [*files]
        with private_files.read_ahead(files=paths):
            return [*_readable(_read, paths)]

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


class FileRows:
    """Rows that are files of a folder of a home, which `make_home` makes, or closes to others, before.

    A row with a text that cannot be encoded raises a SpecError; a damaged one a StorageError, and is left out
    of lists with a warning.
    """

    def __init__(self, folder: Path, make_home: Callable[[], None] = lambda: None) -> None:
        self._folder, self._make_home = folder, make_home

    def find(self, name: str) -> dict[str, Any] | None:
        """The row of that name; None if it does not exist."""
        return _row(self._file(name))

    def all(self) -> list[dict[str, Any]]:
        """All rows, sorted by name."""
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stem)
        return [*_readable(_row, files)]

    def insert(self, name: str, row: Mapping[str, Any]) -> None:
        """Adds a row unless it exists."""
        with self._changed(name) as file:
            private_files.write_new(file, _row_text(name, row))

    def change(self, name: str, **values: Any) -> None:
        """Changes values of a row under a lock."""
        with self._changed(name) as file, locked(file.with_suffix(".lock")):
            private_files.write(file, _row_text(name, {**(_row(file) or {}), **values}))

    def delete(self, name: str) -> None:
        """Deletes a row, if it exists."""
        self._file(name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _changed(self, name: str) -> Iterator[Path]:
        """The file of a row that is written within the context; StorageError if that fails."""
        self._make_home()
        try:
            yield self._file(name)
        except OSError as error:
            is_full = is_disk_full(error)
            text = f"{self._folder.parent} cannot be written: {error.strerror}"
            hint = "Free some space and try again." if is_full else ""
            raise StorageError(text, code=DISK_FULL if is_full else "StateUnavailable", hint=hint) from error

    def _file(self, name: str) -> Path:
        return self._folder / f"={name.lower()}.json"


def _row_text(name: str, row: Mapping[str, Any]) -> str:
    from batchai_magics.models.documents.spec_problems import surrogates_in  # loads pydantic

    if problems := [*surrogates_in(row, "")]:
        raise SpecError(problems, what=name)
    return json.dumps(row)


def _row(file: Path) -> dict[str, Any] | None:
    with _refusing_damaged(file):
        row: dict[str, Any] = dict(read_json(file))
        return row
    return None


def _is_container(kind: Kind) -> bool:
    return kind in (Kind.WORKSPACE, Kind.EXPERIMENT)


def _folder_name(name: str) -> str:
    """A name as a safe folder name, in lower case."""
    return f"={name.lower()}"


def _read(file: Path) -> Record | None:
    with _refusing_damaged(file):
        return Record(**read_json(file))
    return None


@contextlib.contextmanager
def _refusing_damaged(file: Path) -> Iterator[None]:
    """Within the context, a damaged file raises a StorageError; a missing one ends the context."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (NotRegularError, ValueError, TypeError) as error:
        text = f"the record {file} is damaged: {error}"
        raise StorageError(text, code="StateUnavailable", hint="Restore or delete this file.") from None


def _readable(read: Callable[[Path], Content | None], files: Iterable[Path]) -> Iterator[Content]:
    """What files hold, for lists: a damaged one is left out of them, with a warning."""
    for file in files:
        try:
            content = read(file)
        except StorageError as error:
            warnings.warn(error.message, RuntimeWarning, stacklevel=2)
        else:
            if content is not None:
                yield content


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Holds the lock of a file within the context, across hosts; the first process to link it wins."""
    deadline = time.monotonic() + 2 * LOCK_EXPIRY_S
    while not try_lock(file):
        if time.monotonic() > deadline:
            raise StorageError(f"{file} is not given up", hint="Delete it if no process uses it.")
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def try_lock(file: Path) -> bool:
    """Tries to take a lock; False if it is held. Locks of dead processes expire after a minute."""
    if private_files.write_new(file, f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex}\n"):
        return True
    # An old lock is moved away; both times are of one clock, the file system's.
    probe = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
    try:
        private_files.write(probe, "")
        with contextlib.suppress(FileNotFoundError):
            if probe.stat().st_mtime - file.stat().st_mtime > LOCK_EXPIRY_S:
                file.rename(probe)
    finally:
        probe.unlink(missing_ok=True)
    return False


def _id_in(file: Path) -> ResourceId | None:
    try:
        return ResourceId.parse(read_text(file))
    except FileNotFoundError:
        return None
