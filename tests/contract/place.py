"""The place that contract tests run in: a backend with what a job needs, and operations for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from batchai_magics import cell
from batchai_magics.backends.base import Backend, FileRef, JobNeeds
from batchai_magics.config import Settings
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import submit
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.file_server import FileServer, FileServerSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from tests.patience import PATIENCE_S
from tests.wire_bodies import MOUNTED, USER, manual, plain_cluster, plain_job
from tests.world import FOLLOWED, until

HOLD = "echo up; exec sleep 1000"


@dataclass(frozen=True)
class PlaceOptions:
    """Settings of the backend that a test overrides."""

    core_quota: int | None = None
    idle_s: float | None = None  # idle time after which an auto-scaled node is removed
    container_command: str | None = None  # what runs containers


@dataclass
class Place:
    """A backend with a workspace, an experiment, a cluster of two nodes, and a share mounted at autoafs.

    `reopen` opens the same place a second time, as another process would.
    """

    backend: Backend
    workspace: ResourceId
    experiment: ResourceId
    cluster: ResourceId
    share: str
    reopen: Callable[[], AbstractContextManager[Backend]]
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        FOLLOWED.add(self.backend)

    def job(self, name: str = "job") -> ResourceId:
        """The id of a job."""
        return self.experiment.child(Kind.JOB, name)

    def spec(self, command: str = "echo hello", **fields: object) -> JobSpec:
        """A job of the custom toolkit on one node."""
        return JobSpec.from_wire(plain_job(self.cluster, command, **fields))

    def start(self, command: str = "echo hello", name: str = "job", **fields: object) -> ResourceId:
        """Creates a job and returns its id."""
        self.backend.create(self.job(name), self.spec(command, **fields))
        return self.job(name)

    def run(self, command: str = "echo hello", name: str = "job", **fields: object) -> JobResource:
        """Creates a job and returns it after its end."""
        return self.wait(self.start(command, name, **fields))

    def start_ranks(self, script: str, *, count: int, name: str = "job", **more: object) -> ResourceId:
        """Creates a job of `count` MPI processes on both nodes, each running a shell script."""
        command = {"commandLine": f"bash -c '{script}'", "processCount": count}
        fields = {"nodeCount": 2, "customToolkitSettings": None, "customMpiSettings": command}
        return self.start(name=name, **{**fields, **more})

    def submit(self, line: str, script: str = "print('hello')", **others: Any) -> Job:
        """Submits a cell, with other settings than the defaults."""
        settings = replace(self.settings, **others)
        return submit(self.backend, cell.parse(line, script, settings=settings), settings).job

    def run_cell(self, line: str, script: str = "print('hello')", **others: Any) -> Job:
        """Submits a cell, with other settings than the defaults, and waits for its end."""
        return self.submit(line, script, **others).wait(PATIENCE_S)

    def wait(self, id: ResourceId) -> JobResource:
        """Waits for the end of a job and returns it."""
        until(lambda: self.backend.show(id).state.is_final)
        return self.backend.show(id)

    def log(self, id: ResourceId, file: str = "stdout.txt") -> bytes:
        """The output of a job."""
        return self.backend.read(FileRef(id, file)).data

    def stored(self, path: str) -> str:
        """A file on the mounted share; empty if it does not exist."""
        if path not in [file.path for file in self.backend.storage.list(self.share)]:
            return ""
        return self.backend.storage.download(self.share, path).decode()

    def put(self, name: str, text: str) -> str:
        """Stores a file where jobs find it; returns its path for their commands."""
        files = {f"files/{name}": text.encode()}
        if self.backend.storage:
            self.backend.storage.make(self.share)
            self.backend.storage.upload(self.share, files)
        else:
            self.backend.ensure(JobNeeds(self.job(), share=self.share, files=files))
        return f"{MOUNTED}/files/{name}"

    def make_cluster(self, name: str = "more", *, scale: Mapping[str, Any] | None = None, **fields: object):
        """Creates a cluster, by default of one node."""
        spec = ClusterSpec.from_wire(plain_cluster(scaleSettings=scale or manual(1), **fields))
        return self.backend.create(self.workspace.child(Kind.CLUSTER, name), spec)

    def make_server(self, name: str = "nfs") -> FileServer:
        """Creates a file server."""
        disks = {"diskSizeInGB": 10, "diskCount": 2, "storageAccountType": "Standard_LRS"}
        login = {"userAccountSettings": USER}
        spec = {"vmSize": "STANDARD_D1", "sshConfiguration": login, "dataDisks": disks}
        id = self.workspace.child(Kind.FILE_SERVER, name)
        return self.backend.create(id, FileServerSpec.from_wire({"properties": spec}))

    def scale(self, cluster: ResourceId, settings: Mapping[str, Any]) -> Cluster:
        """Changes a cluster's scale settings."""
        patch = ClusterPatch.from_wire({"properties": {"scaleSettings": settings}})
        return self.backend.update(cluster, patch)

    def has(self, cluster: ResourceId, *, running: int = 0, idle: int = 0) -> None:
        """Waits until a cluster has these numbers of running and idle nodes."""
        until(lambda: self.counts(cluster) == (running, idle))

    def counts(self, cluster: ResourceId) -> tuple[int, int]:
        """The numbers of running and idle nodes."""
        states = self.backend.show(cluster).node_states
        return states.running_node_count, states.idle_node_count

    def on(self, cluster: Cluster) -> dict[str, object]:
        """The field of a job that runs on this cluster."""
        return {"cluster": {"id": str(cluster.id)}}

    def is_up(self, id: ResourceId) -> None:
        """Waits until a job that runs HOLD has started."""
        until(lambda: self.log(id) == b"up\n")


def auto(least: int, most: int) -> dict[str, object]:
    """Auto-scale settings."""
    return {"autoScale": {"minimumNodeCount": least, "maximumNodeCount": most}}
