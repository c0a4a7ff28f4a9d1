"""The HomeFolders protocol: what the service does with the folders of a home.

The folders hold shares, mounts, and for each run its working directories, outputs and logs. Where they are on
another machine or on a shared file system is the implementation's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from batchai_magics.backends.base import Chunk
    from batchai_magics.backends.service.repository import Record
    from batchai_magics.backends.service.runner import Launch, Site
    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.telemetry_records import TelemetryRecord

CLUSTER_SPEC, OUTPUT_ROOT = "cluster_spec", "output_root"  # in a job's `more`


@dataclass(frozen=True)
class RunFolder:
    """What the folder of a run is made from; `segment` is its own path below the output prefixes."""

    guid: str
    segment: str
    spec: JobSpec
    cluster_guid: str
    cluster: ClusterSpec
    output_root: str
    container_engine: tuple[str, ...]
    site: Site
    notes: tuple[str, ...] = ()  # what the user is told of its cluster


class HomeFolders(Protocol):
    """The folders of a home."""

    def batch(self) -> AbstractContextManager[None]:
        """Within it, small files may be written in one request; all are there when it ends."""

    def refusing_full_disk(self) -> AbstractContextManager[None]:
        """Within it, a change that the disk has no room for is a StorageError that says what to do."""

    def write_files(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes the script files of jobs where clusters that mount this share have it."""

    def check_cluster(self, spec: ClusterSpec) -> None:
        """Raises a SpecError for a setup task whose output is on no mount."""

    def make_cluster(self, guid: str, spec: ClusterSpec) -> None:
        """Links a cluster's mounts, and makes the folder of its setup task's output."""

    def remove_cluster(self, guid: str) -> None:
        """Deletes what belongs to a cluster alone."""

    def output_root(self, spec: JobSpec, cluster: ClusterSpec, guid: str) -> str:
        """The folder behind a job's stdOutErrPathPrefix; SpecError for one that nobody knows."""

    def make_run(self, run: RunFolder) -> Launch:
        """Makes the folder of a run with its links, and the Plans of what it starts."""

    def remove_run(self, guid: str) -> None:
        """Deletes the folder of a run."""

    def files(self, job: Record, directory_id: str, path: str, limit: int | None) -> Sequence[OutputFile]:
        """One level of one of a job's output directories, sorted by name: the first `limit` entries."""

    def read(
        self, job: Record, directory_id: str, path: str, offset: int, limit: int, *, is_open: bool
    ) -> Chunk:
        """At most `limit` bytes of a file of a job; `is_open` must have been found out before."""

    def tail(
        self, job: Record, positions: Mapping[str, int], limit: int, *, is_open: bool
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs."""

    def telemetry(self, guid: str, after: float) -> TelemetryRecord:
        """The samples of a run that were taken later than `after`."""

    def setup_files(self, spec: ClusterSpec, path: str) -> Sequence[OutputFile]:
        """One level of what a cluster's setup task wrote."""
