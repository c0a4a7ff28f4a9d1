"""The local backend: the service over a home on this machine, with our scheduler; what is in the home."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base import StoredItem
from batchai_magics.backends.base.protocol import on_first_use
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.runner import LocalRunner
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import run_status
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node.ranks import temporary_folder
from batchai_magics.backends.service import stored_descriptions
from batchai_magics.backends.service.context import OUTPUT_ROOT, HomeContext, cluster_of, run_of
from batchai_magics.backends.service.run_labels import RunRecords
from batchai_magics.backends.service.service import Service
from batchai_magics.errors import ConflictError, StorageError
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.models.resource_ids import Kind

if TYPE_CHECKING:
    from batchai_magics.backends.service.repository import Record
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.resources import JobResource, Node

SETTING = "BATCHAI_HOME"
MAX_NAMES = 5  # of jobs in a message


class LocalBackend(Service):
    """Jobs on this machine. State, shares and logs are below its home; several processes may share one."""

    preemption: LocalPreemption = on_first_use(lambda backend: LocalPreemption(backend))
    cleaning: HomeCleaning = on_first_use(lambda backend: HomeCleaning(backend.context, backend.runner))

    def __init__(
        self, settings: LocalSettings, bounds: JobBounds | None = None, *, pass_env: str = ""
    ) -> None:
        self.settings = settings
        self.layout = Layout(Path(settings.home).expanduser().absolute())
        self.store = Store(self.layout.database)
        self.runner = LocalRunner(self.store, self.layout, settings, pass_env=pass_env)
        quota = settings.core_quota
        super().__init__(
            SqliteRepository(self.store), self.runner, setting=SETTING, core_quota=quota, bounds=bounds
        )

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""
        with self.store.read() as db:
            self.context.repository.get(id)
            return run_status.nodes_of(db, id)

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs of whatever experiment that get nodes of its cluster before this queued one, in order."""
        with self.store.read() as db:
            return run_status.jobs_ahead_of(db, job.id)


