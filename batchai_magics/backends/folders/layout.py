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


class RunEntry:
    """A file or folder of a run, by its name in the run's own folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, job: JobLayout, kind: type[JobLayout]) -> Path:
        return job.root / self._name


class JobLayout:
    """The paths of a run's private files, below its folder `root`."""

    plan = RunEntry("plan.json")  # the Plan of the job
    submitted = RunEntry("submitted.json")  # its Plan as it was submitted, before its nodes were known
    stop_if = RunEntry("stop-if.json")  # the job's stop conditions, if it has any
    preflight = RunEntry("preflight.json")  # that its nodes are checked first, if it asks for that
    preflight_exits = RunEntry("preflight-exits")  # an exit record for every node that was checked
    # The nodes and ports that it has got, if it may leave some of them out.
    bindings = RunEntry("bindings.json")
    preparation_exits = RunEntry("preparation-exits")  # an exit record for every node that was prepared
    mounts = RunEntry("mounts")  # `$AZ_BATCHAI_JOB_MOUNT_ROOT`: links to shares
    shared_temp = RunEntry("shared")  # `$AZ_BATCHAI_SHARED_JOB_TEMP`
    workdir = RunEntry("workdir")  # the working directories of its processes, by node name
    checkpoints = RunEntry("checkpoints")  # `$BATCHAI_CHECKPOINT_DIR`: kept between its attempts
    artifacts = RunEntry("artifacts")  # `$BATCHAI_ARTIFACT_DIR`: what it saved under a name
    unmounted = RunEntry("unmounted")  # its logs, if they are not on a share
    host_file = RunEntry("hosts")  # `$AZ_BATCHAI_MPI_HOST_FILE`
    bin = RunEntry("bin")  # programs to put first on the job's PATH, if it needs any
    python = RunEntry("python")  # a folder on the module path of the job's processes
    registry = RunEntry("registry")  # credentials for docker and podman, while they pull the job's image
    # The output of the programs that pull its image or mount its file systems.
    tool_log = RunEntry("tool.log")
    exits = RunEntry("exits")  # an exit record for every process that has ended
    made = RunEntry("job.json")  # the description with which the job was created, and its environment
    # The variables that it inherits from its submitter, while it has not ended.
    environment = RunEntry("environment.json")
    supervisor = RunEntry("supervisor")  # identifies the supervisor of the run
    end = RunEntry("end.json")  # the end of the run; exists only after it
    supervisor_log = RunEntry("supervisor.log")  # the supervisor's own output; empty if all is well
    seals = RunEntry("logs.json")  # the seals of its logs, taken when its processes had ended
    telemetry = RunEntry("telemetry")  # telemetry of its processes, a file per sampling program
    records = RunEntry("records")  # the files of its record; see `batchai_magics.records.record_files`
    # Which bytes of each log are secrets; missing if its processes have none.
    secret_spans = RunEntry("hidden")

    def __init__(self, root: Path) -> None:
        self.root = root

    def spans(self, stream: str) -> Path:
        """Which rank wrote which bytes of `stdout` or `stderr`."""
        return self.root / f"{stream}.spans"

    def times(self, stream: str) -> Path:
        """When which bytes of `stdout` or `stderr` were written."""
        return self.root / f"{stream}.times"
