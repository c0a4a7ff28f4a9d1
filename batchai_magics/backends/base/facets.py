"""The facets of a backend: optional parts beside its core, and the error that names a missing one."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.prices import Price
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.resources import Cluster
    from batchai_magics.models.runs.labels import LabelChange, Labels
    from batchai_magics.models.subscription import Usage
    from batchai_magics.models.telemetry_records import TelemetryRecord


@dataclass(frozen=True)
class StoredItem:
    """A part of the data that a backend stores on this machine: its name, path, number of files and size."""

    name: str
    path: str
    file_count: int
    size_bytes: int


@dataclass(frozen=True)
class CommandBytes:
    """Bytes that a command on a node wrote to stdout, or with `is_error` to stderr."""

    data: bytes
    is_error: bool = False


@dataclass(frozen=True)
class CommandEnd:
    """The exit code of a command on a node; 128 plus the signal's number if a signal killed it."""

    exit_code: int


CommandOutput = Generator[CommandBytes | CommandEnd, None, None]


class NodeCommands(Protocol):
    """Commands on the nodes of clusters and jobs."""

    def execute(self, id: ResourceId, node_id: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
        """Runs a shell command on a node of a cluster or job, in its folder and environment.

        Closing the generator kills the command and everything that it started.

        Args:
            id: A cluster, or a running job.
            node_id: The name of the node.
            command: A command line for `sh`.
            tick_s: Seconds without output after which empty bytes are yielded, so that the caller can close
                the generator; 0: never.

        Yields:
            The output as it is written, and at last the exit code.

        Raises:
            NotFoundError: There is no such cluster, job or node; raised by the call, before the first output.
        """


class Preemption(Protocol):
    """The preemption of low-priority nodes."""

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Preempts a node of a low-priority cluster, as Azure could at any time; its job is requeued.

        Raises:
            ConflictError: The cluster's nodes are dedicated.
            NotFoundError: There is no such cluster or node.
        """


class SetupLogs(Protocol):
    """The output of the setup tasks of clusters."""

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """One level of the output, sorted by name, as `Backend.files` lists a job's output directory.

        Raises:
            NotFoundError: There is no such cluster or folder.
            StorageError: The path leaves the directory.
        """


class Telemetry(Protocol):
    """What the processes of jobs use of their machines."""

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples later than `after` (seconds since 1970), in order of time; none before the job runs.

        Raises:
            NotFoundError: The job does not exist.
        """


class Records(Protocol):
    """The records that runs keep about themselves; see `batchai_magics.records.record_files`."""

    def read(self, job: ResourceId, names: Collection[str]) -> Mapping[str, bytes]:
        """The record files with these names, and those in these folders (`machines/`), if they exist.

        Files of a folder that are still being written (`*.part`) are empty.

        Raises:
            NotFoundError: The job does not exist.
            StorageError: A name leaves the folder.
        """

    def labels(self, jobs: Collection[ResourceId]) -> Mapping[str, Labels]:
        """The tags, notes and parameters of those jobs that exist and have any: key → labels."""

    def relabel(self, job: ResourceId, change: LabelChange) -> Labels:
        """Changes the labels of a job, and returns them; concurrent changes are all made.

        The tag `baseline` is taken from the run of the experiment and of the same owner that has it.

        Raises:
            NotFoundError: The job does not exist.
            UsageError: A tag is not a word, or there are too many.
        """

    def baseline(self, experiment: ResourceId) -> str:
        """The name of the run that others of the experiment are compared with; empty without one.

        Where several users have one, it is the one that was tagged last.

        Raises:
            NotFoundError: The experiment does not exist.
        """


class Ownership(Protocol):
    """The owners of resources."""

    def owners(self, key: str) -> Mapping[str, str]:
        """The owners of a resource or resource group and of everything inside it: key → owner.

        Resources that were created without an owner are left out.
        """


class Usages(Protocol):
    """The usage of quotas."""

    def list(self, location: str) -> Sequence[Usage]:
        """The usage of each quota in a location."""


class Prices(Protocol):
    """The prices of a paid backend; the user's own, in the settings, take precedence."""

    def node_price(self, cluster: Cluster) -> Price | None:
        """The price of a node of a cluster; None if it is unknown."""

    def nodes_of(self, job: JobSpec, cluster: Cluster) -> Cluster:
        """The cluster with the nodes that a job gets, which may have a size and a price of their own."""

    def forecast(self, job: JobSpec) -> str:
        """What a job is going to cost, and whether it has to wait for quota; empty if that is unknown."""


class Cleaning(Protocol):
    """The data that a backend stores on this machine."""

    def stored_items(self) -> Sequence[StoredItem]:
        """The data, part by part."""

    def old_runs(self, before: float, *, keeps_tagged: bool) -> Sequence[StoredItem]:
        """The files of each run that ended before a time (in seconds since 1970), oldest first.

        Items are named after experiment and job. With `keeps_tagged`, runs that have a tag are left out.
        """

    def clean_runs(self, before: float, *, keeps_tagged: bool) -> Sequence[StoredItem]:
        """Deletes the runs that `old_runs` returns, their jobs and their folders; returns the runs."""

    def check(self) -> None:
        """Checks that nothing is in use.

        Raises:
            ConflictError: Jobs have not ended; the message names them.
        """

    def clean(self) -> None:
        """Deletes all of it, after `check`.

        Raises:
            ConflictError: Jobs have not ended; nothing was deleted.
        """
