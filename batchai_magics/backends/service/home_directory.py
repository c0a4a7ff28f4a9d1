"""A home as a folder: links for mounts, a folder for each run, and the output and logs of jobs."""

from __future__ import annotations

import contextlib
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base import BEFORE_BYTES, Chunk, RedactedSpan, Seal, Span, WriteTime
from batchai_magics.backends.folders import entries, mounts, private_files, rank_files
from batchai_magics.backends.folders.entries import Entry, read_slice, resolve_inside
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.node import output_records
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.ranks.signed_records import seals_in
from batchai_magics.backends.service import stored_descriptions
from batchai_magics.backends.service.context import CLUSTER_SPEC, OUTPUT_ROOT
from batchai_magics.backends.service.stored_descriptions import output_segment
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.models.file_names import name_of, text_of
from batchai_magics.models.job_execution import ERR, OUT, STDOUTERR, FileKind, OutputFile, is_process_log
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.records.record_files import MAX_BYTES, PARAMETERS, PART
from batchai_magics.untrusted_files import NotRegularError, open_file, read_start

if TYPE_CHECKING:
    from batchai_magics.backends.service.context import AdmittedJob
    from batchai_magics.backends.service.repository import Record
    from batchai_magics.backends.service.runner import EngineSite, PlannedRun, PlannedSetup
    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.runs.parameters import Parameter
    from batchai_magics.models.telemetry_records import TelemetryRecord

