"""What the local backend cannot do yet, refused by the field's name before anything is written."""

from __future__ import annotations

from batchai_magics.backends.base import Spec
from batchai_magics.errors import CapabilityError
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.job import JobSpec
from batchai_magics.models.storage import MountVolumes
from batchai_magics.models.vm_sizes import lookup


def check(spec: Spec) -> None:
    """Raises a CapabilityError that names the first field this backend cannot honour."""
    if isinstance(spec, ClusterSpec):
        lookup(spec.vm_size)
        setup = spec.node_setup
        _check_mounts("nodeSetup.mountVolumes", setup.mount_volumes if setup else None)
    elif isinstance(spec, JobSpec):
        source = spec.container_settings.image_source_registry if spec.container_settings else None
        _refuse("containerSettings.imageSourceRegistry.credentials", source and source.credentials)
        _refuse("secrets[].valueSecretReference", any(s.value_secret_reference for s in spec.secrets or ()))
        _check_mounts("mountVolumes", spec.mount_volumes)


def _check_mounts(path: str, volumes: MountVolumes | None) -> None:
    hint = "Mount it on this machine, and name its path in an input directory."
    _refuse(f"{path}.unmanagedFileSystems", volumes and volumes.unmanaged_file_systems, hint)


def _refuse(path: str, value: object, hint: str = "Leave it out; nothing was written.") -> None:
    if value:
        raise CapabilityError(
            f"properties.{path} is not supported by the local backend",
            code="NotSupported",
            hint=hint,
        )
