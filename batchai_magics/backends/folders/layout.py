"""The one owner of every file name below the home of a backend.

Like all that supervisors start with it does without `dataclasses`, which take a tenth of their start.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # supervisors need this module, and start fast
    from batchai_magics.models.ids import ResourceId


class Layout(NamedTuple):
    """Where a backend keeps what it keeps; nothing here touches the disk."""

    home: Path

    @property
    def database(self) -> Path:
        """Resources and states."""
        return self.home / "state.db"

    def share(self, account: str, name: str) -> Path:
        """The folder of a file share."""
        return self.home / "shares" / account / name

    def container(self, account: str, name: str) -> Path:
        """The folder of a blob container."""
        return self.home / "containers" / account / name

    def unfinished(self, kind: str) -> Path:
        """Uploads to the shares or containers that are not whole yet, below their names."""
        return self.home / "unfinished" / kind

    def of_account(self, account: str) -> tuple[Path, Path]:
        """The folders of all shares, and of all containers, of a storage account."""
        return self.home / "shares" / account, self.home / "containers" / account

    def file_server(self, id: ResourceId) -> Path:
        """The folder that a file server exports."""
        return self.home / "fileservers" / id.group.lower() / id.workspace.lower() / id.name.lower()

    @property
    def kept(self) -> dict[str, Path]:
        """The folders of all that is kept beside the database, by what people call it."""
        folders = {
            "jobs": "jobs",
            "clusters": "clusters",
            "file shares": "shares",
            "blob containers": "containers",
            "file servers": "fileservers",
            "unfinished uploads": "unfinished",
        }
        return {name: self.home / folder for name, folder in folders.items()}

    @property
    def clusters(self) -> Path:
        """The folders of all clusters."""
        return self.home / "clusters"

    @property
    def jobs(self) -> Path:
        """The folders of all runs of jobs."""
        return self.home / "jobs"

    def cluster(self, guid: str) -> Path:
        """All of a cluster."""
        return self.clusters / guid

    def mounts(self, guid: str) -> Path:
        """`$AZ_BATCHAI_MOUNT_ROOT` of a cluster's nodes: links to shares."""
        return self.cluster(guid) / "mounts"

    def nodes(self, guid: str) -> Path:
        """The folders of a cluster's nodes."""
        return self.cluster(guid) / "nodes"

    def node(self, guid: str, node: str) -> Path:
        """A node's own folder."""
        return self.nodes(guid) / node

    def setup(self, guid: str, node: str) -> Path:
        """The Plan of what a node mounts and runs before it takes jobs; only there when it does."""
        return self.node(guid, node) / "setup.json"

    def job(self, guid: str) -> JobLayout:
        """A job's own files."""
        return JobLayout(self.jobs / guid)


class JobLayout(NamedTuple):
    """What belongs to one run of a job and is nobody else's business."""

    root: Path

    @property
    def plan(self) -> Path:
        """The Plan of the job's processes."""
        return self.root / "plan.json"

    @property
    def preparation(self) -> Path:
        """The Plan of the job's preparation; only there when it has one."""
        return self.root / "preparation.json"

    @property
    def stop_if(self) -> Path:
        """What the job is to be stopped for; only there when there is something."""
        return self.root / "stop-if.json"

    @property
    def preparation_exits(self) -> Path:
        """One small file for every node that has been prepared."""
        return self.root / "preparation-exits"

    @property
    def mounts(self) -> Path:
        """`$AZ_BATCHAI_JOB_MOUNT_ROOT`: links to shares."""
        return self.root / "mounts"

    @property
    def shared_temp(self) -> Path:
        """`$AZ_BATCHAI_SHARED_JOB_TEMP`."""
        return self.root / "shared"

    @property
    def workdir(self) -> Path:
        """The working directories of its processes: one for each node, by the node's name."""
        return self.root / "workdir"

    @property
    def unmounted(self) -> Path:
        """Its logs, where they are to be on no share; only there then."""
        return self.root / "unmounted"

    @property
    def host_file(self) -> Path:
        """`$AZ_BATCHAI_MPI_HOST_FILE`."""
        return self.root / "hosts"

    @property
    def bin(self) -> Path:
        """Programs that come first on the job's PATH; only there when the job needs it."""
        return self.root / "bin"

    @property
    def python(self) -> Path:
        """A folder on the module path of the job's processes."""
        return self.root / "python"

    @property
    def registry(self) -> Path:
        """What docker and podman are signed in with while they pull the job's image; only there meanwhile."""
        return self.root / "registry"

    @property
    def tool_log(self) -> Path:
        """What the program that pulls its image, or mounts something for it, had to say."""
        return self.root / "tool.log"

    @property
    def exits(self) -> Path:
        """One small file for every process that has ended."""
        return self.root / "exits"

    @property
    def made(self) -> Path:
        """What the job was when it was made, and what it stands on."""
        return self.root / "job.json"

    @property
    def supervisor(self) -> Path:
        """Who watches over the run."""
        return self.root / "supervisor"

    @property
    def end(self) -> Path:
        """How the run ended; only there once it has."""
        return self.root / "end.json"

    @property
    def supervisor_log(self) -> Path:
        """What the supervisor itself had to say; empty when all is well."""
        return self.root / "supervisor.log"

    def spans(self, stream: str) -> Path:
        """Which rank wrote which bytes of `stdout` or `stderr`."""
        return self.root / f"{stream}.spans"

    def times(self, stream: str) -> Path:
        """When which bytes of `stdout` or `stderr` were written."""
        return self.root / f"{stream}.times"

    @property
    def seals(self) -> Path:
        """What its logs were when its processes had ended."""
        return self.root / "logs.json"

    @property
    def telemetry(self) -> Path:
        """What its processes use of their machines, a file for each program that watches some of them."""
        return self.root / "telemetry"

    @property
    def hidden(self) -> Path:
        """Which bytes of each log are a secret's; only there when the job has secrets."""
        return self.root / "hidden"
