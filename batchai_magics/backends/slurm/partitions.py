"""Partitions: the nodes a cluster gets and shows, checks of options and of auto-scale. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from batchai_magics.backends.service.runner import Scale
from batchai_magics.backends.slurm.parse import NodeLine, minutes, node_state
from batchai_magics.backends.slurm.settings import slurm_values
from batchai_magics.errors import CapabilityError, ConflictError, Problem, SpecError, did_you_mean
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.states import NodeState

_SHOWN_IDLE = (NodeState.IDLE, NodeState.PREPARING, NodeState.LEAVING)


def lines_of(partition: str, lines: Sequence[NodeLine]) -> list[NodeLine]:
    """The nodes of a partition, or of Slurm's default one; SpecError if it does not exist."""
    of_partition = [
        line for line in lines if line.partition == partition or (not partition and line.is_default)
    ]
    if not of_partition:
        known = sorted({line.partition for line in lines})
        text = f"Slurm has no partition {partition!r}" if partition else "Slurm has no default partition"
        fix = did_you_mean(partition, known) or f"slurm.partition may be one of {', '.join(known) or 'none'}"
        raise SpecError([Problem("properties.vmSize", text, fix)], what=ClusterSpec.what)
    return of_partition


def choose_nodes(
    lines: Sequence[NodeLine], own: Sequence[str], count: int, taken: Sequence[str]
) -> list[str]:
    """Chooses `count` nodes: `own` ones first, then those shared with the fewest clusters.

    Raises ConflictError if the partition is too small.
    """
    if count > len(lines):
        text = f"The partition {lines[0].partition} has {len(lines)} nodes, but {count} were requested"
        raise ConflictError(text, code="OperationNotAllowed", hint="Ask for fewer, or set slurm.partition.")
    ranking = {
        line.name: (not line.is_usable, taken.count(line.name), place) for place, line in enumerate(lines)
    }
    free = sorted((name for name in ranking if name not in own), key=lambda name: ranking[name])
    return [*own, *free][:count]


def oversized_nodes(busy: Mapping[str, str], count: int) -> set[str]:
    """The nodes of runs larger than the cluster's target size, where it has no nodes of its own."""
    sizes = Counter(busy.values())
    return {name for name, run in busy.items() if sizes[run] > count}


def visible_nodes(lines: Mapping[str, NodeLine], busy: Collection[str], target: int) -> list[str]:
    """The nodes shown for a cluster without nodes of its own.

    Those of its jobs, then idle ones up to the target size, then all unusable ones.
    """
    states = {name: node_state(line.state) for name, line in lines.items() if name not in busy}
    idle = [name for name, state in states.items() if state in _SHOWN_IDLE]
    unusable = [name for name, state in states.items() if state is NodeState.UNUSABLE]
    return [*[*busy, *idle][: max(target, len(busy))], *(unusable if target else [])]


_UNITS = {unit: 1024**power for power, unit in enumerate("KMGTP", start=1)}
_FEATURE = re.compile(r"[A-Za-z_][\w.:=-]*")
_GRES = re.compile(
    r"(?P<name>\w+)(?::(?P<kind>[A-Za-z_][\w.-]*))?(?::(?P<count>\d+)(?P<unit>[KMGTP]?))?(?::no_consume)?"
    r"(?:\([^)]*\))?",
    re.IGNORECASE,
)


def option_problems(
    words: Sequence[str], lines: Sequence[NodeLine], node_count: int, *, field: str
) -> list[Problem]:
    """Options that no node of a partition can satisfy; `field` is where they were given."""
    values, name = slurm_values(words), lines[0].partition
    problems = [*_features(values, lines), *_gres(values, lines), *_time(values, lines)]
    shown = [Problem(field, text.format(partition=name), fix) for text, fix in problems]
    job_size = lines[0].job_size
    match = re.fullmatch(r"\d+-(\d+)", job_size) or re.fullmatch(r"(\d+)", job_size)
    most = int(match[1]) if match else None
    if most is not None and node_count > most:
        text = f"the partition {name} allows {most} nodes per job, but {node_count} were requested"
        shown.append(Problem("properties.nodeCount", text, "Ask for fewer, or use another partition."))
    return shown


def _features(values: Mapping[str, str], lines: Sequence[NodeLine]) -> Iterator[tuple[str, str]]:
    """Each feature in `--constraint` that no node has."""
    known = sorted({each for line in lines for each in _entries(line.features)})
    expression = re.sub(r"\*\d+", "", values.get("constraint", ""))  # remove counts: `[rack1*2&rack2*4]`
    asked = dict.fromkeys(_FEATURE.findall(expression))
    if "|" in expression and not asked.keys().isdisjoint(known):
        return  # any alternative suffices
    for feature in asked:
        if feature not in known:
            guess = did_you_mean(feature, known) or _known("features", known)
            yield f"--constraint: no node of the partition {{partition}} has the feature {feature}", guess


