"""The columns of `-o table` by type of value, with the titles and contents of `az batchai`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from batchai_magics.backends.base import ShareFile
from batchai_magics.commands.output.text_table import Table
from batchai_magics.models.job_execution import OutputFile
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.response_object import ProvisioningState

if TYPE_CHECKING:
    from batchai_magics.models.file_server import FileServer

Column = tuple[str, Callable[[Any], object]]
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Blob(ShareFile):
    """A blob: a file with columns of its own."""


@dataclass(frozen=True, repr=False)
class SetupFile(OutputFile):
    """A file or folder written by a setup task, with columns of its own."""

    @property
    def display_path(self) -> str:
        """Its path below the output folder of the setup task, which has no other directories."""
        return self.path


def columns_of(value: Any) -> Sequence[Column]:
    """The columns for values of this type; empty where `az` defines none."""
    return by_type_name(_COLUMNS, value) or ()


def by_type_name(table: Mapping[str, Entry], value: object) -> Entry | None:
    """The entry of a value's type, or of the first base that has one."""
    return next((table[kind.__name__] for kind in type(value).__mro__ if kind.__name__ in table), None)


def extra_columns(items: Sequence[Any]) -> Sequence[Column]:
    """Columns of a single job that `az` lacks, where they have content."""
    job = items[0] if len(items) == 1 else None
    return [column for column in _EXTRA_COLUMNS if column[1](job)] if isinstance(job, JobResource) else ()


def table_of(items: Sequence[Any], columns: Sequence[Column]) -> Table:
    """One row per value with these columns."""
    rows = tuple(tuple(cell(item) for _, cell in columns) for item in items)
    return Table(tuple(title for title, _ in columns), rows)


def _state(resource: Cluster | JobResource) -> str:
    if resource.provisioning.state is ProvisioningState.DELETING:
        return "deleting"
    return resource.allocation_state.value if isinstance(resource, Cluster) else resource.word


def _cluster_of(job: JobResource) -> ResourceId:
    return _parsed(job.cluster_id)


@lru_cache(maxsize=256)
def _parsed(id: str) -> ResourceId:
    """The parsed id, cached: many jobs share a cluster."""
    return ResourceId.parse(id)


def _exit_code(job: JobResource) -> int | str:
    info = job.execution
    return "" if info is None or info.exit_code is None else info.exit_code


def _disks(server: FileServer) -> str:
    disks = server.spec.data_disks
    return f"{disks.disk_count} x {disks.disk_size_in_gb} Gb"


def _size(file: OutputFile | ShareFile) -> int | str:
    return file.size_bytes if file.is_file else ""


def _modified(file: OutputFile | ShareFile) -> str:
    return file.modified.isoformat(timespec="seconds") if file.modified else " "


_NAME: Column = ("Name", lambda resource: resource.id.name)
_GROUP: Column = ("Resource Group", lambda resource: resource.id.group)
_WORKSPACE: Column = ("Workspace", lambda resource: resource.id.workspace)
_PROVISIONING: Column = ("State", lambda resource: resource.provisioning.state.value)

_EXTRA_COLUMNS: Sequence[Column] = (
    ("Waits", lambda job: job.waiting),
    ("Attempts", lambda job: "; ".join(attempt.sentence for attempt in job.attempts)),
    ("Cost", lambda job: job.cost.text if job.cost else ""),
)
_COLUMNS: dict[str, Sequence[Column]] = {  # by the type's name, so that a list imports no other types
    "Workspace": (_NAME, _GROUP, ("Location", lambda workspace: workspace.location), _PROVISIONING),
    "Experiment": (_NAME, _GROUP, _WORKSPACE, _PROVISIONING),
    "Cluster": (
        _NAME,
        _GROUP,
        _WORKSPACE,
        ("VM Size", lambda cluster: cluster.spec.vm_size),
        ("State", _state),
        ("Idle", lambda cluster: cluster.node_states.idle_node_count),
        ("Running", lambda cluster: cluster.node_states.running_node_count),
        ("Preparing", lambda cluster: cluster.node_states.preparing_node_count),
        ("Leaving", lambda cluster: cluster.node_states.leaving_node_count),
        ("Unusable", lambda cluster: cluster.node_states.unusable_node_count),
    ),
    "JobResource": (
        _NAME,
        ("Cluster", lambda job: _cluster_of(job).name),
        ("Cluster RG", lambda job: _cluster_of(job).group),
        ("Cluster Workspace", lambda job: _cluster_of(job).workspace),
        ("Tool", lambda job: job.toolkit.label),
        ("Nodes", lambda job: job.node_count),
        ("State", _state),
        ("Exit code", _exit_code),
    ),
    "FileServer": (
        _NAME,
        _GROUP,
        ("Size", lambda server: server.spec.vm_size),
        ("Disks", _disks),
        ("Public IP", lambda server: server.mount.public_ip),
        ("Internal IP", lambda server: server.mount.internal_ip),
        ("Mount Point", lambda server: server.mount.mount_point),
    ),
    "Node": (
        ("ID", lambda node: node.id),
        ("IP", lambda node: node.ip_address),
        ("SSH Port", lambda node: node.port),
    ),
    "Usage": (
        ("Value", lambda usage: usage.localized_name),
        ("Usage", lambda usage: usage.current or "0"),
        ("Limit", lambda usage: usage.limit or "0"),
    ),
    "SetupFile": (
        ("Name", lambda file: file.name),
        ("Is directory", lambda file: "yes" if file.is_directory else "no"),
        ("Size", _size),
    ),
    "OutputFile": (
        ("Name", lambda file: file.name),
        ("Type", lambda file: file.kind.value),
        ("Size", _size),
        ("Modified", _modified),
    ),
    "Blob": (
        ("Name", lambda blob: blob.path),
        ("Blob Type", lambda blob: "BlockBlob"),
        ("Length", lambda blob: blob.size_bytes),
        ("Last Modified", _modified),
    ),
    "ShareFile": (
        ("Name", lambda file: file.path.rpartition("/")[2]),
        ("Content Length", _size),
        ("Type", lambda file: "dir" if file.is_directory else file.kind.value),
        ("Last Modified", _modified),
    ),
    "ResourceGroup": (
        ("Name", lambda group: group.name),
        ("Location", lambda group: group.location),
        ("Status", lambda group: "Succeeded"),
    ),
    "StorageAccount": (
        ("Name", lambda account: account.name),
        ("Resource Group", lambda account: account.group),
        ("Location", lambda account: account.location),
        ("Kind", lambda account: account.kind),
        ("Sku", lambda account: account.sku),
    ),
}
