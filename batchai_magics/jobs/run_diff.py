"""How two runs differ: code, arguments, variables, git state, machines, packages and metrics."""

from __future__ import annotations

import difflib
import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from batchai_magics.errors import visible
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.run_selection import metrics_of
from batchai_magics.metrics.runs.metric_traits import shared_traits, traits_of
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.runs.labels import Labels
from batchai_magics.records.provenance import Provenance, git_text, variable_text
from batchai_magics.records.submission import upload_name

CONTEXT = 3  # unchanged lines around a change of the code
MAX_CODE = 500  # lines of the code's diff that are shown
METRICS = "metrics"
MISSING = "–"  # in the column of a run that lacks a value
SAME = "the same code, options, variables and packages"
_COMMAND_LINES = ("commandLineArgs", "CommandLineArgs", ".commandLine")  # of the toolkits' settings
_SCRIPT_FOLDER = "SCRIPT"  # an input directory whose path has a digest of the code


class Difference(NamedTuple):
    """A value that differs: empty for the run that lacks it."""

    section: str
    name: str
    first: str
    second: str
    change: str = ""  # of a number: +12.5 %


@dataclass(frozen=True, repr=False)
class RunDiff:
    """The differences of two runs, section by section."""

    names: tuple[str, str]  # the two runs
    code: tuple[str, ...]  # the lines of a unified diff of the code; empty if it is the same, or not recorded
    rows: tuple[Difference, ...]  # the other differences; of metrics, also equal values
    notes: tuple[str, ...] = ()  # sentences on what could not be compared, and why

    @property
    def is_different(self) -> bool:
        """Whether anything but the metrics differs."""
        return bool(self.code) or any(row.section != METRICS for row in self.rows)

    @property
    def shown_code(self) -> list[str]:
        """The first lines of the code's diff, and how many follow."""
        more_count = len(self.code) - MAX_CODE
        return [*self.code[:MAX_CODE], *([f"… and {more_count} more lines"] if more_count > 0 else [])]

    def __repr__(self) -> str:
        lines = [f"{self.names[0]} → {self.names[1]}"]
        lines += [f"  ! {note}" for note in self.notes]
        lines += map(visible, self.shown_code)
        for section, differences in groupby(self.rows, key=lambda row: row.section):
            rows = [
                [
                    visible(text)
                    for text in (row.name, row.first or MISSING, row.second or MISSING, row.change)
                ]
                for row in differences
            ]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines.append(f"{section}:")
            for cells in rows:
                padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
                lines.append(f"  {'  '.join(padded)}".rstrip())
        return "\n".join(lines if self.is_different else [*lines, SAME])


def diff_runs(first: Job, second: Job) -> RunDiff:
    """Compares two runs of any experiment.

    Raises:
        NotFoundError: One of them does not exist.
    """
    first_run, second_run = (_run_of(job) for job in (first, second))
    records = [first_run.provenance, second_run.provenance]
    notes = [f"{record.run} has no record of its code" for record in records if not record.submission]
    without = [record.run for record in records if not record.machines]
    is_comparable = len(without) != 1  # its first process records them, maybe after the end of a short run
    notes += [] if is_comparable else [f"{without[0]} has no record of its machines and packages so far"]
    code: list[str] = []
    if all(record.submission for record in records):
        before, after = (record.submission.code.text.splitlines() for record in records if record.submission)
        code = list(difflib.unified_diff(before, after, first.name, second.name, lineterm="", n=CONTEXT))
    rows = [
        *_differing("options", *(_options(run.spec, records) for run in (first_run, second_run))),
        *_differing("parameters", first_run.labels.parameters, second_run.labels.parameters),
        *_differing("submission", *map(_submission, records)),
        *_differing("variables", *map(_variables, records)),
    ]
    if is_comparable:
        rows += _differing("machines", *map(_machines, records))
        rows += _differing("packages", *map(_packages, records))
    rows += _metrics(first_run.metrics, second_run.metrics)
    return RunDiff((first.name, second.name), tuple(code), tuple(rows), tuple(notes))


class _Run(NamedTuple):
    """The facts about a run that are compared."""

    spec: JobSpec
    provenance: Provenance
    labels: Labels
    metrics: Mapping[str, float]


