"""What a job may know and no file may: it goes from who submits to the job's supervisor, memory to memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class JobSecrets:
    """The values of a job's secret variables, and the password of the registry that holds its image."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry_password: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.variables or self.registry_password)

    def to_message(self) -> dict[str, Any]:
        """What is written to the supervisor's standard input."""
        return {"variables": dict(self.variables), "registry_password": self.registry_password}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> JobSecrets:
        """The same, on the other side."""
        return cls(message["variables"], message["registry_password"])
