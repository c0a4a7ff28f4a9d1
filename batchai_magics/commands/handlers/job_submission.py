"""Submission of a job from its file and options, or again under the next name of its series."""

from __future__ import annotations

import contextlib
import glob
import os
from argparse import Namespace
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.backend_registry import backend_options, current_settings
from batchai_magics.cell import CellRequest
from batchai_magics.cell.cell_options import secrets_named
from batchai_magics.cell.cell_request import CellSource, exports_below
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import machine_options, resource_commands
from batchai_magics.commands.output.command_progress import Operation
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.errors import BatchAIError, UsageError, command_error
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.predecessors import without_deleted
from batchai_magics.jobs.submission_recorder import records_of_another
from batchai_magics.jobs.submit import next_run, submit
from batchai_magics.models.backend_options import check_texts, given_options, with_backend_options
from batchai_magics.models.documents.description import load_file, name_after
from batchai_magics.models.field_types import duplicates
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.mount_volumes import AccountKey
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name, cluster_id, cluster_named_in
from batchai_magics.models.resources import JobResource
from batchai_magics.models.stop_conditions import with_conditions
from batchai_magics.options.job_options import job_create_options, read_values, with_grace, with_properties


def read_new_job(context: Context, arguments: Namespace, id: ResourceId, file: Path) -> CellRequest:
    """Reads a job file; raises a command error if the job exists or its cluster does not."""
    request = read_job_file(context, arguments, id, file)
    if context.exists(id):
        raise command_error(
            "A job with given name, experiment, workspace and resource group already exists.",
            hint=f"Give it another name with -n, or see it with `batchai job show -n {id.name}`.",
        )
    context.backend.show(request.cluster)
    return request


def read_job_file(context: Context, arguments: Namespace, id: ResourceId, file: Path) -> CellRequest:
    """Reads a job file without a request to the backend about existing resources."""
    account = machine_options.account_of(context, arguments)
    description = load_file(JobSpec, file.expanduser(), account=account)
    declared = backend_options(context.settings)
    body = with_backend_options(description.body, given_options(vars(arguments), declared))
    values = read_values(arguments, job_create_options())
    if conditions := values.get("stop_if"):
        body = with_conditions(body, conditions)
    body = _body(context, arguments, id, with_properties(body, values["properties"]), account=account)
    spec = description.checked(JobSpec, body)
    check_texts(spec.backend_options, declared, what=spec.what)
    path = file.expanduser().absolute()
    return CellRequest(
        id,
        spec,
        is_exact=True,
        notes=description.notes,
        source=CellSource(path.parent, name=file.name),
        has_no_provenance=arguments.no_provenance,
        tags=values.get("tags", ()),
        notify=values.get("notify", ()),
        exports=exports_below(values.get("exports", ()), context.settings, Path.cwd()),
    )


def _body(
    context: Context,
    arguments: Namespace,
    id: ResourceId,
    file_body: Mapping[str, Any],
    *,
    account: AccountKey,
) -> dict[str, Any]:
    """The job's `properties`: those of the file, overridden by the options."""
    body = with_grace(file_body, context.settings.grace)
    # the cluster named on the line, else in the file, else the session's
    file_cluster = cluster_named_in(body)
    cluster = arguments.cluster if arguments.cluster is not None else file_cluster or context.settings.cluster
    if not cluster and not file_cluster:
        raise command_error("Please provide cluster information via command line or configuration file.")
    body["cluster"] = {"id": str(cluster_id(cluster or file_cluster or "", context.workspace(arguments)))}
    volumes = machine_options.with_mounts(body.get("mountVolumes"), arguments, account, owner=id)
    volumes = machine_options.with_keys(volumes, context.backend)
    return {**body, "mountVolumes": volumes} if volumes else body


def job_files(texts: Sequence[str]) -> list[Path]:
    """The named files without duplicates; glob patterns expand to their matches, sorted."""
    paths: list[Path] = []
    for text in texts:
        if not _is_pattern(text):
            paths.append(Path(text))
            continue
        pattern = str(Path(text).expanduser())
        names = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  the pattern may be absolute
        if not names:
            raise UsageError(f"--config-file: no file matches {text}")
        paths += map(Path, names)
    return list(dict.fromkeys(paths))


def is_bulk(texts: Sequence[str]) -> bool:
    """Whether there is more than one file, or a glob pattern."""
    return len(texts) > 1 or _is_pattern(texts[0])


def create(context: Context, arguments: Namespace) -> Operation:
    """Creates a job from each file; all are read and validated before the first is created."""
    experiment = context.experiment(arguments)
    requests = [read_new_job(context, arguments, *source) for source in job_ids_and_files(context, arguments)]
    back = f"The created jobs keep running: batchai job list -e {experiment.name} -w {experiment.workspace}"
    return Operation("Submitting", len(requests), "job", _create_all(context, requests), back)