HEAD_BYTES = 256
MAX_FILES, MAX_ALL_BYTES = 10_000, 64 << 20  # of the records that are read together
_STREAMS = {OUT: "stdout", ERR: "stderr"}
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class HomeDirectory:
    """The folders of a home; see `backends.service.context.HomeFolders`."""

    def __init__(self, layout: Layout, *, setting: str) -> None:
        """`setting` is the setting that selects the home, for error messages."""
        self._layout, self._setting = layout, setting

    @property
    def shares(self) -> Path:
        """The folder with the shares of all accounts."""
        return self._layout.home / "shares"

    def batch(self) -> AbstractContextManager[None]:
        """Within the context, small files may be written in one request; all are written when it exits."""
        return private_files.pipelined(self._layout.home)

    def refusing_full_disk(self) -> AbstractContextManager[None]:
        """Within the context, a full disk raises a StorageError that says what to do."""
        return private_files.full_disk_refused(self._layout.home, setting=self._setting)

    # -- clusters

    def check_cluster(self, spec: ClusterSpec) -> None:
        """Raises a SpecError for a setup task whose output is on no mount."""
        if spec.node_setup and spec.node_setup.setup_task:
            mounts.setup_logs(self._layout, spec)

    def make_cluster(self, guid: str, spec: ClusterSpec) -> None:
        """Links a cluster's mounts, and creates the output folder of its setup task."""
        volumes = spec.node_setup.mount_volumes if spec.node_setup else None
        mounts.link(self._layout, self._layout.mounts(guid), volumes)
        if spec.node_setup and spec.node_setup.setup_task:
            private_files.make_folder(mounts.setup_logs(self._layout, spec))

    def node_setup(self, guid: str, spec: ClusterSpec, site: EngineSite) -> PlannedSetup:
        """Plans what a node of a cluster mounts and runs before it takes runs."""
        from batchai_magics.backends.service import run_planner

        return run_planner.node_setup(self._layout, guid, spec, site)

    def remove_cluster(self, guid: str) -> None:
        """Deletes a cluster's folder."""
        private_files.remove_folder(self._layout.cluster(guid))

    def setup_files(self, spec: ClusterSpec, path: str) -> Sequence[OutputFile]:
        """Lists the output of a cluster's setup task, one folder at a time."""
        return output_listing(mounts.setup_logs(self._layout, spec), path)

    # -- runs

    def output_root(self, spec: JobSpec, cluster: ClusterSpec, guid: str) -> str:
        """The folder of a job's stdOutErrPathPrefix; SpecError if it cannot be resolved."""
        return str(mounts.output_root(self._layout, spec, cluster, guid))

    def make_run(self, job: AdmittedJob) -> PlannedRun:
        """Creates the folder of a job's run with its links, and plans what the run starts."""
        from batchai_magics.backends.service.run_planner import RunPlanner  # readers never need it

        return RunPlanner(self._layout, job).planned_run()

    def discard_backups(self, guids: Sequence[str]) -> None:
        """Nothing: records that are files have no backups."""

    def logged_parameters(self, guids: Sequence[str]) -> Mapping[str, Mapping[str, Parameter]]:
        """The parameters that runs have logged, read together; runs without any are left out."""
        files = {guid: self._layout.job(guid).records / PARAMETERS for guid in guids}
        with private_files.read_ahead(files=files.values()):
            found = {guid: rank_files.logged_in(file) for guid, file in files.items()}
        return {guid: each for guid, each in found.items() if each}

    def back_up_labels(self, guid: str, text: str) -> None:
        """Nothing: records that are files have no backups."""

    def remove_runs(self, guids: Sequence[str]) -> None:
        """Deletes the folders of runs; each is gone at once for those who read it meanwhile."""
        for root in (self._layout.job(guid).root for guid in guids):
            deleted = root.with_name(f"{root.name}.deleted")
            with contextlib.suppress(FileNotFoundError):
                root.rename(deleted)
            private_files.remove_folder(deleted)

    # -- output of jobs

    def files(self, job: Record, directory_id: str, path: str, limit: int | None) -> Sequence[OutputFile]:
        """Lists a folder of one of a job's output directories, sorted by name."""
        return output_listing(self._output(job, directory_id), path, limit=limit)

    def read(
        self, job: Record, directory_id: str, path: str, offset: int, limit: int, *, is_open: bool
    ) -> Chunk:
        """Reads at most `limit` bytes of a job's file; `is_open` must have been determined before."""
        folder = self._output(job, directory_id)
        if directory_id.lower() != STDOUTERR:
            return read_output(entries.resolve_inside(folder, path), offset, limit, is_complete=not is_open)
        layout = self._layout.job(job.guid)
        with private_files.read_ahead([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).read(path, offset, limit)

    def changed_logs(self, job: Record, positions: Mapping[str, int]) -> Mapping[str, int]:
        """The logs whose size is not the given position, with where to read each from."""
        sizes = entries.file_sizes(self._output(job, STDOUTERR), skips=is_process_log)
        known = ((name, size, positions.get(name, 0)) for name, size in sizes)
        return {name: at if size > at else 0 for name, size, at in known if size != at}

    def tail(
        self, job: Record, positions: Mapping[str, int], limit: int, *, is_open: bool
    ) -> Mapping[str, Chunk]:
        """The bytes of these logs of a job from these positions; `is_open` must be determined before."""
        folder, layout = self._output(job, STDOUTERR), self._layout.job(job.guid)
        # Read after `is_open` was determined: an ended run has all its records. Secret spans are read after
        # the data.
        with private_files.read_ahead([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).tail(positions, limit)

    def telemetry(self, guid: str, after: float) -> TelemetryRecord:
        """The samples of a run taken after the time `after`."""
        return rank_files.read_telemetry(self._layout.job(guid).telemetry, after)

    def records(self, guid: str, names: Collection[str]) -> Mapping[str, bytes]:
        """The record files of a run, those in whole folders (`machines/`) too; missing ones are left out."""
        return read_records(self._layout.job(guid).records, names)

    def _output(self, job: Record, directory_id: str) -> Path:
        """The folder of one of a job's output directories."""
        if directory_id.lower() == STDOUTERR:
            return self._layout.home / _logs_folder(job.id, job.guid, job.more[OUTPUT_ROOT])
        from batchai_magics.backends.service import resource_views  # loads the models

        cluster = resource_views.cluster_spec(job.more[CLUSTER_SPEC])
        spec, segment = stored_descriptions.job_spec(job.spec), output_segment(job.resource_id, job.guid)
        return mounts.output_folder(self._layout, spec, cluster, directory_id, segment)


@lru_cache(maxsize=1024)
def _logs_folder(id: str, guid: str, output_root: str) -> str:
    """The folder of a run's logs, relative to the home or absolute; cached for polling."""
    return f"{output_root}/{output_segment(ResourceId.parse(id), guid)}/{STDOUTERR}"


def output_listing(folder: Path, path: str, *, limit: int | None = None) -> list[OutputFile]:
    """Lists the folder `path` below `folder`, sorted by name, up to `limit` entries."""
    relative = path.strip("/").removeprefix(".").lstrip("/")
    target = resolve_inside(folder, path)
    try:
        if not target.is_dir():
            return []
        return [_output_file(entry, relative, target) for entry in entries.scan(folder, target, limit)]
    except OSError as error:  # another owner's, created by a container, or too deep
        raise _unreadable(f"the folder {relative[-200:] or folder.name}", error) from error


def _output_file(entry: Entry, path: str, target: Path) -> OutputFile:
    name = f"{path}/{entry.name}".lstrip("/")
    url = (target / name_of(entry.name)).absolute().as_uri() if entry.kind is FileKind.FILE else None
    return OutputFile(name, entry.kind, entry.size_bytes, entry.modified, url, entry.is_link)


def read_output(file: Path, offset: int, limit: int, *, is_complete: bool) -> Chunk:
    """Reads at most `limit` bytes from `offset`. `is_complete` must be determined before this call."""
    try:
        start = max(0, offset - BEFORE_BYTES)
        block = read_slice(file, start, limit + offset - start, head=HEAD_BYTES)
        before, data = block.data[: offset - start], block.data[offset - start :]
        # of the file: its identity, and its first bytes once there are enough
        generation = block.identity
        if len(block.head) >= HEAD_BYTES:
            generation = f"{generation}-{zlib.crc32(block.head):08x}"
        return Chunk(
            data,
            offset,
            block.size,
            is_complete,
            generation=generation,
            before=before,
            modified_ns=block.modified_ns,
        )
    except (FileNotFoundError, NotADirectoryError):
        return Chunk(b"", offset, 0, is_complete)
    except OSError as error:
        raise _unreadable(file.name, error) from error


def _unreadable(what: str, error: OSError) -> StorageError:
    return StorageError(f"{what} cannot be read: {error.strerror}", code="FileUnreadable")


def output_seal(record: Path, name: str) -> Seal | None:
    """The seal of a log whose job has ended; an empty one if its end was not observed."""
    seals = seals_in(record)
    if seals == {} and name in (OUT, ERR):
        return Seal()
    return Seal(*seals[name]) if seals and name in seals else None


@dataclass(frozen=True)
class Logs:
    """The logs of a run. Whether it is open must be determined before they are read."""

    folder: Path
    job: JobLayout
    is_open: bool

    def read(self, path: str, offset: int, limit: int) -> Chunk:
        """A block of a log by its path, with the ranks that wrote it, and when."""
        file = entries.resolve_inside(self.folder, path)
        name = text_of(str(file.relative_to(entries.resolve_inside(self.folder, ""))))
        return self._log(name, offset, limit)

    def tail(self, positions: Mapping[str, int], limit: int) -> Mapping[str, Chunk]:
        """The bytes of these logs from these positions on."""
        chunks: dict[str, Chunk] = {}
        for name, position in positions.items():
            with contextlib.suppress(NotFoundError, StorageError):  # it was replaced meanwhile
                chunks[name] = self._log(name, position, limit)
        return chunks

    def _log(self, name: str, offset: int, limit: int) -> Chunk:
        path = entries.resolve_inside(self.folder, name)
        chunk = read_output(path, offset, limit, is_complete=not self.is_open)
        chunk = replace(chunk, seal=output_seal(self.job.seals, path.name)) if chunk.is_complete else chunk
        stream = _STREAMS.get(name)
        if stream and self.is_open:
            # Up to where its writers are recorded; the rest follows with the next read.
            size = output_records.recorded_end(
                self.job.spans(stream), min(chunk.offset, chunk.size), chunk.size
            )
            chunk = replace(chunk, data=chunk.data[: max(0, size - chunk.offset)], size=size)
        if chunk.data and self.job.secret_spans.is_dir():
            try:  # of what a link leads to
                hidden = output_records.secrets(self.job.secret_spans / path.name, offset, chunk.end)
            except OSError as error:  # they are not known
                raise _unreadable(path.name, error) from error
            chunk = replace(chunk, hidden=tuple(RedactedSpan(*record) for record in hidden))
        if not (chunk.data and stream):
            return chunk
        spans = output_records.writers(self.job.spans(stream), chunk.offset, chunk.end)
        times = output_records.times(self.job.times(stream), chunk.offset, chunk.end)
        return replace(
            chunk,
            spans=tuple(Span(*record) for record in spans),
            times=tuple(WriteTime(*record) for record in times),
        )


def read_records(folder: Path, names: Collection[str]) -> Mapping[str, bytes]:
    """The files with these names, and those in these folders (`machines/`); missing ones are left out.

    At most `MAX_BYTES` of each file are read, and `MAX_ALL_BYTES` of all; of what is not a regular file,
    nothing. Of files that are still being written, only the names are, after the others: the record of a file
    is read before it is looked for.
    """
    found, left = dict[str, bytes](), MAX_ALL_BYTES
    for name in (each for asked in names for each in _expanded(folder, asked)):
        with contextlib.suppress(*_MISSING):
            found[name] = _record(folder / name, min(left, MAX_BYTES))
            left -= len(found[name])
    for name in (each for asked in names for each in _expanded(folder, asked, parts=True)):
        found[name] = b""
    return found


def _record(file: Path, max_bytes: int) -> bytes:
    """The start of a record; empty, which no record is, if it is not a regular file."""
    try:
        with open_file(file) as stream:
            return read_start(stream, max_bytes)
    except NotRegularError as error:
        if stat.S_ISDIR(error.mode):
            raise IsADirectoryError(str(file)) from None
        return b""


def _expanded(folder: Path, name: str, *, parts: bool = False) -> Iterator[str]:
    """A name, or the names of the files in a folder: the complete ones, or the others."""
    path = resolve_inside(folder, name)
    if not name.endswith("/"):
        yield from () if parts else (name,)
        return
    with contextlib.suppress(*_MISSING):
        found = (entry.name for entry in path.iterdir() if entry.name.endswith(PART) == parts)
        yield from sorted(f"{name}{each}" for each in islice(found, MAX_FILES))
