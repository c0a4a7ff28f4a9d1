"""The kinds of places that must keep the promises of `backends.base`; add a backend to PLACES."""

from __future__ import annotations

import atexit
import compileall
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from batchai_magics.backends.azure.arm_client import TIMING
from batchai_magics.backends.azureml import clusters
from batchai_magics.backends.azureml.settings import AzureMLSettings
from batchai_magics.backends.base import Backend, Capabilities
from batchai_magics.backends.base.backend_registry import BACKENDS, GROUP, open_backend
from batchai_magics.backends.folders import installed_programs
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.runner import LocalFacts
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.ray.runner import PROGRAMS as RAY_PROGRAMS
from batchai_magics.backends.ray.runner import RayBackend, RayFacts
from batchai_magics.backends.ray.settings import RaySettings
from batchai_magics.backends.slurm import sbatch
from batchai_magics.backends.slurm.runner import SlurmBackend, SlurmFacts
from batchai_magics.backends.slurm.settings import ANY, FIXED, SlurmSettings
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.server.batchai.extensions import PACE
from tests.azureml.conftest import look_often, reached
from tests.azureml.stand_in import AzureStandIn
from tests.backends.machines import real_sshd
from tests.backends.ray import real_ray
from tests.backends.slurm import real_slurm
from tests.contract.place import Place, PlaceOptions
from tests.default_resources import ensure_defaults
from tests.server.running import connected, serving
from tests.world import FOLLOWED, World, processes_of, until

# Modules that run over ssh in place of the usual Slurm: what is read and written there is the same.
_OF_FILES = frozenset({"test_output", "test_storage", "test_uploads"})
NOT_SLURMS = frozenset(
    {"auto_scale", "preemption", "early_restart", "early_setup", "new_nodes", "open_mpi"}
)  # Slurm owns nodes and queue; nodes are set up by the first job that gets them, and starts ranks itself;
# it begins a run again only when its credentials have expired

NOT_OF_PROCESSES = NOT_SLURMS | {"node_commands", "requeue", "custom_processes"}
# Ray owns nodes: an idle one is in any cluster that has room for it. Nothing of a job starts ranks elsewhere.
NOT_RAYS = frozenset({"preemption", "new_nodes", "early_setup", "open_mpi", "remote_start", "fixed_nodes"})
NOT_RAYS |= {"quick_commands"}  # a process has to connect to Ray first
# The service owns workspaces, accounts, nodes, images, quotas, queue and storage; experiments are names.
_AZURES = {
    "workspaces",
    "accounts",
    "ownership",
    "own_nodes",
    "fixed_nodes",
    "node_images",
    "own_quota",
    "storage",
}
_AZURES |= {"experiments", "empty_clusters", "node_commands", "setup_logs", "requeue", "node_deallocation"}
# A log has what a process writes to both streams, without times, and with its secrets; it lies in the run.
_AZURES |= {"separate_stderr", "write_times", "hidden_secrets", "sealed_logs"}
_AZURES |= {"execution_log", "log_prefix", "worker_logs"}
# Outputs are blobs: no links, pipes or empty folders. What a job leaves in its working directory is lost.
_AZURES |= {"file_system", "workdir"}
# Nodes have folders and variables of their own and start nothing on others; the stand-in runs no image.
_AZURES |= {"shared_job_folder", "own_environment", "remote_start", "container_engine"}
# Prices are Azure's, and a job waits for a cluster to get nodes. A status may be some seconds old, and of two
# changes of labels the last one wins. Processes may be told to stop twice: by the service and by our program.
_AZURES |= {"own_prices", "checked_nodes", "mpi_check", "own_termination"}
_AZURES |= {"current_status", "atomic_labels", "logged_parameters", "state_at_time_limit"}
NOT_AZURES = (NOT_SLURMS - {"auto_scale"}) | _AZURES
LOCAL, SLURM = LocalFacts.capabilities, SlurmFacts.capabilities
DOCS = Path(__file__).parents[2] / "docs"
AZUREML = Capabilities(
    name="azureml",
    **dict.fromkeys(("setup_tasks", "file_servers", "unmanaged_mounts", "key_vault", "logins"), False),
    stop_conditions=True,
    custom_processes=True,
    backend_options=tuple(option.name for option in AzureMLSettings.BACKEND_OPTIONS),
)
PROCESSES = Capabilities(
    name="processes",
    **dict.fromkeys(("containers", "setup_tasks", "auto_scale", "file_servers"), False),
    **dict.fromkeys(("unmanaged_mounts", "key_vault", "logins"), False),
    known_sizes=True,
    backend_options=("nofile",),
)


