"""A result that a notebook shows live: a cluster, or the jobs of an experiment."""

from __future__ import annotations

from dataclasses import dataclass, field

from batchai_magics.backends.base import Backend
from batchai_magics.commands.context import Context
from batchai_magics.commands.output.result import Result
from batchai_magics.commands.parsing.parse import Invocation
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import Cluster

_OF_CLUSTER = ("cluster show", "cluster create", "cluster resize", "cluster auto-scale")


@dataclass(frozen=True, repr=False)
class LiveResult(Result):
    """A result that also knows where to look again: in a backend, at a cluster or an experiment."""

    backend: Backend = field(kw_only=True)
    id: ResourceId = field(kw_only=True)


def with_place(invocation: Invocation, result: Result, context: Context) -> Result:
    """The result of `job list` and of what shows or changes a cluster with its place; others as they are."""
    if result.query:
        return result
    if invocation.command.words == "job list":
        id = context.experiment(invocation.arguments)
    elif invocation.command.words in _OF_CLUSTER and isinstance(result.value, Cluster):
        id = result.value.id
    else:
        return result
    return LiveResult(result.value, backend=context.backend, id=id)
