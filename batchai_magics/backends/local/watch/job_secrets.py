"""Secrets of jobs and setup tasks: passed from the submitter to the supervisor in memory, never to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # supervisors need this module, and start fast
    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.mount_volumes import SecretVariable


class JobSecrets(NamedTuple):
    """The values of a job's secret variables, and the password of the registry that holds its image."""

    variables: Mapping[str, str] = MappingProxyType({})
    registry_password: str = ""

    def __repr__(self) -> str:
        return "JobSecrets()"

    def __bool__(self) -> bool:
        return bool(self.variables or self.registry_password)

    def to_message(self) -> dict[str, Any]:
        """What is written to the supervisor's standard input."""
        return {"variables": dict(self.variables), "registry_password": self.registry_password}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> JobSecrets:
        """The secrets read from standard input."""
        return cls(message["variables"], message["registry_password"])

    @classmethod
    def of(cls, spec: JobSpec) -> JobSecrets:
        """The secrets of a job description."""
        source = spec.container_settings.image_source_registry if spec.container_settings else None
        password = source.credentials.password if source and source.credentials else None
        return cls(_values(spec.secrets), password.get_secret_value() if password else "")


class Secrets(NamedTuple):
    """Secrets of a resource that is being created."""

    jobs: Mapping[str, JobSecrets] = MappingProxyType({})  # by guid; none without secrets
    setup: Mapping[str, str] = MappingProxyType({})  # of a cluster's setup task

    def __repr__(self) -> str:
        return "Secrets()"

    @classmethod
    def of_job(cls, guid: str, spec: JobSpec) -> Secrets:
        """Secrets of a new job."""
        secrets = JobSecrets.of(spec)
        return cls(jobs={guid: secrets} if secrets else {})

    @classmethod
    def of_setup(cls, spec: ClusterSpec) -> Secrets:
        """Secrets of a new cluster's setup task."""
        task = spec.node_setup.setup_task if spec.node_setup else None
        return cls(setup=_values(task.secrets if task else None))


def _values(secrets: Sequence[SecretVariable] | None) -> dict[str, str]:
    """The values of secret variables, by name."""
    return {item.name: item.value.get_secret_value() for item in secrets or () if item.value is not None}
