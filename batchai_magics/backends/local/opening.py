"""Opens the local backend."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.errors import CapabilityError

if TYPE_CHECKING:
    from batchai_magics.backends.base import Backend
    from batchai_magics.config import Settings
    from batchai_magics.models.job_spec import JobSpec

IMPLEMENTED_IN = "batchai_magics.backends.local.backend"
OWN_SETTINGS = LocalSettings


def open_backend(settings: Settings) -> Backend:
    """The local backend in its home."""
    if sys.platform == "win32":
        hint = "Use it in WSL, or on Linux or macOS."
        raise CapabilityError("the local backend does not run on Windows", code="NotSupported", hint=hint)
    from batchai_magics.backends.local.backend import LocalBackend
    from batchai_magics.launch.job_bounds import JobBounds

    local_settings = settings.for_backend(LocalSettings)
    return LocalBackend(local_settings, JobBounds.of(settings), pass_env=settings.pass_env)


def default_vm_size(settings: Settings) -> str:
    """The VM size of the default cluster: unless one is set, it has as many GPUs as a node gets."""
    from batchai_magics.backends.local import machine_devices

    devices = machine_devices.machine()
    is_set = settings.cluster_vm_size != type(settings).cluster_vm_size
    return settings.cluster_vm_size if is_set or not devices.gpus else devices.vm_size(settings.cluster_nodes)


def host_note(settings: Settings, job: JobSpec) -> str:
    """What to tell the user of a job whose image nothing here runs; see `Backend.host_note`."""
    return open_backend(settings).host_note(job)


def shares_folders(settings: Settings) -> bool:
    """Nodes are folders of this machine."""
    return True