@dataclass(frozen=True)
class PlaceKind:
    """How a kind of place is opened, what its backend supports, and which contract tests run there.

    `only`, `samples` and `elsewhere` hold names of modules, and words of `decided_by`.
    """

    open: Callable[[Path, PlaceOptions], AbstractContextManager[Place]]
    capabilities: Capabilities
    lacks: frozenset[str] = frozenset()  # missing facets and other features that `needs` may name
    skip_reason: Callable[[], str] = str  # why it cannot be opened here; empty if it can
    only: frozenset[str] = frozenset()  # what runs there; empty: all
    samples: frozenset[str] = frozenset()  # of which only the tests marked `sample` run
    elsewhere: frozenset[str] = frozenset()  # what runs in another place on the same engine

    def runs(self, words: set[str], *, is_sample: bool) -> bool:
        """Whether a test runs there, by its module and by what decides it."""
        is_wanted = not self.only or bool(self.only & words)
        return is_wanted and not self.elsewhere & words and (is_sample or not self.samples & words)

    def has(self, name: str) -> bool:
        """Whether its backend has a capability or facet."""
        if name.endswith("_options"):
            return name.removesuffix("_options") in self.capabilities.backend_options
        return bool(getattr(self.capabilities, name, True)) and name not in self.lacks


@contextlib.contextmanager
def _local(folder: Path, options: PlaceOptions) -> Iterator[Place]:
    given = {name: value for name, value in vars(options).items() if value is not None}
    world = World(folder / "home", limits=LocalSettings(**given))

    @contextlib.contextmanager
    def reopen() -> Iterator[Backend]:
        other = LocalBackend(LocalSettings(home=folder / "home", **given))
        yield other
        until(lambda: not other.runner.reap())
        other.close()

    place = Place(world.backend, world.workspace, world.experiment, world.cluster, "batchaishare", reopen)
    yield place
    _end_jobs(place)
    ensure_defaults(world.backend, world.settings)  # a test may have deleted them
    world.close()


def _place_of(backend: Backend, settings: Settings, open_again: Callable[[], Backend]) -> Place:
    """The place with the default resources of an engine of our own."""
    ensure_defaults(backend, settings)
    workspace = workspace_id(settings)
    return Place(
        backend,
        workspace,
        workspace.child(Kind.EXPERIMENT, settings.experiment),
        workspace.child(Kind.CLUSTER, settings.cluster),
        "batchaishare",
        lambda: contextlib.closing(open_again()),
    )


def _end_jobs(place: Place) -> None:
    """Ends all jobs, including those in experiments created by a test."""
    with contextlib.suppress(BatchAIError):
        for experiment in place.backend.list(place.workspace, Kind.EXPERIMENT):
            for job in place.backend.list(experiment.id, Kind.JOB):
                place.backend.terminate(job.id)


@contextlib.contextmanager
def _arm(folder: Path, options: PlaceOptions) -> Iterator[Place]:
    """The local backend behind its own server, over a real socket."""
    given = {name: value for name, value in vars(options).items() if value is not None}
    with serving(folder / "home", local=LocalSettings(**given)) as running:
        backend = connected(running.url)

        @contextlib.contextmanager
        def reopen() -> Iterator[Backend]:
            other = connected(running.url)
            yield other
            other.close()

        world = running.world
        place = Place(backend, world.workspace, world.experiment, world.cluster, "batchaishare", reopen)
        yield place
        _end_jobs(place)
        ensure_defaults(world.backend, world.settings)
        backend.close()


def _over_ssh(folder: Path, options: PlaceOptions) -> AbstractContextManager[Place]:
    return place_on(real_slurm.SHARED.get(), folder, options, sshd=real_sshd.SHARED.get())


def _slurm(folder: Path, options: PlaceOptions) -> AbstractContextManager[Place]:
    return place_on(real_slurm.SHARED.get(), folder, options)


def _slurm_scratch(folder: Path, options: PlaceOptions) -> AbstractContextManager[Place]:
    return place_on(real_slurm.SHARED.get(), folder, options, scratch=str(folder / "disks"))


def _slurm_any(folder: Path, options: PlaceOptions) -> AbstractContextManager[Place]:
    return place_on(real_slurm.SHARED.get(), folder, options, placement=ANY)