def _run_of(job: Job) -> _Run:
    resource = job.show()
    has_records = job.backend.records is not None
    labels = job.labels() if has_records else Labels()
    return _Run(
        resource.spec,
        job.provenance() if has_records else Provenance(job.name),
        labels,
        metrics_of(job.backend, resource, labels.patterns),
    )


def _differing(section: str, one: Mapping[str, object], two: Mapping[str, object]) -> Iterator[Difference]:
    for name in dict.fromkeys((*one, *two)):
        first, second = str(one.get(name, "")), str(two.get(name, ""))
        if first != second:
            if first.startswith("/subscriptions/") and second.startswith("/subscriptions/"):
                shared = len(os.path.commonpath([first, second])) + 1
                first, second = first[shared:], second[shared:]
            yield Difference(section, name, first, second)


def _options(spec: JobSpec, records: Sequence[Provenance]) -> dict[str, str]:
    """The values of the description by path, without the script's folder: the code itself is compared.

    If both runs have records, the command line of the program is left out, too: the records have it, with
    secrets masked.
    """
    body = spec.to_wire()["properties"]
    inputs = body.get("inputDirectories") or ()
    body["inputDirectories"] = [item for item in inputs if item["id"] != _SCRIPT_FOLDER]
    recorded = _COMMAND_LINES if all(record.submission for record in records) else ()
    return {name: text for name, text in _leaves(body, "") if not name.endswith(recorded)}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            name = item.get("name") or item.get("id") if isinstance(item, Mapping) else None
            yield from _leaves(item, f"{path}[{name or index}]")
    else:
        yield path, str(value)


def _submission(provenance: Provenance) -> dict[str, str]:
    record = provenance.submission
    if not record:
        return {}
    git, diff = record.git, record.git.diff if record.git else ""
    digest = hashlib.sha256(diff.encode()).hexdigest()
    return {
        "arguments": record.arguments,
        "git": git_text(git) if git else "",
        "uncommitted": f"{len(diff.splitlines())} lines, {digest[:8]}" if diff else "",
        **{f"upload {upload_name(path)}": digest for path, digest in record.uploads.items()},
        "Python of the submitter": record.python,
        "batchai_magics": record.package,
    }


def _variables(provenance: Provenance) -> dict[str, str]:
    record = provenance.submission
    return {name: variable_text(variable) for name, variable in record.variables.items()} if record else {}


def _machines(provenance: Provenance) -> dict[str, str]:
    """The properties of the machines, without their names, which differ between equal machines."""
    machines = provenance.machines
    return {
        "number": str(len(machines)),
        "processors": _distinct(machine.processor for machine in machines),
        "cores": _distinct(str(machine.cores) for machine in machines),
        "GPUs": _distinct(gpu for machine in machines for gpu in machine.gpus),
        "systems": _distinct(machine.system for machine in machines),
        "Python": _distinct(machine.python for machine in machines),
    }


def _packages(provenance: Provenance) -> dict[str, str]:
    versions_by_name: dict[str, dict[str, None]] = {}
    for machine in provenance.machines:
        for name, version in machine.packages.items():
            versions_by_name.setdefault(name, {})[version] = None
    return {name: ", ".join(versions) for name, versions in sorted(versions_by_name.items())}


def _metrics(one: Mapping[str, float], two: Mapping[str, float]) -> Iterator[Difference]:
    _, shared = shared_traits([map(traits_of, one), map(traits_of, two)])
    two = {shared[name].name if name in shared else name: value for name, value in two.items()}
    for name in dict.fromkeys((*one, *two)):
        first, second = one.get(name, math.nan), two.get(name, math.nan)
        one_text, two_text = ("" if math.isnan(value) else f"{value:.6g}" for value in (first, second))
        change = ""  # relative
        if math.isfinite(first) and math.isfinite(second) and first:
            percent = 100 * (second - first) / abs(first)
            change = f"{percent:+.1f} %" if abs(percent) >= 0.05 or not percent else f"{percent:+.1g} %"
        yield Difference(METRICS, name, one_text, two_text, change)


def _distinct(texts: Iterator[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, texts)))