class LocalPreemption:
    """Preempts nodes of lowpriority clusters on request."""

    def __init__(self, backend: LocalBackend) -> None:
        self._context, self._runner = backend.context, backend.runner

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Removes a node of a lowpriority cluster; its job is requeued, and a new node replaces it."""
        from batchai_magics.backends.base import api_errors
        from batchai_magics.backends.service import resource_views
        from batchai_magics.models.cluster_spec import VmPriority

        record = self._context.repository.get(cluster)
        if resource_views.cluster_spec(record.spec).vm_priority is not VmPriority.LOW_PRIORITY:
            raise api_errors.not_low_priority(cluster)
        if not self._runner.preempt(cluster_of(record), node_id):
            raise api_errors.node_not_found(node_id)
        self._runner.reconcile()


class HomeCleaning:
    """Lists and removes what is in the backend's home."""

    def __init__(self, context: HomeContext, runner: LocalRunner) -> None:
        self._context, self._runner = context, runner

    def stored_items(self) -> Sequence[StoredItem]:
        """The stored parts that hold files."""
        items = (_measure(name, paths) for name, paths in self._parts().items())
        return tuple(part for part in items if part.file_count)

    def old_runs(self, before: float, *, keeps_tagged: bool) -> Sequence[StoredItem]:
        """The files of each run that ended before a time, oldest first."""
        self._runner.reconcile()
        return [_measure_run(job, self._folders_of(job)) for job in self._old_jobs(before, keeps_tagged)]

    def clean_runs(self, before: float, *, keeps_tagged: bool) -> Sequence[StoredItem]:
        """Deletes these runs, with their jobs and their output folders on shares; returns them."""
        from batchai_magics.backends.service import resource_changes  # few who open a home delete

        self._runner.reconcile()
        removed = []
        for job in self._old_jobs(before, keeps_tagged):
            folders = self._folders_of(job)
            removed.append(_measure_run(job, folders))
            resource_changes.delete(self._context, job.resource_id)
            for folder in folders:
                _remove(folder)
        return removed

    def _old_jobs(self, before: float, keeps_tagged: bool) -> list[Record]:
        """The jobs that ended before a time, oldest first."""
        repository = self._context.repository
        below = chain.from_iterable(
            repository.subtree(workspace.resource_id) for workspace in repository.workspaces()
        )
        jobs = [record for record in below if record.kind is Kind.JOB]
        labels = RunRecords(self._context).labels([job.resource_id for job in jobs]) if keeps_tagged else {}
        untagged = [job for job in jobs if not (job.key in labels and labels[job.key].tags)]
        statuses = self._context.runner.status(list(map(run_of, untagged)))
        ends = [status.result.ended if status.result else inf for status in statuses]
        pairs = sorted(zip(ends, untagged, strict=True), key=itemgetter(0))
        return [job for ended, job in pairs if ended < before]

    def _folders_of(self, job: Record) -> list[Path]:
        """The run's own folder, and its output on a share of this home."""
        layout = self._runner.layout
        segment = stored_descriptions.output_segment(job.resource_id, job.guid)
        output = layout.home / job.more[OUTPUT_ROOT] / segment
        is_in_share = output.resolve().is_relative_to(layout.home.resolve() / "shares")
        return [layout.job(job.guid).root, *([output] if is_in_share and output.name == job.guid else [])]

    def check(self) -> None:
        """Raises ConflictError while jobs have not ended."""
        self._runner.reconcile()
        open_jobs = [job.resource_id for job, _ in self._context.all_open_jobs()]
        if open_jobs:
            names = ", ".join(job.name for job in open_jobs[:MAX_NAMES])
            more = f" and {len(open_jobs) - MAX_NAMES} more" if len(open_jobs) > MAX_NAMES else ""
            has = "jobs have" if len(open_jobs) > 1 else "job has"
            raise ConflictError(
                f"{len(open_jobs)} {has} not ended: {names}{more}; nothing was removed",
                code="JobsNotEnded",
                hint="Wait with `batchai job wait -n NAME`, or end one with `batchai job terminate -n NAME`.",
            )

    def clean(self) -> None:
        """Removes all of it; raises ConflictError while jobs have not ended."""
        from batchai_magics.backends.service import resource_changes  # few who open a home delete

        self.check()
        self._runner.store.reserve.delete()  # room for the deletions on a full disk
        for workspace in self._context.repository.workspaces():  # unmounts what clusters have mounted
            resource_changes.delete(self._context, workspace.resource_id)
        self._runner.store.close()
        for path in chain.from_iterable(self._parts().values()):
            _remove(path)
        temporary_folder.sweep()

    def _parts(self) -> Mapping[str, Sequence[Path]]:
        """The paths of each part; the state, which refers to all others, comes last."""
        layout = self._runner.layout
        names = (f"{layout.database.name}*", "groups", "accounts")
        state = [path for name in names for path in sorted(layout.home.glob(name))]
        return {**{name: [path] for name, path in layout.named_folders.items()}, "state": state}


def _measure_run(job: Record, folders: Sequence[Path]) -> StoredItem:
    id = job.resource_id
    return _measure(f"{id.experiment}/{id.name}", folders)


def _measure(name: str, paths: Sequence[Path]) -> StoredItem:
    sizes = [size for path in paths for size in _sizes(path)]
    return StoredItem(name, str(paths[0]) if paths else "", len(sizes), sum(sizes))


def _sizes(path: Path) -> Iterator[int]:
    """The size of each file below a path; skips files that vanish, and does not follow links."""
    if not path.is_dir():
        yield from (path.lstat().st_size for _ in range(path.exists()))
        return
    pending: list[str | Path] = [path]
    while pending:  # os.walk would recurse, and a job's folders may be deeper than that goes
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it vanished, or is a link to itself
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif not entry.is_dir():
                        yield entry.stat(follow_symlinks=False).st_size


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        hint = "Remove it by hand, or run `batchai clean` again."
        raise StorageError(f"cannot remove {path}: {error.strerror or error}", hint=hint) from error
