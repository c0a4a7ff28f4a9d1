"""A home as a folder: links for mounts, a folder for each run, and the output and logs of jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.folders import (
    entries,
    file_repository,
    logged_parameters,
    mounts,
    run_output,
    telemetry_files,
)
from batchai_magics.backends.folders.file_repository import Snapshots
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_output import Logs
from batchai_magics.backends.service import private_files, stored_descriptions
from batchai_magics.backends.service.home_folders import CLUSTER_SPEC, OUTPUT_ROOT
from batchai_magics.backends.service.stored_descriptions import output_segment
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.records.record_files import PARAMETERS

if TYPE_CHECKING:
    from batchai_magics.backends.base import Chunk
    from batchai_magics.backends.service.repository import Record
    from batchai_magics.backends.service.runner import NodeSetup, PlannedRun, Site
    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.runs.parameters import Parameter
    from batchai_magics.models.telemetry_records import TelemetryRecord


class HomeDirectory:
    """The folders of a home; see `backends.service.home_folders.HomeFolders`."""

    def __init__(self, layout: Layout, machine: Snapshots, *, setting: str) -> None:
        """`setting` is the setting that selects the home, for error messages."""
        self._layout, self._machine, self._setting = layout, machine, setting

    @property
    def shares(self) -> Path:
        """The folder with the shares of all accounts."""
        return self._layout.home / "shares"

    def batch(self) -> AbstractContextManager[None]:
        """Within the context, small files may be written in one request; all are written when it exits."""
        return private_files.pipelined(self._layout.home)

    def refusing_full_disk(self) -> AbstractContextManager[None]:
        """Within the context, a full disk raises a StorageError that says what to do."""
        return file_repository.full_disk_refused(self._layout.home, setting=self._setting)

    def write_files(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes the script files of jobs to the folder of a share, each whole or not at all."""
        from batchai_magics.backends.folders.shares import FolderStorage  # readers never need it

        shares = FolderStorage(self.shares, self._layout.unfinished("shares"))
        shares.make(share)
        shares.upload(share, files)

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

    def node_setup(self, guid: str, spec: ClusterSpec, site: Site) -> NodeSetup:
        """Plans what a node of a cluster mounts and runs before it takes runs."""
        from batchai_magics.backends.folders import run_planner

        return run_planner.node_setup(self._layout, guid, spec, site)

    def remove_cluster(self, guid: str) -> None:
        """Deletes a cluster's folder."""
        private_files.remove_folder(self._layout.cluster(guid))

    def setup_files(self, spec: ClusterSpec, path: str) -> Sequence[OutputFile]:
        """Lists the output of a cluster's setup task, one folder at a time."""
        return run_output.output_listing(mounts.setup_logs(self._layout, spec), path)

    # -- runs

    def output_root(self, spec: JobSpec, cluster: ClusterSpec, guid: str) -> str:
        """The folder of a job's stdOutErrPathPrefix; SpecError if it cannot be resolved."""
        return str(mounts.output_root(self._layout, spec, cluster, guid))

    def make_run(
        self,
        job: Record,
        spec: JobSpec,
        cluster: Record,
        *,
        site: Site,
        notes: Sequence[str],
        records: Mapping[str, str],
    ) -> PlannedRun:
        """Creates the folder of a job's run with its links, and plans what the run starts."""
        from batchai_magics.backends.folders.run_planner import RunPlanner  # readers never need it

        return RunPlanner(self._layout, job, spec, cluster, site=site, records=records).planned_run(notes)

    def discard_backups(self, guids: Sequence[str]) -> None:
        """Nothing: records that are files have no backups."""

    def logged_parameters(self, guids: Sequence[str]) -> Mapping[str, Mapping[str, Parameter]]:
        """The parameters that runs have logged, read together; runs without any are left out."""
        files = {guid: self._layout.job(guid).records / PARAMETERS for guid in guids}
        with self._machine.prefetched((), files.values()):
            found = {guid: logged_parameters.logged_in(file) for guid, file in files.items()}
        return {guid: each for guid, each in found.items() if each}

    def back_up_labels(self, guid: str, text: str) -> None:
        """Nothing: records that are files have no backups."""

    def remove_runs(self, guids: Sequence[str]) -> None:
        """Deletes the folders of runs."""
        for guid in guids:
            private_files.remove_folder(self._layout.job(guid).root)

    # -- output of jobs

    def files(self, job: Record, directory_id: str, path: str, limit: int | None) -> Sequence[OutputFile]:
        """Lists a folder of one of a job's output directories, sorted by name."""
        return run_output.output_listing(self._output(job, directory_id), path, limit=limit)

    def read(
        self, job: Record, directory_id: str, path: str, offset: int, limit: int, *, is_open: bool
    ) -> Chunk:
        """Reads at most `limit` bytes of a job's file; `is_open` must have been determined before."""
        folder = self._output(job, directory_id)
        if directory_id.lower() != STDOUTERR:
            return run_output.read_output(
                entries.resolve_inside(folder, path), offset, limit, is_complete=not is_open
            )
        layout = self._layout.job(job.guid)
        with self._machine.prefetched([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).read(path, offset, limit)

    def tail(
        self, job: Record, positions: Mapping[str, int], limit: int, *, is_open: bool
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs."""
        folder, layout = self._output(job, STDOUTERR), self._layout.job(job.guid)
        # Read after `is_open` was determined: an ended run has all its records. Secret spans are read after
        # the data.
        with self._machine.prefetched([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).tail(positions, limit)

    def telemetry(self, guid: str, after: float) -> TelemetryRecord:
        """The samples of a run taken after the time `after`."""
        return telemetry_files.read_telemetry(self._layout.job(guid).telemetry, after)

    def records(self, guid: str, names: Collection[str]) -> Mapping[str, bytes]:
        """The record files of a run, those in whole folders (`machines/`) too; missing ones are left out."""
        from batchai_magics.backends.folders import run_output  # few readers need it

        return run_output.read_records(self._layout.job(guid).records, names)

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
