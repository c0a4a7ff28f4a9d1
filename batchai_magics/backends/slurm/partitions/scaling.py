"""Clusters that grow and shrink with the queue: partitions whose nodes Slurm starts and stops. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from batchai_magics.backends.service.runner import Scale
from batchai_magics.backends.slurm.understand import NodeLine
from batchai_magics.errors import CapabilityError

_FIELD = "properties.scaleSettings.autoScale"
_FIXED = "Give the cluster a fixed number of nodes; nothing was written."
_PROGRAMS = ("ResumeProgram", "SuspendProgram")


def check(scale: Scale, partition: str, ask: Callable[[], Mapping[str, str]]) -> None:
    """Raises a CapabilityError for auto-scale that a partition cannot do. `ask` gives the configuration."""
    if not scale.is_auto:
        return
    told = ask()
    if any(told.get(name, "(null)") in ("", "(null)") for name in _PROGRAMS):
        reason = f"Slurm starts and stops no nodes here ({' and '.join(_PROGRAMS)} are not set)"
        raise _refusal(_FIELD, reason)
    if partition in told.get("SuspendExcParts", "").split(","):
        raise _refusal(_FIELD, f"Slurm never stops the nodes of the partition {partition} (SuspendExcParts)")
    for name in ("minimum", "initial"):
        if getattr(scale, name):
            field = f"{_FIELD}.{name}NodeCount"
            raise _refusal(field, "Slurm starts nodes for jobs alone, and stops them when they are idle")


def asleep(scale: Scale, lines: Iterable[NodeLine]) -> set[str]:
    """The nodes that a cluster does not show: those asleep, where it grows and shrinks by itself."""
    return {line.name for line in lines if is_asleep(line)} if scale.is_auto else set()


def is_asleep(line: NodeLine) -> bool:
    """Whether Slurm has stopped a node until a job needs it: nobody pays for it."""
    return "~" in line.state or line.state.lower().startswith("powered_down")


def _refusal(field: str, reason: str) -> CapabilityError:
    return CapabilityError(
        f"{field} is not supported by this partition: {reason}", code="NotSupported", hint=_FIXED
    )
