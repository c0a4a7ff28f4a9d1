"""What every kind of resource can be asked: to be shown, listed, deleted."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from batchai_magics.errors import NotFoundError, command_error, did_you_mean
from batchai_magics.models.ids import Kind, ResourceId

if TYPE_CHECKING:
    from batchai_magics.commands.context import Context
    from batchai_magics.models.resources import Resource

_MOST_NAMES = 10  # of those that there are, the latest


def show(context: Context, arguments: Namespace, kind: Kind) -> Resource:
    """The resource that the line names; for a name that is not there, the error guesses."""
    id = context.target(arguments, kind)
    try:
        return context.backend.show(id)
    except NotFoundError as error:
        raise NotFoundError(error.message, code=error.code, hint=_guess(context, id, error.hint)) from None


def delete(context: Context, arguments: Namespace, kind: Kind) -> None:
    """Deletes the resource that the line names, and all inside it."""
    context.backend.delete(context.target(arguments, kind))


def inside(
    context: Context, parent: ResourceId, kind: Kind, *, newest: int | None = None
) -> Sequence[Resource]:
    """The resources in `parent`, oldest first: all, or the `newest`.

    None are in a default workspace or experiment that was never used.
    """
    settings = context.settings
    defaults = {Kind.WORKSPACE: settings.workspace, Kind.EXPERIMENT: settings.experiment}
    try:
        return _newest(context, parent, kind, newest) if newest else list(context.backend.list(parent, kind))
    except NotFoundError:
        if parent.name == defaults.get(parent.kind) and parent.workspace == settings.workspace:
            return []
        raise


def _newest(context: Context, parent: ResourceId, kind: Kind, count: int) -> list[Resource]:
    """Of the others nothing but the names is read."""
    ids = [parent.child(kind, name) for name in context.backend.names(parent, kind)[-count:]]
    seen = context.backend.status(ids)
    return [resource for resource in map(seen.of, ids) if resource]


def refuse_second(context: Context, id: ResourceId) -> None:
    """Refuses to make a cluster or file server whose name is taken."""
    if exists(context, id):
        shown = f"batchai {id.kind.noun.replace(' ', '-')}"
        raise command_error(
            f'"{id.name}" already exists in "{id.group}" resource group under {id.workspace} resource group.',
            hint=f"See it with `{shown} show -n {id.name}`, or give another name.",
        )


def exists(context: Context, id: ResourceId) -> bool:
    """Whether the resource is there."""
    try:
        context.backend.show(id)
    except NotFoundError:
        return False
    return True


def _guess(context: Context, id: ResourceId, known: str) -> str:
    """What may have been meant: a name that is near, else what is known, else the names that there are."""
    try:
        names = [sibling.id.name for sibling in context.backend.list(id.parent, id.kind)]
    except NotFoundError:
        return known or _guess(context, id.parent, known)
    if not names:
        return f"There is none in {id.parent.kind.noun} {id.parent.name}."
    return did_you_mean(id.name, names) or known or f"There are: {', '.join(names[-_MOST_NAMES:])}."
