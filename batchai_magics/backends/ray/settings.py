"""Settings of the Ray backend; imports neither the models nor the backend."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from batchai_magics.config import default_home, setting
from batchai_magics.errors import UsageError


@dataclass(frozen=True)
class RaySettings:
    """The settings of the Ray backend."""

    home: Path = field(
        default_factory=partial(default_home, "ray"),
        metadata={"help": "a folder for state, shares and logs, best one that all nodes share"},
    )
    address: str = setting(
        "", "the Ray cluster, as HOST:PORT; RAY_ADDRESS, or the one that this machine is a node of when empty"
    )
    ray_python: str = setting("", "the Python here that has Ray; the one that submits the job when empty")
    python: str = setting("", "the Python of the ranks; the one that submits the job when empty")
    cpus: int = setting(
        0, "CPUs that a job takes of each node; 0: all, or as large a part as of its GPUs", may_be_zero=True
    )
    core_quota: int = setting(1000, "total number of cores of all clusters")
    disk_grace_s: float = setting(60.0, "seconds that a job on a full disk waits for room")

    def check(self) -> None:
        """Raises a UsageError for an invalid setting."""
        address = self.address or os.environ.get("RAY_ADDRESS", "")
        if "://" in address or address == "local":  # another protocol, or a Ray of its own
            where = "setting ray.address" if self.address else "RAY_ADDRESS"
            hint = "Submit from a node of the cluster (KubeRay: one of its pods), and name it as HOST:PORT."
            raise UsageError(f"{where}: {address!r} is not the HOST:PORT of a Ray cluster", hint=hint)
        if self.cpus < 0:
            raise UsageError(
                f"setting ray.cpus: {self.cpus} is not a number of CPUs", hint="0 is all of a node."
            )
