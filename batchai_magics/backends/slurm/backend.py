"""The Slurm backend: the service over a folder that hosts and nodes share, with Slurm as its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.backends.base import Capabilities, Pace
from batchai_magics.backends.folders.file_repository import FileRepository
from batchai_magics.backends.folders.home_accounts import FileRows, HomeGroups, home_storage
from batchai_magics.backends.folders.home_directory import HomeDirectory
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.context import HomeContext, HomeParts
from batchai_magics.backends.service.service import Service
from batchai_magics.backends.slurm.bundle_writer import host_runs
from batchai_magics.backends.slurm.runner import SlurmRunner
from batchai_magics.backends.slurm.settings import SBATCH, SlurmSettings
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.models.resource_ids import ResourceId

if TYPE_CHECKING:
    from batchai_magics.models.job_spec import JobSpec

CAPABILITIES = Capabilities(
    name="slurm",
    unmanaged_mounts=False,
    key_vault=False,
    logins=False,
    stop_conditions=True,
    notifications=True,
    restarts=True,
    shared_gpus=True,
    preflight=True,
    custom_processes=True,
    backend_options=(SBATCH.name,),
    known_sizes=True,
    pace=Pace(
        poll_interval_s=0.5
    ),  # each poll reads some small files of each job: a file system that many share
)


class SlurmBackend(Service):
    """Jobs on a Slurm cluster. State, shares and logs are below its home, which hosts and nodes share."""

    def __init__(
        self, settings: SlurmSettings, bounds: JobBounds | None = None, *, pass_env: str = ""
    ) -> None:
        self.settings = settings
        machine = settings.machine
        self.layout = Layout(machine.resolve(settings.usual_home))
        private_files.make_home(self.layout.home, setting="slurm.home")
        repository = FileRepository(self.layout, machine)
        self.runner = SlurmRunner(self.layout, machine, settings, repository.clock, pass_env=pass_env)
        rows = FileRows(self.layout.home / "accounts")
        groups = HomeGroups(FileRows(self.layout.home / "groups"))
        context = HomeContext(
            repository=repository,
            runner=self.runner,
            open_parts=lambda: HomeParts(HomeDirectory(self.layout, machine, setting="slurm.home"), groups),
            core_quota=settings.core_quota,
            host_runs=host_runs(settings),
            shell=self.runner,
            bounds=bounds or JobBounds(),
        )
        super().__init__(context, CAPABILITIES, lambda: home_storage(self.layout, context, groups, rows))

    def check_environment(self, job: JobSpec) -> None:
        """Refuses an environment that nodes like the login node cannot make, unless a setup task may help."""
        from batchai_magics.backends.service import environment_maker, resource_views

        record = self.context.repository.get(ResourceId.parse(job.cluster.id))
        setup = resource_views.cluster_spec(record.spec).node_setup
        if not (setup and setup.setup_task):
            environment_maker.check_maker(job, self.layout.home / "shares", self.runner.has_uv)
