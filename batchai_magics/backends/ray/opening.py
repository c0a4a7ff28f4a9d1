"""Opens the Ray backend."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from batchai_magics.backends.ray.settings import RaySettings
from batchai_magics.errors import CapabilityError

if TYPE_CHECKING:
    from batchai_magics.backends.base import Backend
    from batchai_magics.config import Settings

IMPLEMENTED_IN = "batchai_magics.backends.ray.runner"
OWN_SETTINGS = RaySettings


def open_backend(settings: Settings) -> Backend:
    """Opens the Ray backend in its home."""
    ray_settings = settings.for_backend(RaySettings)
    if sys.platform != "linux":
        hint = "Use it on a node of the cluster."
        raise CapabilityError("the ray backend runs on Linux alone", code="NotSupported", hint=hint)
    from batchai_magics.backends.ray.runner import RayBackend
    from batchai_magics.launch.job_bounds import JobBounds

    ray_settings.check()
    return RayBackend(ray_settings, JobBounds.of(settings), pass_env=settings.pass_env)


def check_choice(settings: Settings) -> str:
    """Connects to the cluster: see `RayGateway.connect`."""
    from batchai_magics.backends.ray.runner import RayBackend

    ray_settings = settings.for_backend(RaySettings)
    ray_settings.check()
    backend = RayBackend(ray_settings)
    try:
        nodes = backend.runner.gateway.nodes()
    finally:
        backend.close()
    return f"Ray has {len(nodes)} node{'s' * (len(nodes) != 1)}."


def shares_folders(settings: Settings) -> bool:
    """Nodes see the home, and probably the other folders of this machine."""
    return True
