"""All file names below the home of a backend.

Like everything that supervisors import at start, it avoids `dataclasses`, which take a tenth of their
start-up time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from batchai_magics.backends.node.job_layout import JobLayout

if TYPE_CHECKING:  # supervisors import this module, and must start fast
    from batchai_magics.models.resource_ids import ResourceId

TMPDIR = "tmp"  # in a node's own folder


class Layout(NamedTuple):
    """The paths of a backend's files; does not access the disk."""

    home: Path

    @property
    def database(self) -> Path:
        """The database with resources and states."""
        return self.home / "state.db"

    def share(self, account: str, name: str) -> Path:
        """The folder of a file share."""
        return self.home / "shares" / account / name

    def container(self, account: str, name: str) -> Path:
        """The folder of a blob container."""
        return self.home / "containers" / account / name

    def unfinished(self, kind: str) -> Path:
        """The folder of incomplete uploads to shares or containers."""
        return self.home / "unfinished" / kind

    def of_account(self, account: str) -> tuple[Path, Path]:
        """The folders of all shares, and of all containers, of a storage account."""
        return self.home / "shares" / account, self.home / "containers" / account

    def file_server(self, id: ResourceId) -> Path:
        """The folder that a file server exports."""
        return self.home / "fileservers" / id.group.lower() / id.workspace.lower() / id.name.lower()

    @property
    def named_folders(self) -> dict[str, Path]:
        """The folders beside the database, by their names in messages."""
        folders = {
            "jobs": "jobs",
            "clusters": "clusters",
            "file shares": "shares",
            "blob containers": "containers",
            "file servers": "fileservers",
            "unfinished uploads": "unfinished",
            "undelivered notifications": "outbox",
        }
        return {name: self.home / folder for name, folder in folders.items()}

    @property
    def clusters(self) -> Path:
        """The folders of all clusters."""
        return self.home / "clusters"

    @property
    def jobs(self) -> Path:
        """The folders of all runs."""
        return self.home / "jobs"

    def cluster(self, guid: str) -> Path:
        """The folder of a cluster."""
        return self.clusters / guid

    def mounts(self, guid: str) -> Path:
        """`$AZ_BATCHAI_MOUNT_ROOT` of a cluster's nodes: links to shares."""
        return self.cluster(guid) / "mounts"

    def nodes(self, guid: str) -> Path:
        """The folders of a cluster's nodes."""
        return self.cluster(guid) / "nodes"

    def cluster_setup(self, guid: str) -> Path:
        """How the nodes of a cluster are set up."""
        return self.cluster(guid) / "setup.json"

    def node(self, guid: str, node: str) -> Path:
        """The folder of a node."""
        return self.nodes(guid) / node

    def tmpdir(self, guid: str, node: str) -> Path:
        """The folder of temporary files of a node."""
        return self.node(guid, node) / TMPDIR

    def setup(self, guid: str, node: str) -> Path:
        """The Plan of a node's mounts and setup task; exists only while it is being set up."""
        return self.node(guid, node) / "setup.json"

    @property
    def outboxes(self) -> Path:
        """The notifications of runs that are yet to be delivered."""
        return self.home / "outbox"

    def job(self, guid: str) -> JobLayout:
        """The files of a job's run."""
        return JobLayout(self.home.joinpath("jobs", guid))
