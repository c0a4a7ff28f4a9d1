"""Submits a cell's request: creates what its job needs, then the job, unless an identical run exists."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from batchai_magics.backends.base import Backend, JobNeeds, NewJob, Spec
from batchai_magics.backends.base.backend_registry import default_vm_size
from batchai_magics.backends.base.protocol import first_run, run_names, run_number
from batchai_magics.cell import CellRequest
from batchai_magics.config import Settings
from batchai_magics.errors import ConflictError, NotFoundError, did_you_mean
from batchai_magics.jobs.argument_checks import argument_error
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.predecessors import resolution_note, with_predecessor_ids
from batchai_magics.jobs.submission_recorder import checkout_for, record_files
from batchai_magics.jobs.watch_records import watch_records, with_watch_settings
from batchai_magics.models.cluster_spec import (
    AutoScale,
    ClusterPatch,
    ClusterSpec,
    ManualScale,
    ScaleSettings,
    UserAccountSettings,
)
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import Cluster, ExperimentSpec, JobResource, WorkspaceSpec
from batchai_magics.models.runs.labels import LabelChange


@dataclass(frozen=True)
class SubmittedJob:
    """The job of a request."""

    job: Job
    is_new: bool  # whether the job was created; else an identical run was found
    has_ended: bool = False  # whether the run that was found has ended, so that nothing runs
    note: str = ""  # a message about the submission; mostly empty for the first run of a name


def submit(backend: Backend, request: CellRequest, settings: Settings) -> SubmittedJob:
    """Creates a job with everything that it needs, or returns an identical run of its name.

    A request that differs from all runs becomes the next run of the name, as with `request.is_new`.

    Args:
        backend: Where the job is to run.
        request: A parsed cell; see `batchai_magics.cell.parse`.
        settings: The defaults: workspace, experiment, cluster and share.

    Raises:
        UsageError: An argument has the wrong type.
        CapabilityError: The backend cannot do what the job requires; nothing of the job was created.
        ConflictError: A different run of the name exists and `request.is_same`, or a quota is exceeded.
        NotFoundError: Something that the job refers to, such as its cluster, does not exist.
        SpecError: A value of the job is impossible on its cluster.
    """
    if not isinstance(request, CellRequest):
        hint = "Make one with batchai_magics.cell.parse(line, script, settings=settings)."
        raise argument_error("submit", "request", request, "a CellRequest", hint=hint)
    if not isinstance(settings, Settings):
        hint = "Make them with batchai_magics.Settings()."
        raise argument_error("submit", "settings", settings, "Settings", hint=hint)
    host = backend.host_note(request.spec) if request.spec.container_settings else ""
    original_spec = request.spec
    (request,), runs = prepare(backend, [request], settings)
    grown = ""
    if request.is_growing:
        id, count = request.cluster, request.spec.node_count
        cluster = backend.show(id)
        scale = cluster.spec.scale_settings if isinstance(cluster, Cluster) else None
        if larger := scale and scale.with_room_for(count):
            backend.update(id, ClusterPatch(scale_settings=larger))
            grown = f"Resizing cluster {id.name} to {count} nodes."
    forecast = f"{text}." if backend.prices and (text := backend.prices.forecast(request.spec)) else ""
    submitted = _create_or_find(backend, request, runs)
    notes = [grown, submitted.note]
    if submitted.is_new:
        predecessor_note = resolution_note(original_spec, request.spec) if original_spec.predecessors else ""
        notes += [f"Warning: {host}." if host else "", predecessor_note, forecast]
    return replace(submitted, note=" ".join(filter(None, notes)))


def prepare(
    backend: Backend, requests: Sequence[CellRequest], settings: Settings
) -> tuple[list[CellRequest], Sequence[JobResource]]:
    """Creates what the jobs of these requests need: experiment, default cluster, files on the share.

    They share these, so that the first request decides.

    Returns:
        The requests with the records of their jobs, and the earlier runs of the first one's name.
    """
    backend.check(requests[0].spec)
    requests = [with_watch_settings(request, settings, backend) for request in requests]
    if requests[0].spec.predecessors:
        requests = with_predecessor_ids(backend, requests, settings.share)
    first, experiment = requests[0], requests[0].id.parent
    if first.is_exact:
        names = {experiment.workspace_id.key: settings.workspace, experiment.key: settings.experiment}
        resources = default_resources(backend, settings, experiment, cluster=None)
        resources = [(id, spec) for id, spec in resources if id.name == names[id.key]]
    else:
        resources = default_resources(backend, settings, experiment, cluster=first.cluster)
    share = settings.share if first.uploads else ""
    spec = None if first.is_growing else first.spec  # the cluster has room for it later
    with checkout_for(first, settings) or contextlib.nullcontext() as checkout:
        runs = backend.ensure(JobNeeds(first.id, resources, share, first.uploads, spec))
        return [
            replace(request, records=request.records or record_files(request, checkout))
            for request in requests
        ], runs


def new_job(request: CellRequest, name: str, owner: str = "") -> NewJob:
    """The job of a prepared request under a name."""
    records = request.records
    if request.watch:
        records = {**records, **watch_records(request, request.watch, name)}
    return NewJob(request.id.parent.child(Kind.JOB, name), request.spec, records, owner)


def checked_request(backend: Backend, request: CellRequest, settings: Settings) -> CellRequest:
    """The request with the channels of the settings; nothing is sent for the job.

    Raises:
        CapabilityError: The backend cannot do what the job requires.
        SpecError: A value of the job is impossible there.
    """
    backend.check(request.spec)
    return with_watch_settings(request, settings, backend)


def _create_or_find(backend: Backend, request: CellRequest, runs: Sequence[JobResource]) -> SubmittedJob:
    """Creates the job under its name or the next one, or finds an identical run."""
    names = [run.id.name for run in runs]
    file = request.source.file if request.source else ""
    if request.is_exact or request.is_new:
        name = request.name if request.is_exact else _next_run(request.name, names)
        return _create(backend, request, name)
    candidate = _identical_run(request, runs) if runs else request.name
    if candidate:
        # another process may have just created it; or the secrets differ, which no spec shows
        with contextlib.suppress(ConflictError):
            created = _create(backend, request, candidate)
            return _reattached(backend, created.job, runs, file) if runs else created
    names = names or [request.name]
    if request.is_same:
        text = f"a different job called {names[-1]} exists"
        hint = "Leave out --same to start the next run of that name."
        raise ConflictError(text, code="Conflict", hint=hint)
    submitted = _create(backend, request, _next_run(request.name, names))
    changed = f"{file} or its options" if file else "The cell"
    note = (
        f"{changed} changed since {names[-1]}: running as {submitted.job.name} (--same makes this an error)."
    )
    return replace(submitted, note=" ".join(filter(None, (note, submitted.note))))


def _identical_run(request: CellRequest, runs: Sequence[JobResource]) -> str:
    """The name of the latest run that the backend may consider identical to the request; else empty."""
    wire = request.spec.to_wire()
    same = next((run.id.name for run in reversed(runs) if run.spec.to_wire() == wire), "")
    return same or (runs[-1].id.name if _may_match(wire, runs[-1].spec.to_wire()) else "")


def _reattached(backend: Backend, job: Job, runs: Sequence[JobResource], file: str) -> SubmittedJob:
    """The existing run. The cell's metric patterns are saved with it, for lists and other processes."""
    records = backend.records
    if job.patterns and records and not job.patterns.items() <= job.labels().patterns.items():
        records.relabel(job.id, LabelChange(patterns=job.patterns))
    text = f"{job.name} was already submitted from {file or 'this cell'}"
    if any(run.id.key == job.id.key and run.state.is_final for run in runs):
        note = f"Warning: {text} and has ended: nothing ran, showing that run."
        note += " To run it again: --new, or the setting run_policy = new."
        return SubmittedJob(job, is_new=False, has_ended=True, note=note)
    return SubmittedJob(job, is_new=False, note=f"{text}; showing that run. Use --new to run it again.")


