"""The places that must keep the promises of `backends.base`; a new backend is one more entry of PLACES."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from batchai_magics.backends.base import Backend, Capabilities
from batchai_magics.backends.base.backend_registry import BACKENDS, GROUP, open_backend
from batchai_magics.backends.local.backend import CAPABILITIES as LOCAL
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.slurm.backend import CAPABILITIES as SLURM
from batchai_magics.backends.slurm.backend import SlurmBackend
from batchai_magics.backends.slurm.settings import ANY, FIXED, SlurmSettings
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.submit import ensure_defaults
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.server.batchai.extensions import PACE
from tests.backends.machines import real_sshd
from tests.backends.slurm import real_slurm
from tests.contract.place import Place, Wishes
from tests.server.running import connected, serving
from tests.world import World, below, until

_OF_FILES = frozenset(
    {"test_metrics", "test_output", "test_running", "test_storage", "test_workdir", "test_uploads"}
)
NOT_SLURMS = frozenset(
    {"auto_scale", "preemption", "early_setup", "new_nodes", "strict_order", "open_mpi"}
)  # nodes and queue are its own: it sets a node up for the first job that gets it, and starts ranks itself

NOT_OF_PROCESSES = NOT_SLURMS | {"node_commands", "requeue", "custom_processes", "mpi", "time_limits"}
DOCS = Path(__file__).parents[2] / "docs"
PROCESSES = Capabilities(
    name="processes",
    **dict.fromkeys(("containers", "setup_tasks", "auto_scale", "file_servers"), False),
    **dict.fromkeys(("unmanaged_mounts", "key_vault", "logins"), False),
    known_sizes=True,
    backend_options=("rlimit",),
)


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
        if name.endswith("_options"):
            return name.removesuffix("_options") in self.capabilities.backend_options
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


def _slurm_scratch(folder: Path, wishes: Wishes) -> AbstractContextManager[Place]:
    return place_on(real_slurm.SHARED.get(), folder, wishes, scratch=str(folder / "disks"))


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
    scratch: str = "",
) -> Iterator[Place]:
    """A place on a Slurm that runs, at the other end of ssh where there is an sshd."""
    wished = {"core_quota": wishes.core_quota, "container_command": wishes.container_command}
    given: dict[str, Any] = {name: value for name, value in wished.items() if value}
    if sshd:
        given |= {"ssh": real_sshd.HOST, "ssh_command": sshd.ssh, "python": sys.executable}
    own = SlurmSettings(
        home=folder / "home",
        conf=str(slurm.conf),
        placement=placement,
        scratch=scratch,
        look_s=0.2,
        lost_s=1.0,
        **given,
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


@contextlib.contextmanager
def _processes(folder: Path, wishes: Wishes) -> Iterator[Place]:
    """The runner of docs/add-a-runner.md, found by the entry point of a package that brings it."""
    info = folder / "installed" / "example_runner-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example-runner\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nprocesses = example_runner\n")
    with pytest.MonkeyPatch.context() as patch:
        for path in (DOCS, info.parent):
            patch.syspath_prepend(str(path))
        own = BACKENDS.settings_type("processes")
        settings = Settings(
            backend="processes",
            sections={"processes": own(folder / "home", core_quota=wishes.core_quota or 1000)},
        )
        backend = open_backend(settings)
        ensure_defaults(backend, settings)
        workspace = workspace_id(settings)

        def again() -> AbstractContextManager[Backend]:
            return contextlib.closing(open_backend(settings))

        experiment = workspace.child(Kind.EXPERIMENT, settings.experiment)
        cluster = workspace.child(Kind.CLUSTER, settings.cluster)
        place = Place(backend, workspace, experiment, cluster, "batchaishare", again)
        yield place
        _end_jobs(place)
        until(lambda: not below(folder / "home"))


PLACES = {
    "local": Offer(_local, LOCAL),
    "arm": Offer(_arm, replace(LOCAL, name="arm", pace=PACE), frozenset({"ownership"})),
    "slurm": Offer(_slurm, SLURM, NOT_SLURMS, real_slurm.why_not),
    "slurm over ssh": Offer(
        _over_ssh,
        SLURM,
        NOT_SLURMS,
        lambda: real_slurm.why_not() or real_sshd.why_not(),
        only=_OF_FILES,
    ),
    "slurm with scratch": Offer(
        _slurm_scratch, SLURM, NOT_SLURMS, real_slurm.why_not, only=frozenset({"test_workdir"})
    ),
    "processes": Offer(_processes, PROCESSES, NOT_OF_PROCESSES),
    "slurm on any nodes": Offer(
        _slurm_any,
        SLURM,
        NOT_SLURMS | {"own_nodes"},
        real_slurm.why_not,
        only=frozenset({"test_clusters", "test_looks", "test_promises", "test_scheduling"}),  # of nodes
    ),
}
