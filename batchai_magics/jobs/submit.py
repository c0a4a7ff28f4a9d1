"""A cell's request becomes a job: defaults made, files uploaded, the job created or found again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from batchai_magics.backends.base import STORAGE, Backend, ExperimentSpec, WorkspaceSpec
from batchai_magics.cell import CellRequest
from batchai_magics.config import Settings
from batchai_magics.errors import ConflictError, NotFoundError, did_you_mean
from batchai_magics.jobs.handle import Job
from batchai_magics.models.cluster import ClusterSpec, ManualScale, ScaleSettings, UserAccountSettings
from batchai_magics.models.ids import Kind, ResourceId, workspace_id

_RUN = re.compile(r"-(\d+)$")


@dataclass(frozen=True)
class Submitted:
    """The job of a request, and whether it was started now (or found again)."""

    job: Job
    is_new: bool


def submit(backend: Backend, request: CellRequest, settings: Settings) -> Submitted:
    """Creates the job, or finds it again when the very same exists; `request.is_new` makes another run."""
    workspace = workspace_id(settings, request.workspace)
    ensure_defaults(backend, settings, workspace=request.workspace, experiment=request.experiment)
    if request.cluster == settings.cluster:
        _ensure_cluster(backend, settings, workspace)
    experiment = workspace.child(Kind.EXPERIMENT, request.experiment)
    runs = _runs(backend, experiment, request.name)
    name = _next_run(request.name, runs) if request.is_new else (runs[-1] if runs else request.name)
    id = experiment.child(Kind.JOB, name)
    is_known = name in runs
    if request.uploads:
        storage = STORAGE.of(backend)
        storage.make(settings.share)
        storage.upload(settings.share, request.uploads)
    try:
        backend.create(id, request.spec)
    except ConflictError as error:
        hint = "Add --new to run this one as another job, or give it another name."
        raise ConflictError(f"a different job called {name} exists", code=error.code, hint=hint) from None
    return Submitted(Job(backend, id, patterns=request.patterns), is_new=not is_known)


def find(backend: Backend, name: str, settings: Settings) -> Job:
    """The handle of a job by its name, in the experiment of the settings; else a NotFoundError."""
    experiment = workspace_id(settings).child(Kind.EXPERIMENT, settings.experiment)
    job = Job(backend, experiment.child(Kind.JOB, name))
    try:
        job.show()
    except NotFoundError as error:
        names = [item.id.name for item in _jobs(backend, experiment)]
        raise NotFoundError(
            error.message, code=error.code, hint=did_you_mean(name, names) or error.hint
        ) from None
    return job


def ensure_defaults(
    backend: Backend, settings: Settings, *, workspace: str = "", experiment: str = ""
) -> None:
    """Makes the workspace, the experiment and the default cluster, unless they are there."""
    id = workspace_id(settings, workspace)
    backend.create(id, WorkspaceSpec(location=settings.location))
    backend.create(id.child(Kind.EXPERIMENT, experiment or settings.experiment), ExperimentSpec())
    if id.workspace == settings.workspace:
        _ensure_cluster(backend, settings, id)


def _ensure_cluster(backend: Backend, settings: Settings, workspace: ResourceId) -> None:
    id = workspace.child(Kind.CLUSTER, settings.cluster)
    try:
        backend.show(id)
    except NotFoundError:
        spec = ClusterSpec(
            vm_size=settings.cluster_vm_size,
            scale_settings=ScaleSettings(manual=ManualScale(target_node_count=settings.cluster_nodes)),
            user_account_settings=UserAccountSettings(admin_user_name="batchai"),
        )
        backend.create(id, spec)


def next_run(backend: Backend, experiment: ResourceId, name: str) -> str:
    """The name that a further run of a job gets: after `resnet` and `resnet-2` it is `resnet-3`."""
    base = _RUN.sub("", name)
    first = base if _runs(backend, experiment, base) else name
    return _next_run(first, _runs(backend, experiment, first))


def _runs(backend: Backend, experiment: ResourceId, name: str) -> list[str]:
    """The runs of a named job, oldest first: `resnet`, `resnet-2` and so on."""
    names = [job.id.name for job in _jobs(backend, experiment)]
    return sorted((n for n in names if n == name or _RUN.sub("", n) == name), key=_run_number)


def _run_number(name: str) -> int:
    match = _RUN.search(name)
    return int(match[1]) if match else 1


def _next_run(name: str, runs: list[str]) -> str:
    return f"{name}-{_run_number(runs[-1]) + 1}" if runs else name


def _jobs(backend: Backend, experiment: ResourceId) -> list[Job]:
    return [Job(backend, item.id) for item in backend.list(experiment, Kind.JOB)]
