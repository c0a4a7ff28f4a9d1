"""The places that must keep the promises of `backends.base`; a new backend is one more entry of PLACES."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from batchai_magics.backends.base import Backend, Capabilities, FileRef
from batchai_magics.backends.local.backend import CAPABILITIES as LOCAL
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.slurm.backend import CAPABILITIES as SLURM
from batchai_magics.backends.slurm.backend import SlurmBackend
from batchai_magics.backends.slurm.settings import ANY, FIXED, SlurmSettings
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.submit import ensure_defaults
from batchai_magics.models.cluster import ClusterPatch, ClusterSpec
from batchai_magics.models.file_server import FileServer, FileServerSpec
from batchai_magics.models.ids import Kind, ResourceId, workspace_id
from batchai_magics.models.job import JobSpec
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.server.batchai.own import PACE
from tests.backends.machines import real_sshd
from tests.backends.slurm import real_slurm
from tests.server.running import connected, serving
from tests.world import World, until

USER = {"adminUserName": "me", "adminUserPassword": "hush"}
MOUNTED = "$AZ_BATCHAI_MOUNT_ROOT/autoafs"
HOLD = "echo up; exec sleep 1000"
NOT_SLURMS = frozenset(
    {"auto_scale", "preemption", "early_setup", "new_nodes", "strict_order"}
)  # nodes and queue are its own: it sets a node up for the first job that gets it


@dataclass(frozen=True)
class Wishes:
    """What a test wants the backend's settings to be."""

    core_quota: int | None = None
    idle_s: float | None = None  # how long a node of an auto-scale cluster may be idle


@dataclass
class Place:
    """A backend with a workspace, an experiment, a cluster of two nodes, and a share mounted at autoafs.

    `again` opens the same place a second time, as another process would.
    """

    backend: Backend
    workspace: ResourceId
    experiment: ResourceId
    cluster: ResourceId
    share: str
    again: Callable[[], AbstractContextManager[Backend]]

    def job(self, name: str = "job") -> ResourceId:
        """The id of a job."""
        return self.experiment.child(Kind.JOB, name)

    def spec(self, command: str = "echo hello", **fields: object) -> JobSpec:
        """A job of the custom toolkit on one node."""
        properties = {
            "cluster": {"id": str(self.cluster)},
            "nodeCount": 1,
            "stdOutErrPathPrefix": MOUNTED,
            "customToolkitSettings": {"commandLine": command},
            **fields,
        }
        return JobSpec.from_wire({"properties": properties})

    def start(self, command: str = "echo hello", name: str = "job", **fields: object) -> ResourceId:
        """Creates a job and gives its id."""
        self.backend.create(self.job(name), self.spec(command, **fields))
        return self.job(name)

    def run(self, command: str = "echo hello", name: str = "job", **fields: object) -> JobResource:
        """Creates a job; gives it as it is when it has ended."""
        return self.wait(self.start(command, name, **fields))

    def start_ranks(self, script: str, *, count: int, name: str = "job") -> ResourceId:
        """Creates a job of so many MPI processes on both nodes, each of which runs a shell script."""
        command = {"commandLine": f"bash -c '{script}'", "processCount": count}
        fields = {"nodeCount": 2, "customToolkitSettings": None, "customMpiSettings": command}
        return self.start(name=name, **fields)

    def wait(self, id: ResourceId) -> JobResource:
        """The job when it has ended."""
        until(lambda: self.backend.show(id).state.is_final)
        return self.backend.show(id)

    def log(self, id: ResourceId, file: str = "stdout.txt") -> bytes:
        """What a job has printed."""
        return self.backend.read(FileRef(id, file)).data

    def stored(self, path: str) -> str:
        """A file that jobs wrote to the mounted share; empty while there is none."""
        if path not in [file.path for file in self.backend.storage.list(self.share)]:
            return ""
        return self.backend.storage.download(self.share, path).decode()

    def make_cluster(self, name: str = "c", *, scale: Mapping[str, Any] | None = None, **fields: object):
        """Makes a cluster, of one node unless `scale` says otherwise."""
        properties = {
            "vmSize": "STANDARD_D1",
            "userAccountSettings": USER,
            "scaleSettings": scale or manual(1),
        }
        spec = ClusterSpec.from_wire({"properties": {**properties, **fields}})
        return self.backend.create(self.workspace.child(Kind.CLUSTER, name), spec)

    def make_server(self, name: str = "nfs") -> FileServer:
        """Makes a file server."""
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
        """Waits until so many of a cluster's nodes are running and idle."""
        until(lambda: self.counts(cluster) == (running, idle))

    def counts(self, cluster: ResourceId) -> tuple[int, int]:
        """How many nodes are running and idle."""
        states = self.backend.show(cluster).node_states
        return states.running_node_count, states.idle_node_count

    def on(self, cluster: Cluster) -> dict[str, object]:
        """The field of a job that runs on this cluster."""
        return {"cluster": {"id": str(cluster.id)}}

    def is_up(self, id: ResourceId) -> None:
        """Waits until a job that runs HOLD has begun."""
        until(lambda: self.log(id) == b"up\n")


def manual(count: int, option: str = "requeue") -> dict[str, object]:
    """Scale settings for a fixed number of nodes."""
    return {"manual": {"targetNodeCount": count, "nodeDeallocationOption": option}}


