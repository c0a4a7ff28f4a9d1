"""The jobs that a job starts after: `--after` and `--after-any` name jobs, sweeps or ids; a spec has ids."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.protocol import run_names
from batchai_magics.cell import CellRequest
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.jobs.sweeps.sweep_definition import SweepDefinition, SweepFiles
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name, of_kind
from batchai_magics.models.resources import JobResource, Resource
from batchai_magics.records.trial_record import sweep_of, trial_of

FIELDS = ("batchai_after", "batchai_after_any")  # of a spec
_SHOWN_TRIALS = 8  # in a hint


def with_predecessor_ids(backend: Backend, requests: Sequence[CellRequest], share: str) -> list[CellRequest]:
    """The requests with the ids of the jobs that they start after.

    A name means the latest run of that name, or all trials of the latest sweep of that name; `share` has the
    definitions of sweeps.

    Raises:
        UsageError: A job would start after itself, an id names no job, or a sweep may submit more.
        SpecError: A name is invalid.
    """
    known: dict[tuple[ResourceId, str], Sequence[str]] = {}  # the trials of a sweep name the same jobs

    def ids_of(request: CellRequest, texts: Sequence[str]) -> Iterator[str]:
        for text in texts:
            key = (request.id, text)
            if key not in known:
                known[key] = _ids_of(backend, request, text, share)
            yield from known[key]

    resolved = []
    for request in requests:
        named = {field: texts for field in FIELDS if (texts := getattr(request.spec, field))}
        ids = {field: tuple(dict.fromkeys(ids_of(request, texts))) for field, texts in named.items()}
        resolved.append(replace(request, spec=request.spec.model_copy(update=ids)))
    return resolved


def trial_ids(backend: Backend, experiment: ResourceId, sweep: SweepDefinition) -> list[ResourceId]:
    """The ids of a sweep's trials, each in its latest run.

    Raises:
        UsageError: The sweep may submit more trials.
    """
    trials = _latest_runs(backend.names(experiment, Kind.JOB, f"{sweep.name}-t"), sweep.name)
    _check_is_complete(backend, sweep, experiment, trials)
    return [experiment.child(Kind.JOB, name) for name in trials.values()]


def check_predecessors(
    backend: Backend, request: CellRequest, share: str, *, created_before: Collection[ResourceId] = ()
) -> None:
    """Checks, by reading only, that a job's predecessors exist, or are among those created before it.

    Raises:
        NotFoundError: A predecessor does not exist.
        UsageError: As for `with_predecessor_ids`.
        SpecError: A name is invalid.
    """
    (resolved,) = with_predecessor_ids(backend, [request], share)
    for id in map(ResourceId.parse, resolved.spec.predecessors):
        if any(id.key == created.key for created in created_before):
            continue
        try:
            backend.show(id)
        except NotFoundError as error:
            text = f"no job can start after {id.name} of experiment {id.experiment}: it does not exist"
            hint = error.hint if error.code == "JobNotFound" else ""  # else there is no experiment yet
            raise NotFoundError(text, code="JobNotFound", hint=hint) from None


def without_deleted(backend: Backend, spec: JobSpec) -> tuple[JobSpec, tuple[str, ...]]:
    """The spec of a job that is to run again, without predecessors that were deleted, and a note on these."""
    ids = {text: ResourceId.parse(text) for text in spec.predecessors}
    if not ids:
        return spec, ()
    known = backend.status([*ids.values()])
    deleted = {text: id.name for text, id in ids.items() if known.of(id) is None}
    if not deleted:
        return spec, ()
    remaining = {
        field: tuple(text for text in getattr(spec, field) or () if text not in deleted) for field in FIELDS
    }
    note = f"It does not wait for {', '.join(deleted.values())} any more: deleted."
    return spec.model_copy(update={field: texts or None for field, texts in remaining.items()}), (note,)


def resolution_note(requested: JobSpec, sent: JobSpec) -> str:
    """A sentence on names that were resolved to a later run or the trials of a sweep; else empty."""
    names = [id.rpartition("/")[2] for id in sent.predecessors]
    known = {name.lower() for name in names}
    later = [name for name in requested.predecessors if "/" not in name and name.lower() not in known]
    resolutions = []
    for name in later:
        sweep, trials = _trials_of_latest_sweep(names, name)
        if runs := run_names(names, name):
            resolutions.append(f"{runs[-1]}, the latest run of {name}")
        elif trials:
            which = sweep if sweep.lower() == name.lower() else f"{sweep}, the latest sweep {name}"
            resolutions.append(f"the {len(trials)} trials of {which}")
    return f"It starts after {' and '.join(resolutions)}." if resolutions else ""


def _ids_of(backend: Backend, request: CellRequest, text: str, share: str) -> list[str]:
    """The ids of the jobs that a name or an id refers to."""
    if "/" in text:
        return [str(of_kind(ResourceId.parse(text), Kind.JOB))]
    name, experiment = check_name(text, Kind.JOB), request.id.parent
    names: Sequence[str] = ()
    with contextlib.suppress(NotFoundError):  # there is no experiment yet; the backend refuses the job
        names = backend.names(experiment, Kind.JOB, name)
    runs = run_names(names, name)
    if name.lower() == request.name.lower():
        raise _own_name(request, [str(experiment.child(Kind.JOB, run)) for run in runs])
    trials, definition = {} if runs else _trials_of_latest_sweep(names, name)[1], None
    if trials and backend.storage:
        sweep = sweep_of(next(iter(trials.values())))
        with contextlib.suppress(NotFoundError):  # it is not a sweep: its jobs only have such names
            definition = SweepFiles(backend, share, experiment.name).read(sweep)
    if definition:
        _check_is_complete(backend, definition, experiment, trials)
        return [str(experiment.child(Kind.JOB, trial)) for trial in trials.values()]
    return [str(experiment.child(Kind.JOB, runs[-1] if runs else name))]


def _trials_of_latest_sweep(names: Sequence[str], name: str) -> tuple[str, dict[int, str]]:
    """The latest sweep of a name, and the latest runs of its trials by number, from the names of jobs."""
    sweeps = {sweep for job_name in names if (sweep := sweep_of(job_name))}
    latest = run_names(sorted(sweeps), name)
    if not latest:
        return name, {}
    return latest[-1], _latest_runs(names, latest[-1])


def _latest_runs(names: Sequence[str], sweep: str) -> dict[int, str]:
    """The latest runs of a sweep's trials by number."""
    runs = sorted((key, name) for name in names if (key := trial_of(name, sweep)))
    return {number: name for (number, _), name in runs}


