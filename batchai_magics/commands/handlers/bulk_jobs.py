"""Bulk commands: create a job from each of several files, delete all jobs in a state."""

from __future__ import annotations

import glob
from argparse import Namespace
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import job_submission
from batchai_magics.commands.handlers.job_submission import Submission
from batchai_magics.commands.output.command_progress import Operation
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.errors import BatchAIError, UsageError
from batchai_magics.models.documents.description import name_after
from batchai_magics.models.field_types import duplicates
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name
from batchai_magics.models.resources import JobResource


def job_files(texts: Sequence[str]) -> list[Path]:
    """The named files without duplicates; glob patterns expand to their matches, sorted."""
    paths = [path for text in texts for path in _matching_files(text)]
    return list(dict.fromkeys(paths))


def is_bulk(texts: Sequence[str]) -> bool:
    """Whether there is more than one file, or a glob pattern."""
    return len(texts) > 1 or _is_pattern(texts[0])


def create(context: Context, arguments: Namespace) -> Operation:
    """Creates a job from each file; all are read and validated before the first is created."""
    experiment = context.experiment(arguments)
    submissions = [
        job_submission.read_new_job(context, arguments, *one) for one in job_ids_and_files(context, arguments)
    ]
    back = f"The created jobs keep running: batchai job list -e {experiment.name} -w {experiment.workspace}"
    return Operation("Submitting", len(submissions), "job", _create_all(context, submissions), back)


def job_ids_and_files(context: Context, arguments: Namespace) -> list[tuple[ResourceId, Path]]:
    """Each file with the id of its job."""
    files = job_files(arguments.config_file)
    is_one = not is_bulk(arguments.config_file)
    names = [arguments.name] if is_one and arguments.name else _names(files, arguments.name)
    experiment = context.experiment(arguments)
    ids = [experiment.child(Kind.JOB, check_name(name, Kind.JOB)) for name in names]
    return list(zip(ids, files, strict=True))


def default_name_note(arguments: Namespace, id: ResourceId) -> tuple[str, ...]:
    """A message about a name that was derived from the file."""
    return () if arguments.name else (f"The job is called {id.name}, after its file; -n sets another name.",)


def job_ids_in_state(context: Context, arguments: Namespace) -> list[ResourceId]:
    """The jobs of the experiment in the state given with `--state`."""
    experiment = context.experiment(arguments)
    jobs = context.backend.list(experiment, Kind.JOB)
    return [job.id for job in jobs if isinstance(job, JobResource) and job.state.value == arguments.state]


def delete(context: Context, arguments: Namespace) -> Operation:
    """Deletes all jobs in a state."""
    ids = job_ids_in_state(context, arguments)
    back = "Run the same line again for the rest."
    return Operation("Deleting", len(ids), "job", _delete_all(context, ids, arguments.state), back)


def check_selection(arguments: Namespace) -> None:
    """Raises UsageError unless exactly one of `--name`, `--ids` and `--state` is given."""
    ways = [arguments.name, arguments.state, getattr(arguments, "ids", None)]
    if sum(1 for one in ways if one) != 1:
        raise UsageError(
            "the following arguments are required: --name/-n, or --state, and not both",
            hint="--state failed stands for all failed jobs of the experiment.",
        )


def _create_all(context: Context, submissions: Sequence[Submission]) -> Generator[int, None, ValueWithNotes]:
    jobs = []
    for one in submissions:
        try:
            jobs.append(job_submission.submit(context, one))
        except BatchAIError as error:
            error.hint = f"{error.hint} {len(jobs)} of {len(submissions)} jobs were made before it.".lstrip()
            raise
        yield 1
    notes = tuple(note for one in submissions for note in one.notes)
    return ValueWithNotes([job.show() for job in jobs], notes)


def _delete_all(context: Context, ids: Sequence[ResourceId], state: str) -> Generator[int, None, Any]:
    for id in ids:
        context.backend.delete(id)
        yield 1
    note = f"{len(ids)} {state} job{'' if len(ids) == 1 else 's'} deleted."
    return ValueWithNotes(None, (note,))


def _names(files: Sequence[Path], name: str | None) -> list[str]:
    """NAME-1, NAME-2, …; without a name, the names of the files."""
    if name:
        return [f"{name}-{number}" for number, _ in enumerate(files, start=1)]
    names = [name_after(file.expanduser()) for file in files]
    twice = duplicates(name.lower() for name in names)
    if twice:
        raise UsageError(
            f"--config-file: several files are called {twice[0]}",
            hint="Add -n NAME: the jobs are NAME-1, NAME-2 and so on.",
        )
    return names


def _matching_files(text: str) -> list[Path]:
    if not _is_pattern(text):
        return [Path(text)]
    pattern = str(Path(text).expanduser())
    names = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  the pattern may be absolute
    if not names:
        raise UsageError(f"--config-file: no file matches {text}")
    return [Path(name) for name in names]


def _is_pattern(text: str) -> bool:
    return glob.has_magic(text) and not Path(text).expanduser().exists()