def auto(least: int, most: int) -> dict[str, object]:
    """Scale settings for a number of nodes that follows the queue."""
    return {"autoScale": {"minimumNodeCount": least, "maximumNodeCount": most}}


@dataclass(frozen=True)
class Offer:
    """How a place is opened, and what its backend can do."""

    open: Callable[[Path, Wishes], AbstractContextManager[Place]]
    capabilities: Capabilities
    lacks: frozenset[str] = frozenset()  # facets, and what else `needs` may name, that it has not
    why_not: Callable[[], str] = str  # why it cannot be opened here; empty where it can
    only: frozenset[str] = frozenset()  # the modules of the contract that are run there; empty: all

    def has(self, name: str) -> bool:
        """Whether its backend has a capability, or a facet."""
        return bool(getattr(self.capabilities, name, True)) and name not in self.lacks


@contextlib.contextmanager
def _local(folder: Path, wishes: Wishes) -> Iterator[Place]:
    given = {name: value for name, value in vars(wishes).items() if value is not None}
    world = World(folder / "home", limits=LocalSettings(**given))

    @contextlib.contextmanager
    def again() -> Iterator[Backend]:
        other = LocalBackend(LocalSettings(home=folder / "home", **given))
        yield other
        until(lambda: not other.reap())
        other.close()

    place = Place(world.backend, world.workspace, world.experiment, world.cluster, "batchaishare", again)
    yield place
    _end_jobs(place)
    ensure_defaults(world.backend, world.settings)  # a test may have deleted them
    world.close()


def _end_jobs(place: Place) -> None:
    """Ends what still runs, also in experiments that a test has made."""
    with contextlib.suppress(BatchAIError):
        for experiment in place.backend.list(place.workspace, Kind.EXPERIMENT):
            for job in place.backend.list(experiment.id, Kind.JOB):
                place.backend.terminate(job.id)


@contextlib.contextmanager
def _arm(folder: Path, wishes: Wishes) -> Iterator[Place]:
    """The local backend behind a server of its own, over a real socket."""
    given = {name: value for name, value in vars(wishes).items() if value is not None}
    with serving(folder / "home", local=LocalSettings(**given)) as running:
        backend = connected(running.url)

        @contextlib.contextmanager
        def again() -> Iterator[Backend]:
            other = connected(running.url)
            yield other
            other.close()

        world = running.world
        place = Place(backend, world.workspace, world.experiment, world.cluster, "batchaishare", again)
        yield place
        _end_jobs(place)
        ensure_defaults(world.backend, world.settings)
        backend.close()


def _over_ssh(folder: Path, wishes: Wishes) -> AbstractContextManager[Place]:
    return place_on(real_slurm.SHARED.get(), folder, wishes, sshd=real_sshd.SHARED.get())


def _slurm(folder: Path, wishes: Wishes) -> AbstractContextManager[Place]:
    return place_on(real_slurm.SHARED.get(), folder, wishes)


def _slurm_any(folder: Path, wishes: Wishes) -> AbstractContextManager[Place]:
    return place_on(real_slurm.SHARED.get(), folder, wishes, placement=ANY)


@contextlib.contextmanager
def place_on(
    slurm: real_slurm.RealSlurm,
    folder: Path,
    wishes: Wishes,
    *,
    sshd: real_sshd.RealSshd | None = None,
    placement: str = FIXED,
) -> Iterator[Place]:
    """A place on a Slurm that runs, at the other end of ssh where there is an sshd."""
    given: dict[str, Any] = {"core_quota": wishes.core_quota} if wishes.core_quota else {}
    if sshd:
        given |= {"ssh": real_sshd.HOST, "ssh_command": sshd.ssh, "python": sys.executable}
    own = SlurmSettings(
        home=folder / "home", conf=str(slurm.conf), placement=placement, look_s=0.2, lost_s=1.0, **given
    )
    settings = Settings(backend="slurm", sections={"slurm": own})
    backend = SlurmBackend(own)
    ensure_defaults(backend, settings)
    workspace = workspace_id(settings)
    experiment = workspace.child(Kind.EXPERIMENT, settings.experiment)
    cluster = workspace.child(Kind.CLUSTER, settings.cluster)

    def again() -> AbstractContextManager[Backend]:
        return contextlib.closing(SlurmBackend(own))

    place = Place(backend, workspace, experiment, cluster, "batchaishare", again)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in real_slurm.MPI_ENV.items():
            patch.setenv(name, value)
        yield place
        _end_jobs(place)
        until(slurm.is_idle)


PLACES = {
    "local": Offer(_local, LOCAL),
    "arm": Offer(_arm, replace(LOCAL, name="arm", pace=PACE)),
    "slurm": Offer(_slurm, SLURM, NOT_SLURMS, real_slurm.why_not),
    "slurm over ssh": Offer(
        _over_ssh,
        SLURM,
        NOT_SLURMS,
        lambda: real_slurm.why_not() or real_sshd.why_not(),
        only=frozenset({"test_metrics", "test_output", "test_running", "test_storage"}),  # what is of files
    ),
    "slurm on any nodes": Offer(
        _slurm_any,
        SLURM,
        NOT_SLURMS | {"own_nodes"},
        real_slurm.why_not,
        only=frozenset({"test_clusters", "test_looks", "test_promises", "test_scheduling"}),  # of nodes
    ),
}
