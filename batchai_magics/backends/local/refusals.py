"""What the local backend cannot do yet, refused by the field's name before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.base import Spec
from batchai_magics.backends.node import containers
from batchai_magics.errors import CapabilityError, Problem, SpecError
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.job import JobSpec
from batchai_magics.models.vm_sizes import lookup

CREDENTIALS = "containerSettings.imageSourceRegistry.credentials"


def check(spec: Spec) -> None:
    """Raises an error that names what this machine cannot do with a description."""
    if isinstance(spec, ClusterSpec):
        lookup(spec.vm_size)
    elif isinstance(spec, JobSpec):
        _check_credentials(spec)


def _check_credentials(spec: JobSpec) -> None:
    source = spec.container_settings.image_source_registry if spec.container_settings else None
    credentials = source.credentials if source else None
    if credentials and not credentials.password:
        path = f"properties.{CREDENTIALS}.password"
        raise SpecError([Problem(path, "this field is required", "it is kept nowhere: give it each time")])


def check_engine(spec: JobSpec, engine: Sequence[str]) -> None:
    """Raises a CapabilityError for a private image where what runs containers cannot be signed in."""
    source = spec.container_settings.image_source_registry if spec.container_settings else None
    if source and engine and containers.is_apptainer(engine):
        _refuse(CREDENTIALS, source.credentials, "Docker and podman can pull private images.")


def _refuse(path: str, value: object, hint: str = "Leave it out; nothing was written.") -> None:
    if value:
        raise CapabilityError(
            f"properties.{path} is not supported by the local backend",
            code="NotSupported",
            hint=hint,
        )
