"""The limits of Azure Machine Learning, checked before anything is sent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchai_magics.backends.azureml.settings import SPOT
from batchai_magics.errors import Problem, SpecError
from batchai_magics.models.cluster_spec import ClusterSpec, ScaleSettings
from batchai_magics.models.job_spec import JobPriority, JobSpec
from batchai_magics.models.wire_times import duration

LONGEST_VARIABLE = 100_000  # characters: a program cannot be started with many more
_DAY_S = 86_400
_MAX_DAYS, _MAX_SPOT_DAYS = 21, 7
_CLUSTER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{2,31}")


def is_spot(job: JobSpec) -> bool:
    """Whether a job without a cluster asks for low-priority nodes."""
    return SPOT.name in job.backend_options or job.scheduling_priority is JobPriority.LOW


def max_lifetime_s(*, is_spot: bool) -> int:
    """How long a job may run: the service ends it then, on low-priority nodes earlier."""
    return _DAY_S * (_MAX_SPOT_DAYS if is_spot else _MAX_DAYS)


def check_lifetime(job: JobSpec, *, is_spot: bool) -> None:
    """Raises a SpecError for a job that may run longer than its nodes let it."""
    limit_s = max_lifetime_s(is_spot=is_spot)
    if duration(job.constraints.max_wall_clock_time).total_seconds() > limit_s:
        nodes = "low-priority nodes" if is_spot else "this service"
        text = f"a job on {nodes} runs for at most {limit_s // _DAY_S} days"
        field = "properties.constraints.maxWallClockTime"
        raise SpecError([Problem(field, text, "give less, and save checkpoints")], what=job.what)


def check_variables(job: JobSpec) -> None:
    """Raises a SpecError that names each variable that is too long for a program to be started with."""
    problems = list(_long_variables(job))
    if problems:
        raise SpecError(problems, what=job.what)


def _long_variables(job: JobSpec) -> Iterator[Problem]:
    plain = {item.name: len(item.value) for item in job.environment_variables or ()}
    secret = {
        item.name: len(item.value.get_secret_value() if item.value else "") for item in job.secrets or ()
    }
    for key, lengths in (("environmentVariables", plain), ("secrets", secret)):
        for name, length in lengths.items():
            if length > LONGEST_VARIABLE:
                text = f"{name} has {length:,} characters, more than {LONGEST_VARIABLE:,}"
                yield Problem(f"properties.{key}", text, "put long texts into files")


def check_cluster_name(name: str) -> None:
    """Raises a SpecError for a name that no cluster can have."""
    if not _CLUSTER_NAME.fullmatch(name):
        text = f"{name!r} is no name of a cluster on Azure Machine Learning"
        fix = "3 to 32 letters, digits and hyphens, beginning with a letter"
        raise SpecError([Problem("name", text, fix)], what=ClusterSpec.what)


def check_scale(scale: ScaleSettings | None) -> None:
    """Raises a SpecError for a cluster that could never have a node."""
    if scale is None:
        return
    manual, automatic = scale.manual, scale.auto_scale
    most = manual.target_node_count if manual else automatic.maximum_node_count if automatic else 1
    if most < 1:
        field = "manual.targetNodeCount" if manual else "autoScale.maximumNodeCount"
        fix = "for nodes that come with jobs and leave after them, scale automatically: --min 0 --max 4"
        text = "a cluster must be able to have at least one node"
        raise SpecError([Problem(f"properties.scaleSettings.{field}", text, fix)], what=ClusterSpec.what)
