"""Clusters that grow and shrink with the queue: partitions whose nodes Slurm starts and stops. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from batchai_magics.backends.slurm.understand import NodeLine
from batchai_magics.errors import CapabilityError
from batchai_magics.models.cluster import ClusterSpec, ScaleSettings

_FIELD = "properties.scaleSettings.autoScale"
_FIXED = "Give the cluster a fixed number of nodes; nothing was written."
_PROGRAMS = ("ResumeProgram", "SuspendProgram")


def most_nodes(scale: ScaleSettings | None) -> int:
    """How many nodes a cluster may have at most."""
    if scale and scale.auto_scale:
        return scale.auto_scale.maximum_node_count
    return scale.manual.target_node_count if scale and scale.manual else 0


def is_auto(spec: ClusterSpec) -> bool:
    """Whether a cluster grows and shrinks by itself."""
    return bool(spec.scale_settings and spec.scale_settings.auto_scale)


def check(scale: ScaleSettings | None, partition: str, ask: Callable[[], Mapping[str, str]]) -> None:
    """Raises a CapabilityError for auto-scale that a partition cannot do. `ask` gives the configuration."""
    auto = scale.auto_scale if scale else None
    if auto is None:
        return
    told = ask()
    if any(told.get(name, "(null)") in ("", "(null)") for name in _PROGRAMS):
        reason = f"Slurm starts and stops no nodes here ({' and '.join(_PROGRAMS)} are not set)"
        raise _refusal(_FIELD, reason)
    if partition in told.get("SuspendExcParts", "").split(","):
        raise _refusal(_FIELD, f"Slurm never stops the nodes of the partition {partition} (SuspendExcParts)")
    for name in ("minimum_node_count", "initial_node_count"):
        if getattr(auto, name):
            field = f"{_FIELD}.{name.replace('_node_count', '')}NodeCount"
            raise _refusal(field, "Slurm starts nodes for jobs alone, and stops them when they are idle")


def asleep(spec: ClusterSpec, lines: Iterable[NodeLine]) -> set[str]:
    """The nodes that a cluster does not show: those asleep, where it grows and shrinks by itself."""
    return {line.name for line in lines if is_asleep(line)} if is_auto(spec) else set()


def is_asleep(line: NodeLine) -> bool:
    """Whether Slurm has stopped a node until a job needs it: nobody pays for it."""
    return "~" in line.state or line.state.lower().startswith("powered_down")


def _refusal(field: str, reason: str) -> CapabilityError:
    return CapabilityError(
        f"{field} is not supported by this partition: {reason}", code="NotSupported", hint=_FIXED
    )
