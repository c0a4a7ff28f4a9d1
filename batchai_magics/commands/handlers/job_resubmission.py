"""`batchai job resubmit`: runs a job again under the next name of its series."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from pydantic import SecretStr

from batchai_magics.backends.base import Backend
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import bulk_jobs, mount_options, resource_commands
from batchai_magics.commands.handlers.job_submission import Submission, submit
from batchai_magics.commands.output.command_progress import Operation
from batchai_magics.errors import UsageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submission_recorder import records_of_another
from batchai_magics.jobs.submit import next_run
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource, Resource


def resubmit(context: Context, arguments: Namespace) -> Job | Operation:
    """Resubmits the job; with `--state`, all jobs in that state."""
    bulk_jobs.check_selection(arguments)
    secrets = _secrets(arguments.secret or (), os.environ)
    if not arguments.state:
        return submit(context, _resubmission(context, _named_job(context, arguments), secrets))
    jobs = [_job_of(context, id) for id in bulk_jobs.job_ids_in_state(context, arguments)]
    for job in jobs:
        _spec(context.backend, job, secrets)  # before anything is created
    back = "The created jobs keep running; see it with `batchai job list`."
    return Operation("Submitting", len(jobs), "job", _resubmit_all(context, jobs, secrets), back)


def resubmit_with_env(backend: Backend, job: JobResource, env: Mapping[str, str]) -> Job:
    """Resubmits a job with its secrets from `env`; raises UsageError that names missing ones."""
    names = [item.name for item in job.spec.secrets or () if item.name in env]
    spec = _spec(backend, job, {name: env[name] for name in names})
    id = job.id.parent.child(Kind.JOB, next_run(backend, job.id.parent, job.id.name))
    backend.create(id, spec, records=records_of_another(backend, job.id))
    return Job(backend, id)


def _resubmit_all(
    context: Context, jobs: Sequence[JobResource], secrets: Mapping[str, str]
) -> Generator[int, None, list[Resource]]:
    made = []
    for job in jobs:
        made.append(submit(context, _resubmission(context, job, secrets)))
        yield 1
    return [job.show() for job in made]


def _resubmission(context: Context, job: JobResource, secrets: Mapping[str, str]) -> Submission:
    name = next_run(context.backend, job.id.parent, job.id.name)
    id, spec = job.id.parent.child(Kind.JOB, name), _spec(context.backend, job, secrets)
    records = records_of_another(context.backend, job.id)
    return Submission(id, spec, has_provenance=False, records=records)


def _spec(backend: Backend, job: JobResource, secrets: Mapping[str, str]) -> JobSpec:
    """The job's spec with keys and secrets, which backends never return, filled in again."""
    missing = [item.name for item in job.spec.secrets or () if item.name not in secrets]
    if missing:
        raise UsageError(
            f"job {job.id.name} needs the secrets {', '.join(missing)}, which are not stored",
            hint=f"Put them in the environment and add --secret {' '.join(missing)}.",
        )
    wire = _wire_with(job.spec, secrets)
    body = wire["properties"]
    volumes = _with_keys(backend, body.get("mountVolumes"))
    return JobSpec.from_wire({"properties": {**body, "mountVolumes": volumes}} if volumes else wire)


def _wire_with(spec: JobSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    with_values = tuple(
        item.model_copy(update={"value": SecretStr(secrets[item.name])}) for item in spec.secrets or ()
    )
    return spec.model_copy(update={"secrets": with_values or None}).to_wire(secrets=True)


def _with_keys(backend: Backend, volumes: Any) -> Any:
    """The volumes with their keys; unchanged for an unknown account, which the backend will reject."""
    try:
        return mount_options.with_keys(volumes, backend)
    except UsageError:
        return volumes


def _secrets(names: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    for name in names:
        if name not in env:
            raise UsageError(f"--secret {name}: there is no environment variable of that name")
    return {name: env[name] for name in names}


def _named_job(context: Context, arguments: Namespace) -> JobResource:
    job = resource_commands.show(context, arguments, Kind.JOB)
    assert isinstance(job, JobResource)
    return job


def _job_of(context: Context, id: ResourceId) -> JobResource:
    job = context.backend.show(id)
    assert isinstance(job, JobResource)
    return job