def _check_is_complete(
    backend: Backend, sweep: SweepDefinition, experiment: ResourceId, trials: Mapping[int, str]
) -> None:
    """Raises UsageError if a sweep may still submit jobs: new trials, or retries of failed ones."""
    if sweep.ended or (len(trials) >= sweep.trial_count and not sweep.options.retries):
        return
    ids = {name: experiment.child(Kind.JOB, name) for name in trials.values()}
    states = backend.status(list(ids.values()))
    if len(trials) >= sweep.trial_count and all(
        _is_last(states.of(id), name, sweep) for name, id in ids.items()
    ):
        return
    text = f"the sweep {sweep.name} may still submit jobs, which this one would not wait for"
    shown = " ".join(trials[number] for number in sorted(trials)[:_SHOWN_TRIALS])
    more = " …" if len(trials) > _SHOWN_TRIALS else ""
    hint = f"Wait for it first: batchai sweep wait -n {sweep.name}. Or name its trials: {shown}{more}"
    raise UsageError(text, hint=hint)


def _is_last(job: Resource | None, name: str, sweep: SweepDefinition) -> bool:
    """Whether a run of a trial is final: it has ended and is not retried."""
    if not (isinstance(job, JobResource) and job.state.is_final):
        return False
    _, run = trial_of(name, sweep.name) or (0, 0)
    return not job.has_failed or not sweep.repeats(run)


def _own_name(request: CellRequest, runs: Sequence[str]) -> UsageError:
    """The error for a job that is to start after its own name; `runs` are the ids of its existing runs."""
    rename = "give this job another name" + (
        ": --name NAME" if request.source and request.source.file else ""
    )
    if runs:
        latest = runs[-1].rpartition("/")[2]
        hint = f"Name the run to wait for: {runs[-1] if latest.lower() == request.name.lower() else latest}"
        hint = f"{hint}, or {rename}."
    else:
        hint = f"There is no run of {request.name} yet: name another job, or {rename}."
    return UsageError(f"the job {request.name} would wait for itself", hint=hint)
