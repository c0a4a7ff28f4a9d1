"""What is known of this machine as an engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Capabilities
from batchai_magics.backends.local.state.run_status import LOOPBACK
from batchai_magics.backends.service.host_runs import HostRuns
from batchai_magics.backends.service.runner import EngineFacts, Site

if TYPE_CHECKING:
    from batchai_magics.backends.local.settings import LocalSettings
    from batchai_magics.models.cluster_spec import ClusterSpec

_CREDENTIALS = "properties.containerSettings.imageSourceRegistry.credentials"


class LocalFacts(EngineFacts):
    """What this machine offers to jobs."""

    capabilities = Capabilities(
        name="local",
        key_vault=False,
        logins=False,
        known_sizes=True,
        stop_conditions=True,
        notifications=True,
        custom_processes=True,
        restarts=True,
        shared_gpus=True,
        preflight=True,
    )
    has_node_commands = True
    prepares_nodes = True
    file_server_address = LOOPBACK

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self.host_runs = HostRuns(
            "no docker, podman or apptainer works here",
            "Install podman, docker or apptainer, or set local.container_command.",
            "local.host_preparation",
            settings.host_preparation,
        )

    @property
    def site(self) -> Site:
        """What a Plan needs to know of this machine."""
        from batchai_magics.backends.local.machine_devices import machine_site

        return machine_site(self._settings.disk_grace_s)

    def container_engine(self, *, has_credentials: bool) -> tuple[str, ...]:
        """The command that runs containers; CapabilityError for a private image that it cannot pull."""
        from batchai_magics.backends.node import containers
        from batchai_magics.errors import CapabilityError

        engine = containers.engine(self._settings.container_command)
        if has_credentials and engine and containers.is_daemonless(engine):
            text = f"{_CREDENTIALS} is not supported by the local backend"
            hint = "Docker and podman can pull private images."
            raise CapabilityError(text, code="NotSupported", hint=hint)
        return engine

    def has_uv(self) -> bool:
        """Whether `uv`, or the module of the `python` that jobs find, is on this machine."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        if shutil.which("uv", path=path):
            return True
        python = shutil.which("python", path=path) or sys.executable
        return subprocess.run([python, "-c", "import uv"], capture_output=True, check=False).returncode == 0

    def notes_of_cluster(self, spec: ClusterSpec) -> tuple[str, ...]:
        """A sentence about the actual hardware of its nodes if it differs from their VM size."""
        from batchai_magics.backends.local import machine_devices

        return machine_devices.hardware_notes(spec, machine_devices.machine())
