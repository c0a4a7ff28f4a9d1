"""`show`, `list` and `delete` of every kind of resource."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from batchai_magics.errors import NotFoundError, command_error, did_you_mean
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource

if TYPE_CHECKING:
    from batchai_magics.commands.command_context import Context
    from batchai_magics.models.resources import Resource


_MAX_HINT_NAMES = 10  # existing names listed in a hint, the latest ones


def show(context: Context, arguments: Namespace, kind: Kind) -> Resource:
    """The resource named on the line; the NotFoundError for an unknown name suggests similar ones."""
    id = context.target(arguments, kind)
    try:
        return context.backend.show(id)
    except NotFoundError as error:
        raise NotFoundError(error.message, code=error.code, hint=_hint(context, id, error.hint)) from None


def show_job(context: Context, arguments: Namespace) -> JobResource:
    """The job named on the line, as `show`."""
    job = show(context, arguments, Kind.JOB)
    assert isinstance(job, JobResource)
    return job


def list_all(context: Context, arguments: Namespace, kind: Kind) -> Sequence[Resource]:
    """The resources of this kind in the workspace that the line refers to."""
    return list_children(context, context.workspace(arguments), kind)


def delete(context: Context, arguments: Namespace, kind: Kind) -> None:
    """Deletes the resource named on the line with everything in it."""
    context.backend.delete(context.target(arguments, kind))


def list_children(
    context: Context, parent: ResourceId, kind: Kind, *, newest: int | None = None
) -> Sequence[Resource]:
    """The resources in `parent`, oldest first: all, or the `newest`.

    A default workspace or experiment that does not exist yet counts as empty.
    """
    settings, backend = context.settings, context.backend
    defaults = {Kind.WORKSPACE: settings.workspace, Kind.EXPERIMENT: settings.experiment}
    try:
        if not newest:
            return list(backend.list(parent, kind))
        # reads only names, and then the newest resources
        ids = [parent.child(kind, name) for name in backend.names(parent, kind)[-newest:]]
        statuses = backend.status(ids)
        return [resource for resource in map(statuses.of, ids) if resource]
    except NotFoundError:
        if parent.name == defaults.get(parent.kind) and parent.workspace == settings.workspace:
            return []
        raise


def list_jobs(context: Context, experiment: ResourceId, *, newest: int | None = None) -> list[JobResource]:
    """The jobs of an experiment, as `list_children`."""
    jobs = list_children(context, experiment, Kind.JOB, newest=newest)
    return [job for job in jobs if isinstance(job, JobResource)]


def check_is_new(context: Context, id: ResourceId) -> None:
    """Raises a command error if the name of a new cluster or file server is taken."""
    if context.exists(id):
        command = f"batchai {id.kind.noun.replace(' ', '-')}"
        raise command_error(
            f'"{id.name}" already exists in "{id.group}" resource group under {id.workspace} resource group.',
            hint=f"See it with `{command} show -n {id.name}`, or give another name.",
        )


def _hint(context: Context, id: ResourceId, known: str) -> str:
    """The hint for an unknown name: a similar name, else the backend's hint, else the existing names."""
    try:
        names = [sibling.id.name for sibling in context.backend.list(id.parent, id.kind)]
    except NotFoundError:
        return known or _hint(context, id.parent, known)
    if not names and id.kind is Kind.WORKSPACE:
        return f"There are none in resource group {id.group}."
    if not names:
        return f"There are none in {id.parent.kind.noun} {id.parent.name}."
    return did_you_mean(id.name, names) or known or f"Available: {', '.join(names[-_MAX_HINT_NAMES:])}."
