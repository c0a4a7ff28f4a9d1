"""Settings of the local backend; imports neither the models nor the backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from batchai_magics.config import default_home, setting


@dataclass(frozen=True)
class LocalSettings:
    """The settings of the local backend."""

    home: Path = field(
        default_factory=default_home,
        metadata={"help": "the folder of its state, shares and logs"},
    )
    core_quota: int = setting(1000, "total number of cores of all clusters")
    idle_s: int = setting(300, "seconds that a node of an auto-scale cluster may be idle")
    container_command: str = setting(
        "", "what runs containers, such as `podman --runtime runc`; found automatically when empty"
    )
    host_preparation: bool = setting(
        False, "run the preparation of a job here whose image nothing here can run"
    )
    max_running_jobs: int = setting(
        0, "jobs per user that may run at the same time; 0: any number", may_be_zero=True
    )
    max_queued_jobs: int = setting(0, "jobs per user that may be queued; 0: any number", may_be_zero=True)
    disk_grace_s: float = setting(60.0, "seconds that a job on a full disk waits for room")

    # BATCHAI_HOME and its like, from before backends had settings of their own.
    ALSO_GENERAL: ClassVar = (
        "home",
        "core_quota",
        "idle_s",
        "container_command",
        "host_preparation",
        "disk_grace_s",
    )
