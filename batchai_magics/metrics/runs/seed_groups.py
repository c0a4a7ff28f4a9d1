"""Runs that differ in their seed alone: their mean, their spread, and whether a difference exceeds it."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from batchai_magics.metrics.runs.metric_summary import number_text
from batchai_magics.models.runs.labels import Parameter

SEED = "seed"  # the parameter
MAX_SENTENCES = 20
_COLUMNS = ("seeds", "mean", "spread", "verdict", "series")
ENOUGH = 3  # seeds of each group, below which no difference is stated
WITHIN, BEYOND, TOO_FEW = (
    "within the spread of seeds",
    "beyond the spread of seeds",
    f"fewer than {ENOUGH} seeds",
)


class SeededRun(NamedTuple):
    """A run with the value that stands for it; `series` names what it belongs to besides, such as a sweep."""

    parameters: Mapping[str, Parameter]
    value: float | None
    series: str = ""


@dataclass(frozen=True)
class SeedGroup:
    """Runs whose parameters are the same but for the seed.

    Attributes:
        name: The parameters in which the groups differ: `lr=0.1 batch=32`, behind what they belong to.
        series: What they belong to.
        parameters: All of them, without the seed.
        values: The value of each run, by its index; without those that have none.
    """

    name: str
    series: str
    parameters: Mapping[str, Parameter]
    values: Mapping[int, float]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.values.values())

    @property
    def spread(self) -> float | None:
        """The sample standard deviation over seeds; None for a single one."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None


@dataclass(frozen=True)
class SeedGroups:
    """The groups of several runs, in their order.

    Attributes:
        metric: The metric that is compared.
        groups: Those with a value.
        reference: The index of the group that the others are compared with; None if no direction is better.
        word: What the reference is: `best` or `baseline`.
    """

    metric: str = ""
    groups: Sequence[SeedGroup] = ()
    reference: int | None = None
    word: str = field(default="best")

    def verdict(self, index: int) -> str:
        """Whether a group differs from the reference by more than the seeds of both do.

        The difference of the means is compared with the standard deviation that the difference of two single
        runs has.
        """
        if self.reference is None:
            return ""
        if index == self.reference:
            return self.word
        group, reference = self.groups[index], self.groups[self.reference]
        if min(len(group.values), len(reference.values)) < ENOUGH:
            return TOO_FEW
        is_within = abs(group.mean - reference.mean) <= math.hypot(group.spread or 0, reference.spread or 0)
        return WITHIN if is_within else BEYOND

    def rows(self) -> list[dict[str, Any]]:
        """One dict per group: its parameters, `seeds`, `mean`, `spread`, `verdict`, and its `series` if any.

        A parameter with one of these names is under `--mean` and so on.
        """
        return [
            {
                **{
                    f"--{name}" if name in _COLUMNS else name: value
                    for name, value in group.parameters.items()
                },
                **({"series": group.series} if group.series else {}),
                "seeds": len(group.values),
                "mean": group.mean,
                "spread": group.spread,
                "verdict": self.verdict(index),
            }
            for index, group in enumerate(self.groups)
        ]

    def sentences(self) -> list[str]:
        """One sentence per group: `lr=0.1: accuracy 0.91 ± 0.02 over 3 seeds, the best`."""
        sentences = []
        for index, group in enumerate(self.groups[:MAX_SENTENCES]):
            spread = "" if group.spread is None else f" ± {number_text(group.spread)}"
            seeds = f"{len(group.values)} seed{'s' * (len(group.values) > 1)}"
            verdict = self.verdict(index)
            if self.reference is not None and verdict in (WITHIN, BEYOND):
                verdict = f"{verdict} of the {self.word}"
            verdict = f"the {verdict}" if index == self.reference else verdict
            head = f"{group.name}: " if group.name else ""
            figures = f"{self.metric} {number_text(group.mean)}{spread} over {seeds}"
            sentences.append(f"{head}{figures}{verdict and f', {verdict}'}")
        rest = len(self.groups) - len(sentences)
        return [*sentences, f"and {rest} more groups"] if rest > 0 else sentences


def seed_groups(
    runs: Iterable[SeededRun], metric: str, *, rises: bool | None, baseline: int | None = None
) -> SeedGroups:
    """The groups of the runs that have a seed.

    Args:
        runs: The runs.
        metric: The metric that their values are of.
        rises: Whether greater values are better; None if unknown.
        baseline: The index of the run whose group the others are compared with, instead of the best one.
    """
    firsts, values = dict[tuple[object, ...], SeededRun](), dict[tuple[object, ...], dict[int, float]]()
    for index, run in enumerate(runs):
        if SEED in run.parameters and run.value is not None and math.isfinite(run.value):
            key = run.series, *sorted((name, repr(value)) for name, value in _unseeded(run).items())
            firsts.setdefault(key, run)
            values.setdefault(key, {})[index] = run.value
    name_of = _naming([*firsts.values()])
    groups = [
        SeedGroup(name_of(first), first.series, _unseeded(first), values[key])
        for key, first in firsts.items()
    ]
    if baseline is not None:
        reference = next((i for i, group in enumerate(groups) if baseline in group.values), None)
        return SeedGroups(metric, groups, reference, "baseline")
    if rises is None or not groups:
        return SeedGroups(metric, groups)
    choose = max if rises else min
    return SeedGroups(metric, groups, choose(range(len(groups)), key=lambda index: groups[index].mean))


def _unseeded(run: SeededRun) -> dict[str, Parameter]:
    return {name: value for name, value in run.parameters.items() if name != SEED}


def _naming(runs: Sequence[SeededRun]) -> Callable[[SeededRun], str]:
    """What names a group: the parameters that groups do not share, behind what it belongs to."""
    values_by_name: dict[str, set[str]] = {}
    for run in runs:
        for name, value in _unseeded(run).items():
            values_by_name.setdefault(name, set()).add(repr(value))
    counts = Counter(name for run in runs for name in run.parameters)
    varying = {name for name, values in values_by_name.items() if len(values) > 1 or counts[name] < len(runs)}
    has_series = len({run.series for run in runs}) > 1

    def name_of(run: SeededRun) -> str:
        values = [f"{name}={value}" for name, value in run.parameters.items() if name in varying]
        return " ".join([*[run.series] * has_series, *values])

    return name_of
