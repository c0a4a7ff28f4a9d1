"""`batchai job …`."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from batchai_magics.commands.handlers import resources
from batchai_magics.commands.output.job_list import JobList
from batchai_magics.commands.output.result import Noted
from batchai_magics.commands.output.stream import Logged, Parts, Said, Stream, watching
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource

if TYPE_CHECKING:
    from batchai_magics.commands.context import Context
    from batchai_magics.commands.output.operation import Operation
    from batchai_magics.jobs.handle import Job

# What reads logs and describes jobs takes as long to load as all else: a list does without.


def create(context: Context, arguments: Namespace) -> Noted | Operation | Stream:
    """Makes a job from its file; the handle shows it live in a notebook. Of several files, a job each."""
    from batchai_magics.commands.handlers import bulk, submission

    if arguments.dry_run:
        return Stream(_told(_previews(context, arguments)), "Nothing was written or submitted.")
    if bulk.is_bulk(arguments.config_file):
        return bulk.create(context, arguments)
    ((id, file),) = bulk.named(context, arguments)
    asked = submission.read(context, arguments, id, file)
    return Noted(submission.submit(context, asked), (*bulk.naming(arguments, id), *asked.notes))


def _previews(context: Context, arguments: Namespace) -> list[Said | Logged]:
    """What each file describes and would start, with no look at what is there."""
    from batchai_magics.commands.handlers import bulk, submission
    from batchai_magics.commands.output.preview import preview

    parts: list[Said | Logged] = []
    for id, file in bulk.named(context, arguments):
        asked = submission.described(context, arguments, id, file)
        text = preview(submission.request(asked), context.settings)
        parts += [*map(Said, asked.notes), Logged(f"{text}\n".encode())]
    return parts


def _told(parts: list[Said | Logged]) -> Parts:
    yield from parts


def show(context: Context, arguments: Namespace) -> Job:
    """The job; the handle shows it live in a notebook."""
    from batchai_magics.jobs.handle import Job

    return Job(context.backend, resources.show(context, arguments, Kind.JOB).id)


def list_all(context: Context, arguments: Namespace) -> JobList:
    """The jobs of the experiment, or the newest of them."""
    experiment = context.experiment(arguments)
    jobs = resources.inside(context, experiment, Kind.JOB, newest=arguments.top)
    return JobList((job for job in jobs if isinstance(job, JobResource)), context.backend)


def wait(context: Context, arguments: Namespace) -> Stream:
    """Tells how the job gets on until it has ended."""
    from batchai_magics.commands.handlers.waiting import waiting

    id = resources.show(context, arguments, Kind.JOB).id
    return watching(waiting(context.backend, id), way_back(id, "job wait -n"))


def terminate(context: Context, arguments: Namespace) -> None:
    """Ends every process of the job."""
    context.backend.terminate(context.target(arguments, Kind.JOB))


def delete(context: Context, arguments: Namespace) -> Operation | None:
    """Deletes a job, or all jobs in a state; one that runs is ended first."""
    from batchai_magics.commands.handlers import bulk

    bulk.check_one_way(arguments)
    if arguments.state:
        return bulk.delete(context, arguments)
    resources.delete(context, arguments, Kind.JOB)
    return None


def way_back(id: ResourceId, command: str) -> str:
    """The line that takes up the job again."""
    return f"batchai {command} {id.name} -e {id.experiment} -w {id.workspace} -g {id.group}"
