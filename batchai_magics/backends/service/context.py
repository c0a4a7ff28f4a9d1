"""What every operation of the service works with: a home, the protocol of its folders, and an engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from batchai_magics.backends.service.repository import GROUP, Record, Repository
from batchai_magics.backends.service.runner import (
    CORE_COUNT,
    ClusterRef,
    EngineFacts,
    EngineSite,
    JobGroup,
    Predecessor,
    Run,
    Runner,
    RunStatus,
    Scale,
)
from batchai_magics.launch.job_bounds import JobBounds

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts, Chunk, Storage
    from batchai_magics.backends.service import home_subscription
    from batchai_magics.backends.service.home_subscription import HomeGroups
    from batchai_magics.backends.service.runner import PlannedRun, PlannedSetup
    from batchai_magics.models.cluster_spec import ClusterSpec, ScaleSettings
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.runs.parameters import Parameter
    from batchai_magics.models.telemetry_records import TelemetryRecord

OpenRun = tuple[Record, Run, RunStatus]  # an open job, its run, and the status of the run


class HomeStorage(NamedTuple):
    """The shares, containers, storage accounts and resource groups of a home."""

    shares: Storage
    containers: Storage
    accounts: Accounts
    groups: HomeGroups


@dataclass(frozen=True)
class HomeContext:
    """A home, and the engine that runs its jobs.

    Its folders and its storage are opened when they are first used: lists of jobs do without.
    """

    repository: Repository
    runner: Runner
    open_folders: Callable[[], HomeFolders]
    open_storage: Callable[[HomeContext], HomeStorage]
    core_quota: int
    bounds: JobBounds = field(default_factory=JobBounds)
    ended_jobs: list[Record] = field(default_factory=list)  # that are still marked as open

    @property
    def facts(self) -> EngineFacts:
        """What is known of the engine."""
        return self.runner.facts

    def site(self, cluster: ClusterRef) -> EngineSite:
        """What the Plan of a run on a cluster depends on."""
        site = self.facts.site
        return replace(site, core_count=cluster.state.get(CORE_COUNT, site.core_count))

    @cached_property
    def folders(self) -> HomeFolders:
        """The folders of the home."""
        return self.open_folders()

    @cached_property
    def storage(self) -> HomeStorage:
        """What users store in the home."""
        return self.open_storage(self)

    @contextmanager
    def snapshot(
        self,
        ids: Sequence[ResourceId] = (),
        *,
        runs: Sequence[Run] = (),
        clusters: Sequence[Record] = (),
    ) -> Iterator[None]:
        """Within the context, these are read from a snapshot."""
        guids = [cluster.guid for cluster in clusters]
        with self.repository.snapshot(ids, guids), self.runner.snapshot(runs, guids):
            yield

    def status(self, job: Record) -> RunStatus:
        """The status of a job's run."""
        return self.runner.status([run_of(job)])[0]

    def still_open(self, jobs: Sequence[Record]) -> list[Record]:
        """The jobs of these that are open."""
        statuses = self.runner.status(list(map(run_of, jobs)))
        return [job for job, status in zip(jobs, statuses, strict=True) if status.is_open]

    def open_runs(self, cluster_guid: str) -> list[OpenRun]:
        """The open runs of a cluster, oldest first."""
        return self._open(self.repository.open_jobs(cluster_guid))

    def all_open_runs(self) -> list[OpenRun]:
        """The open runs of all clusters."""
        return self._open(list(self.repository.all_open_jobs()))

    def quota_nodes(self, records: Iterable[Record]) -> Iterable[home_subscription.Nodes]:
        """The maximum sizes of clusters, as counted by quotas."""
        from batchai_magics.backends.service import home_subscription, resource_views
        from batchai_magics.models.cluster_spec import VmPriority

        for record in records:
            spec = resource_views.cluster_spec(record.spec)
            is_low = spec.vm_priority is VmPriority.LOW_PRIORITY
            yield home_subscription.Nodes(spec.vm_size, scale_of(spec.scale_settings).maximum, is_low)

    def _open(self, jobs: Sequence[Record]) -> list[OpenRun]:
        runs = list(map(run_of, jobs))
        open_runs = []
        for job, run, status in zip(jobs, runs, self.runner.status(runs), strict=True):
            if status.is_open:
                open_runs.append((job, run, status))
            else:
                self.ended_jobs.append(job)
        return open_runs


