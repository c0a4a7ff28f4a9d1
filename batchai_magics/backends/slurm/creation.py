"""Making a resource: checked, then written down at once; a job is handed to Slurm, or is not there."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from batchai_magics.backends.base import Spec
from batchai_magics.backends.folders import mounts
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.machines.machine import Machine
from batchai_magics.backends.service import descriptions, private_files, quotas, refusals
from batchai_magics.backends.slurm import orders, programs, showing, understand
from batchai_magics.backends.slurm.accounts import SlurmGroups
from batchai_magics.backends.slurm.answers import Answers
from batchai_magics.backends.slurm.clusters import Clusters
from batchai_magics.backends.slurm.partitions import scaling
from batchai_magics.backends.slurm.preparing import file_servers, images, setups
from batchai_magics.backends.slurm.records import OWNER, Record, Records
from batchai_magics.backends.slurm.runs import Runs
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.models.cluster import ClusterPatch, ClusterSpec, VmPriority
from batchai_magics.models.ids import ResourceId, check_name
from batchai_magics.models.job import JobSpec
from batchai_magics.models.resources import WorkspaceSpec
from batchai_magics.models.states import DeallocationOption
from batchai_magics.models.vm_sizes import lookup


@dataclass(frozen=True)
class Home:
    """A home and all that works on it."""

    machine: Machine
    settings: SlurmSettings
    layout: Layout
    records: Records
    runs: Runs
    clusters: Clusters
    groups: SlurmGroups
    answers: Answers

    @property
    def python(self) -> str:
        """The interpreter that runs on nodes."""
        return self.settings.python or self.machine.python

    def together(self, *ids: ResourceId) -> AbstractContextManager[None]:
        """Within it, these resources, and what Slurm has said, may be read as they were when it began."""
        files = [*self.records.files(ids), *self.answers.files]
        return self.machine.together([], files, listed=[programs.folder(self.layout.home)])


def create(home: Home, id: ResourceId, spec: Spec, owner: str = "") -> Record:
    """Makes a resource, wholly or not at all, or finds that the very same is there; gives the one that is."""
    check_name(id.name, id.kind)
    if isinstance(spec, JobSpec):
        with home.together(id, id.parent, ResourceId.parse(spec.cluster.id)):
            return _create_job(home, _record(home, id, spec, owner), spec)
    if isinstance(spec, ClusterSpec):
        with home.together(id, id.parent):
            return _create_cluster(home, _record(home, id, spec, owner), spec)
    record = _inserted(home, id, _record(home, id, spec, owner))
    if isinstance(spec, WorkspaceSpec):
        home.groups.ensure(id.group, spec.location)
    return record


def resize(home: Home, id: ResourceId, patch: ClusterPatch) -> None:
    """Changes a cluster's size; what runs on nodes that leave ends as the deallocation option says."""
    manual = patch.scale_settings.manual
    old = home.records.get(id)
    spec = showing.cluster_spec(old.spec)
    others = [record for record in home.records.clusters() if record.guid != old.guid]
    _check_quota(home, spec, scaling.most_nodes(patch.scale_settings), others)
    changed = ClusterSpec.from_stored(old.spec).model_copy(update={"scale_settings": patch.scale_settings})
    busy = home.clusters.busy(old.guid)
    more = home.clusters.resized(old, patch.scale_settings, busy=busy, others=others)
    text = descriptions.kept_text(changed)
    cluster = home.records.change(id, lambda record: _changed(record, text, more))
    option = manual.node_deallocation_option if manual else DeallocationOption.WAIT_FOR_JOB_COMPLETION
    _move_jobs(home, cluster, option)


def change_tags(home: Home, id: ResourceId, tags: dict[str, str]) -> None:
    """Gives a workspace these tags, and no others."""

    def with_tags(record: Record) -> Record:
        spec = WorkspaceSpec.from_stored(record.spec).model_copy(update={"tags": tags})
        return _changed(record, descriptions.kept_text(spec), {})

    home.records.change(id, with_tags)


def usages(home: Home) -> Iterator[quotas.Nodes]:
    """The nodes that each cluster is to have, as quotas count them."""
    return _nodes_of(home.records.clusters())


def _nodes_of(clusters: Iterable[Record]) -> Iterator[quotas.Nodes]:
    for record in clusters:
        spec = showing.cluster_spec(record.spec)
        is_low = spec.vm_priority is VmPriority.LOW_PRIORITY
        yield quotas.Nodes(spec.vm_size, record.more["target"], is_low)


def _create_cluster(home: Home, record: Record, spec: ClusterSpec) -> Record:
    id = record.resource_id
    lookup(spec.vm_size)
    if existing := _existing(home, id, record):
        return existing
    home.records.get(id.parent)
    volumes = spec.node_setup.mount_volumes if spec.node_setup else None
    file_servers.check(home.records, volumes)
    setups.check(home.layout, spec)
    others = home.records.clusters()
    _check_quota(home, spec, scaling.most_nodes(spec.scale_settings), others)
    record = _changed(record, record.spec, home.clusters.foundation(spec, others))
    with private_files.at_once(home.layout.home):
        mounts.link(home.layout, home.layout.mounts(record.guid), volumes)
        setups.begin(home.layout, record.guid, spec)
    inserted = _inserted(home, id, record)
    if inserted is not record:
        private_files.remove_folder(home.layout.cluster(record.guid))
    return inserted