def job_ids_and_files(context: Context, arguments: Namespace) -> list[tuple[ResourceId, Path]]:
    """Each file with the id of its job."""
    files, name = job_files(arguments.config_file), arguments.name
    if not name:
        names = [name_after(file.expanduser()) for file in files]
        if repeated := duplicates(name.lower() for name in names):
            hint = "Add -n NAME: the jobs are NAME-1, NAME-2 and so on."
            raise UsageError(f"--config-file: several files are called {repeated[0]}", hint=hint)
    elif is_bulk(arguments.config_file):
        names = [f"{name}-{number}" for number, _ in enumerate(files, start=1)]
    else:
        names = [name]
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
    selections = [arguments.name, arguments.state, getattr(arguments, "ids", None)]
    if sum(map(bool, selections)) != 1:
        raise UsageError(
            "the following arguments are required: --name/-n, or --state, and not both",
            hint="--state failed stands for all failed jobs of the experiment.",
        )


def _create_all(context: Context, requests: Sequence[CellRequest]) -> Generator[int, None, ValueWithNotes]:
    jobs, notes = list[Job](), list[str]()
    for request in requests:
        try:
            submitted = submit(context.backend, request, context.settings)
            jobs.append(submitted.job)
            notes += filter(None, (*request.notes, submitted.note))
        except BatchAIError as error:
            error.hint = f"{error.hint} {len(jobs)} of {len(requests)} jobs were made before it.".lstrip()
            raise
        yield 1
    return ValueWithNotes([job.show() for job in jobs], tuple(notes))


def _delete_all(context: Context, ids: Sequence[ResourceId], state: str) -> Generator[int, None, Any]:
    for id in ids:
        context.backend.delete(id)
        yield 1
    note = f"{len(ids)} {state} job{'' if len(ids) == 1 else 's'} deleted."
    return ValueWithNotes(None, (note,))


def _is_pattern(text: str) -> bool:
    return glob.has_magic(text) and not Path(text).expanduser().exists()


def resubmit(context: Context, arguments: Namespace) -> ValueWithNotes | Operation:
    """Resubmits the job; with `--state`, all jobs in that state."""
    check_selection(arguments)
    secrets = secrets_named(arguments.secret or (), os.environ)
    if not arguments.state:
        job = resource_commands.show_job(context, arguments)
        request = resubmission(context.backend, job, secrets)
        return ValueWithNotes(submit(context.backend, request, context.settings).job, request.notes)
    resources = (context.backend.show(id) for id in job_ids_in_state(context, arguments))
    jobs = [job for job in resources if isinstance(job, JobResource)]
    for job in jobs:
        _spec(context.backend, job, secrets)  # before anything is created
    back = "The created jobs keep running; see it with `batchai job list`."
    return Operation("Submitting", len(jobs), "job", _resubmit_all(context, jobs, secrets), back)


def resubmit_with_env(
    backend: Backend, job: JobResource, env: Mapping[str, str]
) -> tuple[Job, Sequence[str]]:
    """Resubmits a job with its secrets from `env`; returns the new job, and notes about it.

    Raises:
        UsageError: Secrets are missing, which the message names.
    """
    secrets = {name: env[name] for name in job.spec.secret_names if name in env}
    request = resubmission(backend, job, secrets)
    return submit(backend, request, current_settings()).job, request.notes


def _resubmit_all(
    context: Context, jobs: Sequence[JobResource], secrets: Mapping[str, str]
) -> Generator[int, None, ValueWithNotes]:
    submitted, notes = list[Job](), list[str]()
    for job in jobs:
        request = resubmission(context.backend, job, secrets)
        submitted.append(submit(context.backend, request, context.settings).job)
        notes += (f"{submitted[-1].name}: {note}" for note in request.notes)
        yield 1
    return ValueWithNotes([job.show() for job in submitted], tuple(notes))


def resubmission(backend: Backend, job: JobResource, secrets: Mapping[str, str]) -> CellRequest:
    """The request to run a job again under the next name, without predecessors that were deleted."""
    id = job.id.parent.child(Kind.JOB, next_run(backend, job.id.parent, job.id.name))
    records = records_of_another(backend, job.id)
    spec, notes = without_deleted(backend, _spec(backend, job, secrets))
    return CellRequest(id, spec, is_exact=True, notes=notes, has_no_provenance=True, records=records)


def _spec(backend: Backend, job: JobResource, secrets: Mapping[str, str]) -> JobSpec:
    """The job's spec with keys and secrets, which backends never return, filled in again."""
    missing = [name for name in job.spec.secret_names if name not in secrets]
    if missing:
        raise UsageError(
            f"job {job.id.name} needs the secrets {', '.join(missing)}, which are not stored",
            hint=f"Put them in the environment and add --secret {' '.join(missing)}.",
        )
    variables = tuple(
        item.model_copy(update={"value": SecretStr(secrets[item.name])}) for item in job.spec.secrets or ()
    )
    wire = job.spec.model_copy(update={"secrets": variables or None}).to_wire(secrets=True)
    body = wire["properties"]
    with contextlib.suppress(UsageError):  # of an unknown account, which the backend will reject
        if volumes := machine_options.with_keys(body.get("mountVolumes"), backend):
            body = {**body, "mountVolumes": volumes}
    return JobSpec.of_fields(body)
