"""The Slurm backend: the service over a folder that hosts and nodes share, with Slurm as its engine."""

from __future__ import annotations

from batchai_magics.backends.folders.file_repository import FileRepository
from batchai_magics.backends.folders.folder_service import FolderService
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.runner import SlurmRunner
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.launch.job_bounds import JobBounds


class SlurmBackend(FolderService):
    """Jobs on a Slurm cluster. State, shares and logs are below its home, which hosts and nodes share."""

    def __init__(
        self, settings: SlurmSettings, bounds: JobBounds | None = None, *, pass_env: str = ""
    ) -> None:
        self.settings, machine = settings, settings.machine
        self.layout = Layout(machine.resolve(settings.usual_home))
        private_files.make_home(self.layout.home, setting="slurm.home")
        repository = FileRepository(self.layout, machine)
        self.runner = SlurmRunner(self.layout, machine, settings, repository.clock, pass_env=pass_env)
        quota = settings.core_quota
        super().__init__(repository, self.runner, setting="slurm.home", core_quota=quota, bounds=bounds)
