"""Opens the Slurm backend."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.errors import CapabilityError

if TYPE_CHECKING:
    from batchai_magics.backends.base import Backend
    from batchai_magics.config import Settings
    from batchai_magics.models.job_spec import JobSpec

IMPLEMENTED_IN = "batchai_magics.backends.slurm.runner"
OWN_SETTINGS = SlurmSettings


def open_backend(settings: Settings) -> Backend:
    """Opens the Slurm backend in its home."""
    slurm_settings = settings.for_backend(SlurmSettings)
    if sys.platform != "linux" and not slurm_settings.ssh:
        hint = "Use it on a login node of the cluster, or name one: --ssh HOST."
        raise CapabilityError("the slurm backend runs on Linux alone", code="NotSupported", hint=hint)
    from batchai_magics.backends.slurm.runner import SlurmBackend
    from batchai_magics.launch.job_bounds import JobBounds

    slurm_settings.check()
    return SlurmBackend(slurm_settings, JobBounds.of(settings), pass_env=settings.pass_env)


def host_note(settings: Settings, job: JobSpec) -> str:
    """The note on a job whose image nothing on the nodes runs; see `Backend.host_note`."""
    from batchai_magics.backends.service import host_runs
    from batchai_magics.backends.slurm import sbatch

    slurm_settings = settings.for_backend(SlurmSettings)
    is_host = slurm_settings.container_command.strip() == sbatch.HOST
    return host_runs.host_note(job, sbatch.host_runs(slurm_settings)) if is_host else ""


def shares_folders(settings: Settings) -> bool:
    """Whether nodes have the folders of this machine: False if the cluster is reached by ssh."""
    return not settings.for_backend(SlurmSettings).ssh


def check_choice(settings: Settings) -> str:
    """Makes a node read a file in the home, once per partition: see `home_check.check`."""
    from batchai_magics.backends.folders import private_files
    from batchai_magics.backends.slurm import home_check

    slurm_settings = settings.for_backend(SlurmSettings)
    slurm_settings.check()
    machine = slurm_settings.machine
    try:
        if not machine.has_program("srun"):
            return ""  # the first job reports what is missing
        home = machine.resolve(slurm_settings.usual_home)
        private_files.make_home(home, setting="slurm.home")
        return home_check.check(machine, slurm_settings, home)
    finally:
        machine.close()
