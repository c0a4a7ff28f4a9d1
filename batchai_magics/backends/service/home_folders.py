"""The HomeFolders protocol: what the service does with the folders of a home.

They hold shares, mounts, and for each run its working directories, outputs and logs. The implementation
decides whether they are on another machine or a shared file system.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from batchai_magics.backends.base import Chunk
    from batchai_magics.backends.service.repository import Record
    from batchai_magics.backends.service.runner import PlannedRun, PlannedSetup, Site
    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.runs.parameters import Parameter
    from batchai_magics.models.telemetry_records import TelemetryRecord

CLUSTER_SPEC, OUTPUT_ROOT = "cluster_spec", "output_root"  # keys in a job's `more`


class HomeFolders(Protocol):
    """The folders of a home."""

    @property
    def shares(self) -> Path:
        """The folder with the shares of all accounts."""

    def batch(self) -> AbstractContextManager[None]:
        """Within the context, small files may be written in one request; all are written when it exits."""

    def refusing_full_disk(self) -> AbstractContextManager[None]:
        """Within the context, a full disk raises a StorageError that says what to do."""

    def write_files(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes the script files of jobs where clusters that mount this share have it."""

    def check_cluster(self, spec: ClusterSpec) -> None:
        """Raises a SpecError if the output of the setup task is not on a mount."""

    def make_cluster(self, guid: str, spec: ClusterSpec) -> None:
        """Links a cluster's mounts, and creates the output folder of its setup task."""

    def node_setup(self, guid: str, spec: ClusterSpec, site: Site) -> PlannedSetup:
        """Plans what a node of a cluster mounts and runs before it takes runs."""

    def remove_cluster(self, guid: str) -> None:
        """Deletes a cluster's folder."""

    def output_root(self, spec: JobSpec, cluster: ClusterSpec, guid: str) -> str:
        """The folder of a job's stdOutErrPathPrefix; SpecError if it cannot be resolved."""

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
        """Creates the folder of a job's run with its links, and plans what the run starts.

        Args:
            job: The record of the job.
            spec: What it runs, with secrets.
            cluster: The record of its cluster.
            site: What the Plan depends on.
            notes: For the user, about the cluster.
            records: The texts of the run's record files, by name.
        """

    def discard_backups(self, guids: Sequence[str]) -> None:
        """Deletes what would bring runs back if all records were lost; called before their records go."""

    def remove_runs(self, guids: Sequence[str]) -> None:
        """Deletes the folders of runs."""

    def files(self, job: Record, directory_id: str, path: str, limit: int | None) -> Sequence[OutputFile]:
        """Lists a folder of one of a job's output directories, sorted by name, up to `limit` entries."""

    def read(
        self, job: Record, directory_id: str, path: str, offset: int, limit: int, *, is_open: bool
    ) -> Chunk:
        """Reads at most `limit` bytes of a job's file; `is_open` must be determined before."""

    def tail(
        self, job: Record, positions: Mapping[str, int], limit: int, *, is_open: bool
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs."""

    def telemetry(self, guid: str, after: float) -> TelemetryRecord:
        """The samples of a run taken after the time `after`."""

    def records(self, guid: str, names: Collection[str]) -> Mapping[str, bytes]:
        """The record files of a run, those in whole folders (`machines/`) too; missing ones are left out."""

    def logged_parameters(self, guids: Sequence[str]) -> Mapping[str, Mapping[str, Parameter]]:
        """The parameters that runs have logged, read together; runs without any are left out."""

    def back_up_labels(self, guid: str, text: str) -> None:
        """Keeps the labels of a run where they are found if all records are lost."""

    def setup_files(self, spec: ClusterSpec, path: str) -> Sequence[OutputFile]:
        """Lists the output of a cluster's setup task, one folder at a time."""
