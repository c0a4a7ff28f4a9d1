"""Opens the arm backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.backends.arm.settings import ArmSettings

if TYPE_CHECKING:
    from batchai_magics.backends.base import Backend
    from batchai_magics.config import Settings
    from batchai_magics.models.job_spec import JobSpec

IMPLEMENTED_IN = "batchai_magics.backends.arm.arm_backend"
OWN_SETTINGS = ArmSettings


def open_backend(settings: Settings) -> Backend:
    """The backend at the endpoint of the settings; sends no request yet."""
    from batchai_magics.backends.arm.arm_backend import ArmBackend
    from batchai_magics.backends.arm.connection import Endpoint

    return ArmBackend(Endpoint.of(settings.for_backend(ArmSettings)), settings)


def host_note(settings: Settings, job: JobSpec) -> str:
    """The note of the server on a job whose image it cannot run; see `Backend.host_note`."""
    return open_backend(settings).host_note(job)
