"""The steps of a sweep: creates missing jobs, retries failed ones, stops after too many quick failures.

A step is idempotent; if two processes take the same one, the creation of a job under its name decides.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from batchai_magics.backends.base import RECORDS, Backend, JobNeeds, NewJob
from batchai_magics.cell import CellRequest
from batchai_magics.cell.cell_options import TPE
from batchai_magics.cell.search_space import SearchSpace
from batchai_magics.cell.sweep_request import with_parameters, with_values
from batchai_magics.errors import ConflictError, NotFoundError, ServiceError
from batchai_magics.jobs.submit import new_job
from batchai_magics.jobs.sweeps.optuna_study import Study
from batchai_magics.jobs.sweeps.sweep_definition import STOPPED, SweepDefinition, SweepFiles, template_of
from batchai_magics.jobs.sweeps.trial import Trial, is_max
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.runs.labels import SWEEP, LabelChange, Labels, Parameter, bounded
from batchai_magics.models.secret_masking import without_secrets
from batchai_magics.records.record_files import LABELS, TRIAL
from batchai_magics.records.trial_record import PRUNED, TrialRecord, trial_name
from batchai_magics.untrusted_files import parse_json

if TYPE_CHECKING:
    from batchai_magics.jobs.sweeps.trial import TrialResult

FORBIDDEN = "AuthorizationFailed"  # the error code for a resource of another user
MAX_QUICK_FAILURES = 5  # in a row; then the sweep stops itself
QUICK_S = 60.0  # a failure within this time of its start is a quick one


class SteppedSweep(Protocol):
    """The part of a sweep that a step needs."""

    backend: Backend
    experiment: ResourceId
    files: SweepFiles
    owner: str

    def result(self, trial: Trial) -> TrialResult:
        """The metric of a trial so far."""


def take(sweep: SteppedSweep, definition: SweepDefinition, trials: Sequence[Trial]) -> bool:
    """Takes the next step of a sweep; False if nothing is to be done, or the sweep is another user's."""
    try:
        return _take(sweep, definition, trials)
    except ServiceError as error:
        if error.code != FORBIDDEN:
            raise
        return False


def check_rights(sweep: SteppedSweep, trials: Iterable[Trial]) -> None:
    """Raises the backend's error for another user's sweep, whose definition anyone may write.

    It makes an empty change of a trial's labels, which is refused like any other.
    """
    job = next((trial.runs[-1].id for trial in trials if trial.runs), None)
    if job and sweep.backend.records and not sweep.backend.ownership:  # with it, this is the server itself
        sweep.backend.records.relabel(job, LabelChange())


def _take(sweep: SteppedSweep, definition: SweepDefinition, trials: Sequence[Trial]) -> bool:
    if definition.ended:
        return _end_waiting(sweep, trials) if definition.ended == STOPPED else False
    failures = quick_failures(trials, definition.since)
    is_over = all(trial.ended_at for trial in trials)
    note = failure_note(failures) if len(failures) >= MAX_QUICK_FAILURES and not is_over else ""
    if definition.options.retries or not is_over:  # no later trial would start either
        latest = [trial.runs[-1] for trial in trials if trial.runs]
        note = next((why for run in latest if (why := run.lost_predecessor)), note)
    if note:
        check_rights(sweep, trials)
        sweep.files.write(ended_definition(definition, STOPPED, note))
        _end_waiting(sweep, trials)
        return True
    pruned = _prune(sweep, definition, trials) if definition.options.prune else False
    due = _due_jobs(definition, trials)
    due += _suggested(sweep, definition, trials) if definition.options.search == TPE else []
    if not due:
        return pruned
    check_rights(sweep, trials)
    template = template_of(definition, os.environ)
    if template is None:  # this process lacks a secret, or the cell
        return pruned
    create(sweep, [new_job_of(sweep, definition, template, due_job) for due_job in due])
    return True


def _due_jobs(definition: SweepDefinition, trials: Sequence[Trial]) -> list[Due]:
    """The jobs of known trials that are due: first those that were never created, then retries."""
    known = definition.trials  # the submission may have been interrupted before it created all jobs
    missing = [trial for trial in trials if not trial.runs and trial.number <= len(known)]
    failed = [trial for trial in trials if trial.has_failed and definition.repeats(len(trial.runs))]
    return [
        *((trial.number, 1, known[trial.number - 1]) for trial in missing),
        *((trial.number, len(trial.runs) + 1, trial.parameters) for trial in failed),
    ]


def ended_definition(definition: SweepDefinition, why: str, note: str) -> SweepDefinition:
    """The definition of a sweep that starts no further trial."""
    return replace(definition, ended=why, note=note)


def terminate(backend: Backend, trials: Iterable[Trial]) -> None:
    """Terminates the jobs of trials; deleted ones are left out.

    Queued ones, the last, end first, so that none gets the nodes of one that ends.
    """
    backend.terminate_jobs([trial.runs[-1].id for trial in trials][::-1])


def quick_failures(trials: Sequence[Trial], since: float) -> list[Trial]:
    """The trials that ended last, back to the first that did not fail within `QUICK_S` of its start."""
    ends = [(trial.ended_at.timestamp(), trial) for trial in trials if trial.ended_at]
    failures = []
    for ended_at, trial in sorted(ends, key=itemgetter(0), reverse=True):
        if ended_at < since:
            break
        if not trial.has_failed or trial.duration_s > QUICK_S:
            break
        failures.append(trial)
    return failures


