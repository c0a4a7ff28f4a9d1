"""The names of jobs in Azure Machine Learning, where a name is unique in its workspace and never reused."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from batchai_magics.models.resource_ids import Kind, ResourceId

NAME, EXPERIMENT = "batchai_name", "batchai_experiment"  # among the properties of our jobs
SEGMENTS = "batchai"  # the folder of our runs in datastores, and of our files in code and logs
_HASH_LENGTH = 8


def run_name(job: ResourceId, generation: int = 1) -> str:
    """The name of a job's run: its own, and a hash of experiment and name.

    `generation` counts the jobs that had this name and were deleted, whose names stay taken.
    """
    digest = hashlib.sha256(f"{job.experiment}/{job.name}".lower().encode()).hexdigest()[:_HASH_LENGTH]
    name = job.name.lower()
    prefix = "" if name[0].isalnum() else "job"
    return f"{prefix}{name}-{digest}" + (f"-{generation}" if generation > 1 else "")


def job_id(workspace: ResourceId, data: Mapping[str, Any]) -> ResourceId:
    """The id of a job by its JSON: the one it was created with, else its name in its experiment."""
    properties = data.get("properties") or {}
    own = properties.get("properties") or {}
    experiment = str(own.get(EXPERIMENT) or properties.get("experimentName") or "Default")
    name = str(own.get(NAME) or data.get("name"))
    return workspace.child(Kind.EXPERIMENT, experiment).child(Kind.JOB, name)
