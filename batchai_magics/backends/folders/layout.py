"""All file names below the home of a backend.

Like everything that supervisors import at start, it avoids `dataclasses`, which take a tenth of their
start-up time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
        return JobLayout(self.jobs / guid)


class JobLayout(NamedTuple):
    """The paths of a run's private files."""

    root: Path

    @property
    def plan(self) -> Path:
        """The Plan of the job."""
        return self.root / "plan.json"

    @property
    def submitted(self) -> Path:
        """Its Plan as it was submitted, before its nodes were known."""
        return self.root / "submitted.json"

    @property
    def stop_if(self) -> Path:
        """The job's stop conditions, if it has any."""
        return self.root / "stop-if.json"

    @property
    def preflight(self) -> Path:
        """That its nodes are checked first, if it asks for that."""
        return self.root / "preflight.json"

    @property
    def preflight_exits(self) -> Path:
        """An exit record for every node that was checked."""
        return self.root / "preflight-exits"

    @property
    def bindings(self) -> Path:
        """The nodes and ports that it has got, if it may leave some of them out."""
        return self.root / "bindings.json"

    @property
    def preparation_exits(self) -> Path:
        """An exit record for every node that was prepared."""
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
        """The working directories of its processes, by node name."""
        return self.root / "workdir"

    @property
    def checkpoints(self) -> Path:
        """`$BATCHAI_CHECKPOINT_DIR`: kept between its attempts."""
        return self.root / "checkpoints"

    @property
    def artifacts(self) -> Path:
        """`$BATCHAI_ARTIFACT_DIR`: what it saved under a name."""
        return self.root / "artifacts"

    @property
    def unmounted(self) -> Path:
        """Its logs, if they are not on a share."""
        return self.root / "unmounted"

    @property
    def host_file(self) -> Path:
        """`$AZ_BATCHAI_MPI_HOST_FILE`."""
        return self.root / "hosts"

    @property
    def bin(self) -> Path:
        """Programs to put first on the job's PATH, if it needs any."""
        return self.root / "bin"

    @property
    def python(self) -> Path:
        """A folder on the module path of the job's processes."""
        return self.root / "python"

    @property
    def registry(self) -> Path:
        """Credentials for docker and podman, while they pull the job's image."""
        return self.root / "registry"

    @property
    def tool_log(self) -> Path:
        """The output of the programs that pull its image or mount its file systems."""
        return self.root / "tool.log"

    @property
    def exits(self) -> Path:
        """An exit record for every process that has ended."""
        return self.root / "exits"

    @property
    def made(self) -> Path:
        """The description with which the job was created, and its environment."""
        return self.root / "job.json"

    @property
    def environment(self) -> Path:
        """The variables that it inherits from its submitter, while it has not ended."""
        return self.root / "environment.json"

    @property
    def supervisor(self) -> Path:
        """Identifies the supervisor of the run."""
        return self.root / "supervisor"

    @property
    def end(self) -> Path:
        """The end of the run; exists only after it."""
        return self.root / "end.json"

    @property
    def supervisor_log(self) -> Path:
        """The supervisor's own output; empty if all is well."""
        return self.root / "supervisor.log"

    def spans(self, stream: str) -> Path:
        """Which rank wrote which bytes of `stdout` or `stderr`."""
        return self.root / f"{stream}.spans"

    def times(self, stream: str) -> Path:
        """When which bytes of `stdout` or `stderr` were written."""
        return self.root / f"{stream}.times"

    @property
    def seals(self) -> Path:
        """The seals of its logs, taken when its processes had ended."""
        return self.root / "logs.json"

    @property
    def telemetry(self) -> Path:
        """Telemetry of its processes, a file per sampling program."""
        return self.root / "telemetry"

    @property
    def records(self) -> Path:
        """The files of its record; see `batchai_magics.records.record_files`."""
        return self.root / "records"

    @property
    def secret_spans(self) -> Path:
        """Which bytes of each log are secrets; missing if its processes have none."""
        return self.root / "hidden"
