"""The Slurm backend: the service over a folder that hosts and nodes share, with Slurm as its engine."""

from __future__ import annotations

from batchai_magics.backends.base import Capabilities, Pace
from batchai_magics.backends.folders import private
from batchai_magics.backends.folders.file_repository import FileRepository
from batchai_magics.backends.folders.home_accounts import FileRows, HomeGroups
from batchai_magics.backends.folders.home_directory import HomeDirectory
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.share_guard import GuardedAccounts, GuardedStorage, ShareUsers
from batchai_magics.backends.service.context import Context
from batchai_magics.backends.service.service import Service
from batchai_magics.backends.slurm.runner import SlurmRunner
from batchai_magics.backends.slurm.sbatch_options import SBATCH
from batchai_magics.backends.slurm.settings import SlurmSettings

CAPABILITIES = Capabilities(
    name="slurm",
    unmanaged_mounts=False,
    key_vault=False,
    logins=False,
    stop_conditions=True,
    custom_processes=True,
    backend_options=(SBATCH.name,),
    known_sizes=True,
    pace=Pace(
        poll_interval_s=0.5
    ),  # each poll reads some small files of each job: a file system that many share
)


class SlurmBackend(Service):
    """Jobs on a Slurm cluster. State, shares and logs are below its home, which hosts and nodes share."""

    def __init__(self, settings: SlurmSettings) -> None:
        self.settings = settings
        machine = settings.machine
        self.layout = Layout(machine.resolve(settings.usual_home))
        private.make_home(self.layout.home, setting="slurm.home")
        repository = FileRepository(self.layout, machine)
        self.runner = SlurmRunner(self.layout, machine, settings, repository.clock)
        groups = HomeGroups(FileRows(self.layout.home / "groups"))
        context = Context(
            repository=repository,
            folders=HomeDirectory(self.layout, machine, setting="slurm.home"),
            runner=self.runner,
            groups=groups,
            core_quota=settings.core_quota,
            shell=self.runner,
        )
        users = ShareUsers(self.layout, lambda: (job for job, _, _ in context.all_open_runs()))
        super().__init__(
            context,
            CAPABILITIES,
            storage=self._storage("shares", "share", users),
            containers=self._storage("containers", "container", users),
            accounts=GuardedAccounts(
                self.layout, groups, FileRows(self.layout.home / "accounts"), users=users
            ),
        )

    def _storage(self, kind: str, noun: str, users: ShareUsers) -> GuardedStorage:
        return GuardedStorage(self.layout.home / kind, self.layout.unfinished(kind), noun, users=users)
