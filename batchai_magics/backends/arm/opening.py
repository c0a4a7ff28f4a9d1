"""Opens the arm backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.backends.arm.settings import ArmSettings

if TYPE_CHECKING:
    from batchai_magics.backends.base import Backend
    from batchai_magics.config import Settings

IMPLEMENTED_IN = "batchai_magics.backends.arm.arm_backend"
OWN_SETTINGS = ArmSettings


def open_backend(settings: Settings) -> Backend:
    """The backend at the endpoint of the settings; sends no request yet."""
    from batchai_magics.backends.arm.arm_backend import ArmBackend
    from batchai_magics.backends.arm.endpoint import Endpoint

    return ArmBackend(Endpoint.of(settings.for_backend(ArmSettings)), settings)