def _create_job(home: Home, record: Record, spec: JobSpec) -> Record:
    id = record.resource_id
    engine = images.engine(home.settings.container_command, spec, has=home.machine.has)
    if existing := _existing(home, id, record):
        return existing
    home.records.get(id.parent)
    file_servers.check(home.records, spec.mount_volumes)
    cluster = home.records.get(ResourceId.parse(spec.cluster.id))
    if cluster.more["target"] and spec.node_count > cluster.more["target"]:
        raise refusals.too_many_nodes(spec.node_count, cluster.resource_id, cluster.more["target"])
    home.clusters.check(cluster, spec)
    run = _run(home, record, cluster, spec, engine)
    record = _changed(record, record.spec, _of_job(home, run, cluster))
    made = _submitted(home, record, cluster, run)
    now = home.records.find(cluster.resource_id)
    if now and now.more != cluster.more:  # it was resized meanwhile
        home.runs.place(made, home.clusters.placement(now))
    return made


def _submitted(home: Home, record: Record, cluster: Record, run: orders.Run) -> Record:
    """Writes a job down and hands it to Slurm; nothing of it is left when that fails or another is first."""
    programs_folder = programs.installed(home.layout.home)
    is_ours = False
    try:
        with private_files.at_once(home.layout.home):
            orders.write(home.layout, run, programs_folder)
            home.clusters.enter(cluster.guid, record)
        inserted = _inserted(home, run.id, record)
        is_ours = inserted is record
        if is_ours:
            home.runs.submit(record, home.clusters.placement(cluster))
        return inserted
    except BaseException:
        if is_ours:
            home.records.delete(run.id)
        is_ours = False
        raise
    finally:
        if not is_ours:
            home.clusters.leave(cluster.guid, record)
            home.runs.forget(record)


def _move_jobs(home: Home, cluster: Record, option: DeallocationOption) -> None:
    """Ends or queues again what runs on nodes that leave, and tells Slurm where the others may run."""
    placement = home.clusters.placement(cluster)
    leaving = {*cluster.more["leaving"]}
    for run in home.clusters.open_runs(cluster.guid):
        if not run.nodes:
            home.runs.place(run.job, placement)
        elif leaving.isdisjoint(node.id for node in run.nodes):
            continue
        elif option is DeallocationOption.REQUEUE:
            home.runs.requeue(run.job, placement)
        elif option is DeallocationOption.TERMINATE:
            home.runs.ask_to_stop(run.job)


def _run(home: Home, record: Record, cluster: Record, spec: JobSpec, engine: tuple[str, ...]) -> orders.Run:
    cluster_spec = showing.cluster_spec(cluster.spec)
    return orders.Run(
        id=record.resource_id,
        guid=record.guid,
        spec=spec,
        cluster_guid=cluster.guid,
        cluster=cluster_spec,
        core_count=cluster.more["core_count"],
        output_root=mounts.output_root(home.layout, spec, cluster_spec, record.guid),
        engine=engine,
        environ=home.machine.environ,
        python=home.python,
        mpi=home.settings.mpi,
        disk_grace_s=home.settings.disk_grace_s,
        note=home.clusters.other_partition(cluster),
        scratch=home.settings.scratch,
        scratch_limit_bytes=home.settings.scratch_limit_mib << 20,
    )


def _of_job(home: Home, run: orders.Run, cluster: Record) -> dict[str, object]:
    """What is written down of a job beside its description."""
    texts = (home.settings.options, cluster.more["options"], run.spec.batchai_slurm or "")
    return {
        "cluster": cluster.id,
        "cluster_guid": cluster.guid,
        "cluster_spec": cluster.spec,
        "partition": cluster.more["partition"],
        "options": " ".join(texts),
        "minutes": orders.minutes(run.spec, understand.minutes(cluster.more["limit"])),
        "niceness": orders.NICENESS[run.spec.scheduling_priority],
        "node_count": run.spec.node_count,
        "python": run.python,
        "output_root": str(run.output_root),
    }


def _record(home: Home, id: ResourceId, spec: Spec, owner: str) -> Record:
    guid = str(uuid.uuid4())
    text, digest = descriptions.kept_text(spec), descriptions.fingerprint(spec)
    more = {OWNER: owner} if owner else {}
    return Record(str(id), guid, text, digest, home.answers.clock.now(), more)


def _changed(record: Record, spec: str, more: dict[str, object]) -> Record:
    return replace(record, spec=spec, more={**record.more, **more})


def _existing(home: Home, id: ResourceId, record: Record) -> Record | None:
    """The very same resource, where it is there; ConflictError when another is."""
    return _same(home.records.find(id), record)


def _inserted(home: Home, id: ResourceId, record: Record) -> Record:
    """Writes a resource down; the one there when it is the very same, ConflictError when another is there."""
    return _same(home.records.insert(id, record), record) or record


def _same(existing: Record | None, record: Record) -> Record | None:
    if existing and existing.fingerprint != record.fingerprint:
        raise refusals.already_exists(record.resource_id)
    return existing


def _check_quota(home: Home, spec: ClusterSpec, count: int, others: Iterable[Record]) -> None:
    quotas.check(quotas.Nodes(spec.vm_size, count), _nodes_of(others), home.settings.core_quota)