def failure_note(failures: Sequence[Trial]) -> str:
    """Why a sweep stopped: how many trials failed, and where, if most of them share a node."""
    count, first = len(failures), failures[0]
    text = f"{count} trials in a row failed within {QUICK_S:g} s of their start, the last one {first.name}"
    ranks = [trial.runs[-1].ranks for trial in failures]
    nodes = Counter(node for exits in ranks for node in {rank.node for rank in exits} if node)
    name, shared = nodes.most_common(1)[0] if nodes else ("", 0)
    if len(nodes) == 1:
        return f"{text}; all of them on node {name}, which may be broken"
    if shared > count // 2 and len(nodes) > 1 and shared >= count - 1:
        return f"{text}; {shared} of them on node {name}, which may be broken"
    return text


Due = tuple[int, int, Mapping[str, Parameter]]  # the numbers of a trial and of its run, its parameters


def new_job_of(
    sweep: SteppedSweep, definition: SweepDefinition, template: CellRequest, due: Due
) -> tuple[NewJob, Mapping[str, bytes]]:
    """The job of a trial's run, and the files that it needs on the share."""
    number, run, parameters = due
    request, name = with_parameters(template, parameters), trial_name(definition.name, number, run)
    base = Labels.from_json(parse_json(template.records.get(LABELS, "{}")))
    values = without_secrets(bounded({**parameters, **with_values(base.parameters, parameters)}))
    labels = Labels((*base.tags, f"{SWEEP}{definition.name}"), parameters=values, patterns=base.patterns)
    record = record_of(definition, number, sweep.files.share)
    records = {**request.records, LABELS: labels.to_text(), TRIAL: record.to_text()}
    return new_job(replace(request, records=records), name, sweep.owner), request.uploads


def record_of(definition: SweepDefinition, number: int, share: str) -> TrialRecord:
    """The record of a trial of this sweep."""
    has_steps = definition.options.search == TPE or definition.options.retries or definition.options.prune
    return TrialRecord(
        definition.name,
        number,
        parallel=definition.options.parallel,
        steps_on="end" if has_steps else "failure",
        share=share,
    )


def _suggested(sweep: SteppedSweep, definition: SweepDefinition, trials: Sequence[Trial]) -> Iterator[Due]:
    """The next trials that Optuna chooses, as many as may run beside the open ones."""
    submitted = [trial for trial in trials if trial.runs]
    free = [trial.number for trial in trials if not trial.runs and trial.number > len(definition.trials)]
    room = _parallel(sweep, definition) - sum(trial.is_open for trial in submitted)
    numbers = free[: max(0, room)]
    if numbers:
        chosen = _study(sweep, definition, submitted).next_trials(len(numbers))
        yield from ((number, 1, parameters) for number, parameters in zip(numbers, chosen, strict=True))


def _prune(sweep: SteppedSweep, definition: SweepDefinition, trials: Sequence[Trial]) -> bool:
    """Ends the running trials that are worse than the others; returns whether there were any."""
    submitted = [trial for trial in trials if trial.runs]
    if not any(trial.is_open and trial.runs[-1].execution for trial in submitted):
        return False
    are_pruned = _study(sweep, definition, submitted).are_pruned()
    pruned = [trial for trial, is_pruned in zip(submitted, are_pruned, strict=True) if is_pruned]
    for trial in pruned:
        with contextlib.suppress(NotFoundError):
            RECORDS.of(sweep.backend).relabel(trial.runs[-1].id, LabelChange(add=(PRUNED,)))
    terminate(sweep.backend, pruned)
    return bool(pruned)


def _study(sweep: SteppedSweep, definition: SweepDefinition, submitted: Sequence[Trial]) -> Study:
    """The sweep, as reported to Optuna."""
    results = [sweep.result(trial) for trial in submitted]
    space, options = definition.search_space or SearchSpace({}), definition.options
    rises = bool(is_max(results, options.goal))
    return Study(space, options.seed, rises, [*zip(submitted, results, strict=True)])


def _parallel(sweep: SteppedSweep, definition: SweepDefinition) -> int:
    """How many trials may be open at once: as configured, or as many as the cluster has nodes for."""
    spec = definition.template and definition.template["spec"]["properties"]
    if definition.options.parallel or not spec:
        return definition.options.parallel or 1
    cluster = sweep.backend.show(ResourceId.parse(spec["cluster"]["id"]))
    scale = cluster.spec.scale_settings if isinstance(cluster, Cluster) else None
    node_count = scale.auto_scale.maximum_node_count if scale and scale.auto_scale else 0
    node_count = scale.manual.target_node_count if scale and scale.manual else node_count
    return max(1, node_count // int(spec["nodeCount"]))


def create(sweep: SteppedSweep, new_jobs: Sequence[tuple[NewJob, Mapping[str, bytes]]]) -> tuple[str, ...]:
    """Creates jobs with their files on the share, except for those that another process created first.

    Returns:
        The backend's notes on the jobs, without duplicates.
    """
    jobs = [job for job, _ in new_jobs]
    files = {path: data for _, job_files in new_jobs for path, data in job_files.items()}
    if files:
        sweep.backend.ensure(JobNeeds(jobs[0].id, share=sweep.files.share, files=files))
    created: list[JobResource] = []
    try:
        created += sweep.backend.create_jobs(jobs)
    except ConflictError:
        for job in jobs:
            with contextlib.suppress(ConflictError):
                created += sweep.backend.create_jobs([job])
    return tuple(dict.fromkeys(note for job in created for note in job.notes))


def _end_waiting(sweep: SteppedSweep, trials: Sequence[Trial]) -> bool:
    """Terminates the trials that have not started; running ones continue."""
    waiting = [trial for trial in trials if trial.is_open and not trial.runs[-1].execution]
    terminate(sweep.backend, waiting)
    return bool(waiting)