@cache
def compiled_programs(own: str) -> Path:
    """An engine's programs, which Python has compiled: that takes longer than to run them."""
    folder = Path(tempfile.mkdtemp(prefix="programs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    compileall.compile_dir(installed_programs.install(folder, own), quiet=1)
    return installed_programs.folder_of(folder)


def copy_programs(home: Path, own: str) -> None:
    """Gives a home its programs. What Python has compiled is linked: it is replaced and never written to."""
    programs = compiled_programs(own)
    is_same_disk = programs.stat().st_dev == home.stat().st_dev

    def put(source: str, target: str) -> None:
        (os.link if is_same_disk and source.endswith(".pyc") else shutil.copy2)(source, target)

    shutil.copytree(programs, installed_programs.folder_of(home), copy_function=put)


@contextlib.contextmanager
def place_on(
    slurm: real_slurm.RealSlurm,
    folder: Path,
    options: PlaceOptions,
    *,
    sshd: real_sshd.RealSshd | None = None,
    placement: str = FIXED,
    scratch: str = "",
    has_programs: bool = True,
) -> Iterator[Place]:
    """A place on a running Slurm, through ssh if there is an sshd.

    Its home has the programs of nodes, unless the first job is to bring them.
    """
    wanted = {"core_quota": options.core_quota, "container_command": options.container_command}
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value}
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
    if has_programs:
        copy_programs(own.home, sbatch.PROGRAMS)
    place = _place_of(backend, settings, lambda: SlurmBackend(own))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in real_slurm.MPI_ENV.items():
            patch.setenv(name, value)
        yield place
        _end_jobs(place)
        until(slurm.is_idle)
        FOLLOWED.discard(backend)


@contextlib.contextmanager
def ray_place(ray: real_ray.RealRay, folder: Path, options: PlaceOptions) -> Iterator[Place]:
    """A place on a running Ray, whose Python is not this one."""
    own = RaySettings(
        home=folder / "home",
        address=ray.address,
        ray_python=str(real_ray.PYTHON),
        core_quota=options.core_quota or 1000,
    )
    settings = Settings(backend="ray", sections={"ray": own})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in real_ray.ENV.items():
            patch.setenv(name, value)
        ray_backend = RayBackend(own)
        copy_programs(own.home, RAY_PROGRAMS)
        place = _place_of(ray_backend, settings, lambda: RayBackend(own))
        yield place
        _end_jobs(place)
        until(lambda: not ray_backend.runner.gateway.actors())
        FOLLOWED.discard(ray_backend)
        ray_backend.close()


def _ray(folder: Path, options: PlaceOptions) -> AbstractContextManager[Place]:
    return ray_place(real_ray.SHARED.get(), folder, options)


@contextlib.contextmanager
def _processes(folder: Path, options: PlaceOptions) -> Iterator[Place]:
    """The runner of docs/add-a-runner.md, found by the entry point of its package."""
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
            sections={"processes": own(folder / "home", core_quota=options.core_quota or 1000)},
        )
        backend = open_backend(settings)
        place = _place_of(backend, settings, lambda: open_backend(settings))
        yield place
        _end_jobs(place)
        until(lambda: not processes_of(folder / "home"))
        FOLLOWED.discard(backend)


@contextlib.contextmanager
def _azureml(folder: Path, options: PlaceOptions) -> Iterator[Place]:
    """A workspace of the stand-in of Azure Machine Learning, with a cluster of two nodes."""
    with (
        pytest.MonkeyPatch.context() as patch,
        reached(AzureStandIn(folder / "azure", runs_jobs=True), patch) as azure,
    ):
        azure.computes.add("pair", minimum=2, maximum=2)
        patch.setitem(cast("dict[str, float]", TIMING), "polling_interval", 0.05)
        if options.idle_s is not None:
            patch.setattr(clusters, "_IDLE_BEFORE_SCALE_DOWN", f"PT{options.idle_s}S")
        look_often(patch)
        settings = replace(azure.settings(visible_secrets="yes"), cluster="pair")
        backend = open_backend(settings)
        root = workspace_id(settings)
        experiment, cluster = (
            root.child(Kind.EXPERIMENT, settings.experiment),
            root.child(Kind.CLUSTER, "pair"),
        )

        def reopen() -> AbstractContextManager[Backend]:
            return contextlib.closing(open_backend(settings))

        yield Place(backend, root, experiment, cluster, "batchaishare", reopen, settings)
        backend.close()


SERVICE, ENGINE, NODES = "service", "engine", "nodes"  # who decides what a contract test is about
PLACES = {
    "local": PlaceKind(_local, LOCAL),
    "arm": PlaceKind(
        _arm,
        replace(LOCAL, name="arm", pace=PACE),
        frozenset({"ownership"}),
        samples=frozenset({ENGINE, NODES}),
    ),
    "slurm": PlaceKind(
        _slurm,
        SLURM,
        NOT_SLURMS,
        real_slurm.skip_reason,
        samples=frozenset({SERVICE, NODES}),
        elsewhere=_OF_FILES | {"test_workdir"},
    ),
    "slurm over ssh": PlaceKind(
        _over_ssh,
        SLURM,
        NOT_SLURMS,
        lambda: real_slurm.skip_reason() or real_sshd.skip_reason(),
        only=_OF_FILES,
        samples=frozenset({NODES}),
    ),
    "slurm with scratch": PlaceKind(
        _slurm_scratch, SLURM, NOT_SLURMS, real_slurm.skip_reason, only=frozenset({"test_workdir"})
    ),
    "slurm on any nodes": PlaceKind(
        _slurm_any,
        SLURM,
        NOT_SLURMS | {"own_nodes", "fixed_nodes", "node_commands"},  # the last is the same on fixed nodes
        real_slurm.skip_reason,
        only=frozenset({"test_clusters", "test_scheduling"}),
        samples=frozenset({SERVICE}),
    ),
    "processes": PlaceKind(_processes, PROCESSES, NOT_OF_PROCESSES, only=frozenset({ENGINE})),
    "azureml": PlaceKind(_azureml, AZUREML, NOT_AZURES, samples=frozenset({NODES})),
    "ray": PlaceKind(_ray, RayFacts.capabilities, NOT_RAYS, real_ray.skip_reason, only=frozenset({ENGINE})),
}
