"""The inputs of a comparison: jobs, parsed logs and log files, each with a unique name."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from batchai_magics.errors import BatchAIError, CapabilityError, UsageError
from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.runs.log_metrics import LogMetrics, read_metrics
from batchai_magics.metrics.runs.metric_summary import MetricSummary
from batchai_magics.metrics.runs.metric_traits import (
    NO_PREFERENCES,
    MetricPreferences,
    MetricTraits,
    shared_traits,
)
from batchai_magics.metrics.runs.run_summary import Summary, summarize
from batchai_magics.models.runs.labels import BASELINE, Labels

NO_LABELS = Labels()


@runtime_checkable
class HasRecords(Protocol):
    """A job handle, or any other object with a name and records."""

    @property
    def name(self) -> str:
        """The name shown for the run."""

    def records(self) -> Sequence[Record]:
        """All records of its log so far, in file order."""


@runtime_checkable
class HasLabels(Protocol):
    """A job handle, or any other object with tags and parameters."""

    def labels(self) -> Labels:
        """Its labels."""


@runtime_checkable
class HasProcesses(Protocol):
    """A job handle, or any other object that knows its processes."""

    def process_count(self) -> int:
        """How many processes it has; 0 if unknown."""


Comparable: TypeAlias = HasRecords | LogMetrics | str | os.PathLike[str]
Comparables: TypeAlias = Iterable[Comparable] | Mapping[str, Comparable]


@dataclass(frozen=True)
class Run:
    """What a source's log tells; still growing if `is_running`.

    `processes` are those of its job; 0 if they are not known. `shared` are the metrics that it spells unlike
    the baseline or an earlier run, as those have them.
    """

    name: str
    records: Collection[Record]
    summary: Summary
    is_running: bool = False
    source: Comparable | None = field(default=None, repr=False, compare=False)
    labels: Labels = NO_LABELS
    processes: int = 0
    shared: Mapping[str, MetricTraits] = field(default_factory=dict)

    @property
    def process_count(self) -> int:
        """The number of its processes, from its log, or from the job if only rank 0 prints; 0 if unknown.

        While a job runs whose processes each print their own rate, those count that have printed it.
        """
        printed = self.summary.ranks
        is_partial = self.is_running and any(traits.is_summed for traits in self.summary.traits)
        return printed if printed > 1 or is_partial else max(printed, self.processes)

    @property
    def metrics(self) -> tuple[MetricSummary, ...]:
        """The figures of its metrics, under the names that the compared runs share."""
        return tuple(
            metric.renamed(self.shared[metric.name]) if metric.name in self.shared else metric
            for metric in self.summary.metrics
        )

    @property
    def traits(self) -> tuple[MetricTraits, ...]:
        """The traits of its metrics, under these names."""
        return tuple(map(self.shared_traits, self.summary.traits))

    def shared_traits(self, traits: MetricTraits) -> MetricTraits:
        """The traits of one of its metrics, under the name that the compared runs share."""
        return self.shared.get(traits.name, traits)

    @property
    def is_baseline(self) -> bool:
        """Whether others are compared with it, instead of with the first run."""
        return BASELINE in self.labels.tags


def read_runs(sources: Comparables, preferences: MetricPreferences = NO_PREFERENCES) -> tuple[Run, ...]:
    """Read the run of each source: a job handle, parsed metrics, or the path of a log.

    Args:
        sources: A list, or a mapping whose keys name the runs. In a list, a run is named after its job, or by
            the part of its path that distinguishes it.
        preferences: What the user has said of metrics.

    Raises:
        UsageError: There is no source, or one cannot be read.
    """
    if isinstance(sources, (str, bytes, os.PathLike, HasRecords, LogMetrics)):
        raise UsageError("one run alone cannot be compared", hint="Give a list of jobs or of log files.")
    listed = list(sources.values() if isinstance(sources, Mapping) else sources)
    if not listed:
        raise UsageError("there is no run to compare", hint="Give jobs or log files.")
    names = _unique([str(key) for key in sources]) if isinstance(sources, Mapping) else run_names(listed)
    runs = []
    for name, source in zip(names, listed, strict=True):
        # Checked before the log is read: the log of a job that has ended by then is complete.
        is_running = not getattr(source, "is_done", True)
        records = _records(source)
        summary = summarize(records, preferences=preferences)
        processes = _process_count(source, summary)
        runs.append(Run(name, records, summary, is_running, source, _labels(source), processes))
    return aligned(runs)


def aligned(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The runs with one name for each metric, in the spelling of the baseline, else of the first run."""
    order = sorted(runs, key=lambda run: not run.is_baseline)
    shared_by_order = shared_traits(run.summary.traits for run in order)
    by_run = {id(run): shared for run, shared in zip(order, shared_by_order, strict=True)}
    return tuple(replace(run, shared=by_run[id(run)]) for run in runs)


def run_names(sources: Sequence[Comparable]) -> list[str]:
    """The names of runs: their jobs' names, or the distinguishing parts of their log paths."""
    paths = [Path(source) for source in sources if isinstance(source, (str, os.PathLike))]
    names = []
    for number, source in enumerate(sources, 1):
        if isinstance(source, (str, os.PathLike)):
            names.append(_short(Path(source), paths))
        else:
            names.append(source.name if isinstance(source, HasRecords) else f"log {number}")
    return _unique(names)


def _process_count(source: Comparable, summary: Summary) -> int:
    """The number of a job's processes, for which it is asked only if its log tells of one at most; else 0."""
    if summary.ranks > 1 or summary.device_count or not isinstance(source, HasProcesses):
        return 0
    try:
        return source.process_count()
    except BatchAIError:  # the job was deleted, or the backend does not respond
        return 0


def _labels(source: Comparable) -> Labels:
    """The labels of a job; none of a log, or of a job whose backend keeps no records."""
    if not isinstance(source, HasLabels):
        return NO_LABELS
    try:
        return source.labels()
    except CapabilityError:
        return NO_LABELS


def _records(source: Comparable) -> Collection[Record]:
    if isinstance(source, LogMetrics):
        return source.table
    if isinstance(source, (str, os.PathLike)):
        return read_metrics(Path(source).expanduser()).table
    if isinstance(source, HasRecords):
        return source.records()
    raise UsageError(
        f"a run cannot be read from an object of type {type(source).__name__}",
        hint="Give a job, what read_metrics gave, or the path of a log file.",
    )


def _short(path: Path, others: Iterable[Path]) -> str:
    """The file name with as many parent folders as needed to distinguish it from the others."""
    rest = {_parts(other) for other in others if other != path}
    parts = _parts(path)
    count = 1
    while count < len(parts) and any(other[-count:] == parts[-count:] for other in rest):
        count += 1
    return "/".join(parts[-count:])


def _parts(path: Path) -> tuple[str, ...]:
    return path.with_suffix("").parts if path.name else path.absolute().parts


def _unique(names: Sequence[str]) -> list[str]:
    """Number repeated names."""
    counts: Counter[str] = Counter()
    result = []
    for name in names:
        counts[name] += 1
        result.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return result
