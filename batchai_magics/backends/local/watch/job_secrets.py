"""Secrets of jobs and setup tasks: passed from the submitter to the supervisor in memory, never to a file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


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


class Secrets(NamedTuple):
    """Secrets of a resource that is being created."""

    jobs: Mapping[str, JobSecrets] = MappingProxyType({})  # by guid; none without secrets
    setup: Mapping[str, str] = MappingProxyType({})  # of a cluster's setup task

    def __repr__(self) -> str:
        return "Secrets()"