def _create(backend: Backend, request: CellRequest, name: str) -> SubmittedJob:
    """Creates the job; the note has the backend's warnings."""
    job = new_job(request, name)
    created = backend.create(job.id, job.spec, records=job.records)
    notes = created.notes if isinstance(created, JobResource) else ()
    note = " ".join(f"Warning: {text}." for text in notes)
    return SubmittedJob(Job(backend, job.id, patterns=request.patterns), is_new=True, note=note)


def _may_match(requested: Any, returned: Any) -> bool:
    """Whether a spec may equal the returned one: services add fields and change the case of ids."""
    if isinstance(requested, Mapping):
        is_mapping = isinstance(returned, Mapping)
        return is_mapping and all(_may_match(value, returned.get(key)) for key, value in requested.items())
    if isinstance(requested, list):
        is_list = isinstance(returned, list) and len(requested) == len(returned)
        return is_list and all(map(_may_match, requested, returned))
    return str(requested).lower() == str(returned).lower()


def find(backend: Backend, name: str, settings: Settings) -> Job:
    """The handle of a job in the experiment of the settings.

    Raises:
        NotFoundError: It does not exist; the hint suggests a similar name.
    """
    experiment = workspace_id(settings).child(Kind.EXPERIMENT, settings.experiment)
    job = Job(backend, experiment.child(Kind.JOB, name))
    try:
        job.show()
    except NotFoundError as error:
        names = backend.names(experiment, Kind.JOB)
        raise NotFoundError(
            error.message, code=error.code, hint=did_you_mean(name, names) or error.hint
        ) from None
    return job


def default_resources(
    backend: Backend, settings: Settings, experiment: ResourceId, *, cluster: ResourceId | None
) -> Sequence[tuple[ResourceId, Spec]]:
    """Workspace and experiment of a job, and its cluster if that is the default one."""
    workspace = experiment.workspace_id
    default = workspace.child(Kind.CLUSTER, settings.cluster)
    parents = (workspace, WorkspaceSpec(location=settings.location)), (experiment, ExperimentSpec())
    if cluster is None or cluster.key != default.key:
        return parents
    count = settings.cluster_nodes
    if backend.prices is None:
        scale = ScaleSettings(manual=ManualScale(target_node_count=count))
    else:  # nodes that cost money are there only while jobs need them
        scale = ScaleSettings(auto_scale=AutoScale(minimum_node_count=0, maximum_node_count=count))
    spec = ClusterSpec(
        vm_size=default_vm_size(settings),
        scale_settings=scale,
        user_account_settings=UserAccountSettings(admin_user_name="batchai"),
    )
    return (*parents, (default, spec))


def next_run(backend: Backend, experiment: ResourceId, name: str) -> str:
    """The name of the next run of a job: after `resnet` and `resnet-2`, `resnet-3`.

    Raises:
        NotFoundError: The experiment does not exist.
    """
    base = first_run(name)
    first = base if _runs(backend, experiment, base) else name
    return _next_run(first, _runs(backend, experiment, first))


def _runs(backend: Backend, experiment: ResourceId, name: str) -> list[str]:
    return run_names(backend.names(experiment, Kind.JOB, name), name)


def _next_run(name: str, runs: Sequence[str]) -> str:
    return f"{name}-{max(run_number(run, name) for run in runs) + 1}" if runs else name