def _gres(values: Mapping[str, str], lines: Sequence[NodeLine]) -> Iterator[tuple[str, str]]:
    """Each resource of `--gres` and similar options that no single node has enough of."""
    known = sorted({each for line in lines for each in _entries(line.gres)})
    for option, prefix in (("gres", ""), ("gpus-per-node", "gpu:"), ("gpus-per-task", "gpu:")):
        for asked in _entries(values.get(option, "").replace("gres/", "").replace("gres:", "")):
            wanted = _GRES.fullmatch(f"{prefix}{asked}")
            if wanted and not any(_has_gres(line, wanted) for line in lines):
                text = f"--{option}: no node of the partition {{partition}} has {asked}"
                yield text, _known("generic resources", known)


def _has_gres(line: NodeLine, wanted: re.Match[str]) -> bool:
    """Whether a node has enough of a resource."""
    resources = [match for entry in _entries(line.gres) if (match := _GRES.fullmatch(entry))]
    counts = [
        _count(resource)
        for resource in resources
        if resource["name"] == wanted["name"] and wanted["kind"] in (None, resource["kind"])
    ]
    return _count(wanted) <= sum(counts)


def _count(match: re.Match[str]) -> int:
    unit: int = _UNITS.get((match["unit"] or "").upper(), 1)
    return int(match["count"] or 1) * unit


def _time(values: Mapping[str, str], lines: Sequence[NodeLine]) -> Iterator[tuple[str, str]]:
    limit, asked = minutes(lines[0].limit), _asked_minutes(values.get("time", ""))
    if limit is not None and asked is not None and asked > limit:
        yield f"--time: the partition {{partition}} allows jobs {lines[0].limit} at most", "Ask for less."


def _asked_minutes(text: str) -> int | None:
    """The minutes in `--time`, which may be a plain number of minutes or `days-hours`."""
    if text.isdigit():
        return int(text)
    days = re.fullmatch(r"(\d+)-(\d+)", text)
    if days:
        return (int(days[1]) * 24 + int(days[2])) * 60
    hours = re.fullmatch(r"(\d+)-(\d+):(\d+)", text)
    return minutes(f"{text}:00" if hours else text)


def _entries(text: str) -> list[str]:
    """Splits a list printed by sinfo. Commas in brackets do not separate; `(null)` counts as empty."""
    entries = re.split(r",(?![^()\[\]]*[)\]])", text)
    return [each.strip() for each in entries if each.strip() not in ("", "(null)", "N/A", "none")]


def _known(what: str, names: Sequence[str]) -> str:
    return f"Its {what}: {', '.join(names) or 'none'}."


_FIELD = "properties.scaleSettings.autoScale"
_FIXED = "Give the cluster a fixed number of nodes; nothing was written."
_PROGRAMS = ("ResumeProgram", "SuspendProgram")


def check_auto_scale(scale: Scale, partition: str, ask: Callable[[], Mapping[str, str]]) -> None:
    """Raises a CapabilityError for auto-scale that a partition does not support.

    `ask` returns Slurm's configuration.
    """
    if not scale.is_auto:
        return
    configuration = ask()
    if any(configuration.get(name, "(null)") in ("", "(null)") for name in _PROGRAMS):
        reason = f"Slurm starts and stops no nodes here ({' and '.join(_PROGRAMS)} are not set)"
        raise _unsupported(_FIELD, reason)
    if partition in configuration.get("SuspendExcParts", "").split(","):
        raise _unsupported(
            _FIELD, f"Slurm never stops the nodes of the partition {partition} (SuspendExcParts)"
        )
    for name in ("minimum", "initial"):
        if getattr(scale, name):
            field = f"{_FIELD}.{name}NodeCount"
            raise _unsupported(field, "Slurm starts nodes for jobs alone, and stops them when they are idle")


def sleeping_nodes(scale: Scale, lines: Iterable[NodeLine]) -> set[str]:
    """The nodes hidden by an auto-scaled cluster: those powered down."""
    return {line.name for line in lines if is_asleep(line)} if scale.is_auto else set()


def is_asleep(line: NodeLine) -> bool:
    """Whether a node is powered down until a job needs it, and costs nothing."""
    return "~" in line.state or line.state.lower().startswith("powered_down")


def _unsupported(field: str, reason: str) -> CapabilityError:
    return CapabilityError(
        f"{field} is not supported by this partition: {reason}", code="NotSupported", hint=_FIXED
    )
