"""`batchai job …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers import bulk, resources, submission
from batchai_magics.commands.handlers.waiting import waiting
from batchai_magics.commands.output.operation import Operation
from batchai_magics.commands.output.stream import Stream, watching
from batchai_magics.errors import UsageError
from batchai_magics.jobs.handle import Job
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.resources import Resource


def create(context: Context, arguments: Namespace) -> Job | Operation:
    """Makes a job from its file; the handle shows it live in a notebook. Of several files, a job each."""
    if bulk.is_bulk(arguments.config_file):
        return bulk.create(context, arguments)
    if arguments.name is None:
        raise UsageError("batchai job create: the following arguments are required: --name/-n")
    id, (file,) = context.target(arguments, Kind.JOB), arguments.config_file
    return submission.submit(context, submission.read(context, arguments, id, Path(file)))


def show(context: Context, arguments: Namespace) -> Job:
    """The job; the handle shows it live in a notebook."""
    return Job(context.backend, resources.show(context, arguments, Kind.JOB).id)


def list_all(context: Context, arguments: Namespace) -> Sequence[Resource]:
    """The jobs of the experiment."""
    return resources.inside(context, context.experiment(arguments), Kind.JOB)


def wait(context: Context, arguments: Namespace) -> Stream:
    """Tells how the job gets on until it has ended."""
    id = resources.show(context, arguments, Kind.JOB).id
    return watching(waiting(context.backend, id), way_back(id, "job wait -n"))


def terminate(context: Context, arguments: Namespace) -> None:
    """Ends every process of the job."""
    context.backend.terminate(context.target(arguments, Kind.JOB))


def delete(context: Context, arguments: Namespace) -> Operation | None:
    """Deletes a job, or all jobs in a state; one that runs is ended first."""
    bulk.check_one_way(arguments)
    if arguments.state:
        return bulk.delete(context, arguments)
    resources.delete(context, arguments, Kind.JOB)
    return None


def way_back(id: ResourceId, command: str) -> str:
    """The line that takes up the job again."""
    return f"batchai {command} {id.name} -e {id.experiment} -w {id.workspace} -g {id.group}"
