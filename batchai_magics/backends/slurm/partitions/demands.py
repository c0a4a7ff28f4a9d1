"""What options ask of a partition that it does not have: told by name before anything is submitted. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from batchai_magics.backends.slurm.understand import NodeLine, minutes
from batchai_magics.errors import Problem, did_you_mean
from batchai_magics.models.slurm_options import slurm_values

_UNITS = {unit: 1024**power for power, unit in enumerate("KMGTP", start=1)}
_FEATURE = re.compile(r"[A-Za-z_][\w.:=-]*")
_GRES = re.compile(
    r"(?P<name>\w+)(?::(?P<kind>[A-Za-z_][\w.-]*))?(?::(?P<count>\d+)(?P<unit>[KMGTP]?))?(?::no_consume)?"
    r"(?:\([^)]*\))?",
    re.IGNORECASE,
)


def problems(
    words: Sequence[str], lines: Sequence[NodeLine], node_count: int, *, field: str
) -> list[Problem]:
    """What no node of a partition can give; `field` is where the options stand."""
    values, name = slurm_values(words), lines[0].partition
    found = [*_features(values, lines), *_gres(values, lines), *_time(values, lines)]
    shown = [Problem(field, text.format(partition=name), fix) for text, fix in found]
    most = _most_nodes(lines[0].job_size)
    if most is not None and node_count > most:
        text = f"the partition {name} gives a job {most} nodes at most, and {node_count} are asked for"
        shown.append(Problem("properties.nodeCount", text, "Ask for fewer, or use another partition."))
    return shown


def _features(values: Mapping[str, str], lines: Sequence[NodeLine]) -> Iterator[tuple[str, str]]:
    """Each feature of `--constraint`, whatever it is joined with, that no node has."""
    known = sorted({each for line in lines for each in _listed(line.features)})
    expression = re.sub(r"\*\d+", "", values.get("constraint", ""))  # `[rack1*2&rack2*4]`: counts
    asked = dict.fromkeys(_FEATURE.findall(expression))
    if "|" in expression and not asked.keys().isdisjoint(known):
        return  # one of them will do
    for feature in asked:
        if feature not in known:
            guess = did_you_mean(feature, known) or _known("features", known)
            yield f"--constraint: no node of the partition {{partition}} has the feature {feature}", guess


def _gres(values: Mapping[str, str], lines: Sequence[NodeLine]) -> Iterator[tuple[str, str]]:
    """Each resource of `--gres` and its like that no single node has enough of."""
    known = sorted({each for line in lines for each in _listed(line.gres)})
    for option, prefix in (("gres", ""), ("gpus-per-node", "gpu:"), ("gpus-per-task", "gpu:")):
        for asked in _listed(values.get(option, "").replace("gres/", "").replace("gres:", "")):
            wanted = _GRES.fullmatch(f"{prefix}{asked}")
            if wanted and not any(_has(line, wanted) for line in lines):
                text = f"--{option}: no node of the partition {{partition}} has {asked}"
                yield text, _known("generic resources", known)


def _has(line: NodeLine, wanted: re.Match[str]) -> bool:
    """Whether a node has as many of a resource as are wanted of it."""
    found = [match for each in _listed(line.gres) if (match := _GRES.fullmatch(each))]
    counts = [
        _count(each)
        for each in found
        if each["name"] == wanted["name"] and wanted["kind"] in (None, each["kind"])
    ]
    return _count(wanted) <= sum(counts)


def _count(match: re.Match[str]) -> int:
    unit: int = _UNITS.get((match["unit"] or "").upper(), 1)
    return int(match["count"] or 1) * unit


def _time(values: Mapping[str, str], lines: Sequence[NodeLine]) -> Iterator[tuple[str, str]]:
    limit, asked = minutes(lines[0].limit), _asked_minutes(values.get("time", ""))
    if limit is not None and asked is not None and asked > limit:
        yield f"--time: the partition {{partition}} gives a job {lines[0].limit} at most", "Ask for less."


def _asked_minutes(text: str) -> int | None:
    """The minutes of `--time`, which may be a mere number of them, or `days-hours`."""
    if text.isdigit():
        return int(text)
    days = re.fullmatch(r"(\d+)-(\d+)", text)
    if days:
        return (int(days[1]) * 24 + int(days[2])) * 60
    hours = re.fullmatch(r"(\d+)-(\d+):(\d+)", text)
    return minutes(f"{text}:00" if hours else text)


def _listed(text: str) -> list[str]:
    """The entries of a list of sinfo's. Commas in brackets divide nothing; `(null)` is no entry."""
    entries = re.split(r",(?![^()\[\]]*[)\]])", text)
    return [each.strip() for each in entries if each.strip() not in ("", "(null)", "N/A", "none")]


def _most_nodes(job_size: str) -> int | None:
    """The greater number in `1-4`; None where there is none."""
    match = re.fullmatch(r"\d+-(\d+)", job_size) or re.fullmatch(r"(\d+)", job_size)
    return int(match[1]) if match else None


def _known(what: str, names: Sequence[str]) -> str:
    return f"Its {what}: {', '.join(names) or 'none'}."
