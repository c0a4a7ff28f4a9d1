"""A cell's request becomes a job: defaults made, files uploaded, the job created or found again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from batchai_magics.backends.base import STORAGE, Backend
from batchai_magics.cell import CellRequest
from batchai_magics.config import Settings
from batchai_magics.errors import ConflictError, NotFoundError, did_you_mean
from batchai_magics.jobs.arguments import wrong
from batchai_magics.jobs.handle import Job
from batchai_magics.models.cluster import (
    ClusterPatch,
    ClusterSpec,
    ManualScale,
    ScaleSettings,
    UserAccountSettings,
)
from batchai_magics.models.ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import Cluster, ExperimentSpec, JobResource, WorkspaceSpec

_RUN = re.compile(r"-(\d+)$")
_MOST = 50  # runs of a name that a cell is compared with


@dataclass(frozen=True)
class Submitted:
    """The job of a request, and whether it was started now (or found again).

    `kept` is the latest run of its name where the cell was edited since; `grown` says of the cluster that it
    has got more nodes for the job.
    """

    job: Job
    is_new: bool
    kept: str = ""
    grown: str = ""

    @property
    def note(self) -> str:
        """What people should know of it; empty for the first run of a name."""
        return " ".join(filter(None, (self.grown, self._said_of_run)))

    @property
    def _said_of_run(self) -> str:
        name = self.job.name
        if not self.is_new:
            return f"{name} was submitted before from this very cell: here it is again. --new runs it anew."
        if self.kept:
            return (
                f"The cell is not that of {self.kept}, which is kept: this run is {name}. --same refuses it."
            )
        return ""


def submit(backend: Backend, request: CellRequest, settings: Settings) -> Submitted:
    """Creates the job, or finds it again when a run of its name is the very same.

    A cell that differs from all of them is the next run of the name, as with `request.is_new`; with
    `request.is_same` it is a ConflictError.
    """
    _check_arguments(request, settings)
    workspace = workspace_id(settings, request.workspace)
    ensure_defaults(backend, settings, workspace=request.workspace, experiment=request.experiment)
    if request.cluster == settings.cluster:
        _ensure_cluster(backend, settings, workspace)
    if request.uploads:
        storage = STORAGE.of(backend)
        storage.make(settings.share)
        storage.upload(settings.share, request.uploads)
    grown = _grown(backend, request) if request.is_growing else ""
    made = _created(backend, request, workspace.child(Kind.EXPERIMENT, request.experiment))
    return replace(made, grown=grown)


def _check_arguments(request: object, settings: object) -> None:
    if not isinstance(request, CellRequest):
        hint = "Make one with batchai_magics.cell.parse(line, script, settings=settings)."
        raise wrong("submit", "request", request, "a CellRequest", hint=hint)
    if not isinstance(settings, Settings):
        hint = "Make them with batchai_magics.Settings()."
        raise wrong("submit", "settings", settings, "Settings", hint=hint)


def _created(backend: Backend, request: CellRequest, experiment: ResourceId) -> Submitted:
    names = _runs(backend, experiment, request.name)
    latest = names[-1] if names else request.name
    name = latest
    if request.is_new:
        name = _next_run(request.name, names)
    elif names:
        runs = [experiment.child(Kind.JOB, run) for run in names[-_MOST:]]
        name = _same(backend, runs, request) or latest
    kept = ""
    try:
        job = _create(backend, experiment, name, request)
    except ConflictError as error:
        if request.is_same:
            hint = "Leave out --same, and the cell is the next run of that name."
            raise ConflictError(f"a different job called {name} exists", code=error.code, hint=hint) from None
        kept, name = name, _next_run(request.name, [*names, name])
        job = _create(backend, experiment, name, request)
    return Submitted(job, is_new=name not in names, kept=kept)


def _grown(backend: Backend, request: CellRequest) -> str:
    """Gives the cluster as many nodes as the job wants; says so if it had fewer."""
    id, count = ResourceId.parse(request.spec.cluster.id), request.spec.node_count
    cluster = backend.show(id)
    scale = cluster.spec.scale_settings if isinstance(cluster, Cluster) else None
    larger = scale.with_room_for(count) if scale else None
    if larger is None:
        return ""
    backend.update(id, ClusterPatch(scale_settings=larger))
    return f"Cluster {id.name} gets {count} nodes."


def _create(backend: Backend, experiment: ResourceId, name: str, request: CellRequest) -> Job:
    id = experiment.child(Kind.JOB, name)
    backend.create(id, request.spec)
    return Job(backend, id, patterns=request.patterns)


def _same(backend: Backend, runs: Sequence[ResourceId], request: CellRequest) -> str:
    """The latest run that is described as the cell describes it, secrets left out; empty if none is."""
    look, asked = backend.look(runs), request.spec.to_wire()
    found = [(id.name, look.of(id)) for id in reversed(runs)]
    return next((n for n, job in found if isinstance(job, JobResource) and job.spec.to_wire() == asked), "")


def find(backend: Backend, name: str, settings: Settings) -> Job:
    """The handle of a job by its name, in the experiment of the settings; else a NotFoundError."""
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
    names = backend.names(experiment, Kind.JOB, name)
    runs = [n for n in names if n == name or _RUN.sub("", n) == name]
    return sorted(runs, key=lambda run: _run_number(run, name))


def _run_number(run: str, name: str) -> int:
    """Which run of `name` that is: `resnet-50` is the first of itself, and the fiftieth of `resnet`."""
    return 1 if run == name else int(run[len(name) + 1 :])


def _next_run(name: str, runs: list[str]) -> str:
    return f"{name}-{max(_run_number(run, name) for run in runs) + 1}" if runs else name
