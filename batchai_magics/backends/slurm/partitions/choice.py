"""Which of a partition's nodes a cluster gets, and which of them it shows. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from batchai_magics.backends.slurm.understand import NodeLine, node_state
from batchai_magics.errors import ConflictError, Problem, SpecError, did_you_mean
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.states import NodeState

_SHOWN_IDLE = (NodeState.IDLE, NodeState.PREPARING, NodeState.LEAVING)


def lines_of(partition: str, lines: Sequence[NodeLine]) -> list[NodeLine]:
    """The nodes of a partition, or of Slurm's default one; SpecError when there is no such."""
    found = [line for line in lines if line.partition == partition or (not partition and line.is_default)]
    if not found:
        raise _no_partition(partition, sorted({line.partition for line in lines}))
    return found


def chosen(lines: Sequence[NodeLine], own: Sequence[str], count: int, taken: Sequence[str]) -> list[str]:
    """So many nodes: `own` ones, then those that few others have; ConflictError when there are too few."""
    if count > len(lines):
        raise _too_large(lines, count)
    order = {
        line.name: (not line.is_usable, taken.count(line.name), place) for place, line in enumerate(lines)
    }
    free = sorted((name for name in order if name not in own), key=lambda name: order[name])
    return [*own, *free][:count]


def of_too_large(busy: Mapping[str, str], count: int) -> set[str]:
    """The nodes of runs that have more of them than a cluster is to have, where it has none of its own."""
    sizes = Counter(busy.values())
    return {name for name, run in busy.items() if sizes[run] > count}


def seen(lines: Mapping[str, NodeLine], busy: Collection[str], target: int) -> list[str]:
    """The nodes that a cluster shows that has none of its own.

    Those of its jobs, then idle ones, as many as it is to have, then all that jobs cannot get.
    """
    states = {name: node_state(line.state) for name, line in lines.items() if name not in busy}
    idle = [name for name, state in states.items() if state in _SHOWN_IDLE]
    unusable = [name for name, state in states.items() if state is NodeState.UNUSABLE]
    return [*[*busy, *idle][: max(target, len(busy))], *(unusable if target else [])]


def _no_partition(partition: str, known: Sequence[str]) -> SpecError:
    text = f"Slurm has no partition {partition!r}" if partition else "Slurm has no default partition"
    fix = did_you_mean(partition, known) or f"slurm.partition may be one of {', '.join(known) or 'none'}"
    return SpecError([Problem("properties.vmSize", text, fix)], what=ClusterSpec.what)


def _too_large(lines: Sequence[NodeLine], count: int) -> ConflictError:
    text = f"The partition {lines[0].partition} has {len(lines)} nodes, and {count} are asked for"
    return ConflictError(text, code="OperationNotAllowed", hint="Ask for fewer, or set slurm.partition.")