class BusyNodes(Mapping[str, str]):
    """The guid of the run on each node of a cluster that runs one, by node name; found out when it is read.

    An engine that knows its nodes does without: a cluster may have thousands of queued runs.
    """

    def __init__(self, context: HomeContext, cluster_guid: str) -> None:
        self._context, self._cluster_guid = context, cluster_guid

    def __getitem__(self, name: str) -> str:
        """The guid of the run on a node."""
        return self._guids[name]

    def __iter__(self) -> Iterator[str]:
        """The nodes that run something."""
        return iter(self._guids)

    def __len__(self) -> int:
        """How many those are."""
        return len(self._guids)

    @cached_property
    def _guids(self) -> dict[str, str]:
        return busy_nodes(self._context.open_runs(self._cluster_guid))


def busy_nodes(runs: Iterable[OpenRun]) -> dict[str, str]:
    """The guid of the run on each node that runs one of these, by node name."""
    return {name: run.guid for _, run, status in runs for name in status.nodes}


def run_of(job: Record) -> Run:
    """A job's run, as passed to the engine."""
    return Run(job.guid, job.name, job.created, job.more, JobGroup(*job.more.get(GROUP, ())))


def cluster_of(record: Record) -> ClusterRef:
    """A cluster, as passed to the engine."""
    from batchai_magics.backends.service import resource_views

    spec = resource_views.cluster_spec(record.spec)
    return ClusterRef(record.guid, record.name, spec.vm_size, scale_of(spec.scale_settings), record.more)


def scale_of(settings: ScaleSettings | None) -> Scale:
    """The node counts in a description; 0 if it has none."""
    if settings and settings.auto_scale:
        auto = settings.auto_scale
        least, most = auto.minimum_node_count, auto.maximum_node_count
        return Scale(least, most, auto.initial_node_count or 0, is_auto=True)
    count = settings.manual.target_node_count if settings and settings.manual else 0
    return Scale(count, count)


CLUSTER_SPEC, OUTPUT_ROOT = "cluster_spec", "output_root"  # keys in a job's `more`


class AdmittedJob(NamedTuple):
    """A job that its cluster can run, before it is created.

    Attributes:
        record: The record that it gets.
        spec: What it runs, with secrets.
        cluster: The record of its cluster.
        site: What its Plan depends on.
        notes: For the user, about the cluster.
        records: The texts of the run's record files, by name.
        after: The runs after which it starts.
    """

    record: Record
    spec: JobSpec
    cluster: Record
    site: EngineSite
    notes: Sequence[str]
    records: Mapping[str, str]
    after: tuple[Predecessor, ...] = ()


class HomeFolders(Protocol):
    """The folders of a home."""

    @property
    def shares(self) -> Path:
        """The folder with the shares of all accounts."""

    def batch(self) -> AbstractContextManager[None]:
        """Within the context, small files may be written in one request; all are written when it exits."""

    def refusing_full_disk(self) -> AbstractContextManager[None]:
        """Within the context, a full disk raises a StorageError that says what to do."""

    def check_cluster(self, spec: ClusterSpec) -> None:
        """Raises a SpecError if the output of the setup task is not on a mount."""

    def make_cluster(self, guid: str, spec: ClusterSpec) -> None:
        """Links a cluster's mounts, and creates the output folder of its setup task."""

    def node_setup(self, guid: str, spec: ClusterSpec, site: EngineSite) -> PlannedSetup:
        """Plans what a node of a cluster mounts and runs before it takes runs."""

    def remove_cluster(self, guid: str) -> None:
        """Deletes a cluster's folder."""

    def output_root(self, spec: JobSpec, cluster: ClusterSpec, guid: str) -> str:
        """The folder of a job's stdOutErrPathPrefix; SpecError if it cannot be resolved."""

    def make_run(self, job: AdmittedJob) -> PlannedRun:
        """Creates the folder of a job's run with its links, and plans what the run starts."""

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

    def changed_logs(self, job: Record, positions: Mapping[str, int]) -> Mapping[str, int]:
        """The logs whose size is not the given position, with where to read each from."""

    def tail(
        self, job: Record, positions: Mapping[str, int], limit: int, *, is_open: bool
    ) -> Mapping[str, Chunk]:
        """The bytes of these logs of a job from these positions; `is_open` must be determined before."""

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
