"""A job file and a line become what is submitted: an id and a description, checked before it is made."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers import credentials, experiment, mounts, resources
from batchai_magics.errors import refusal
from batchai_magics.jobs.handle import Job
from batchai_magics.models.document import read_file
from batchai_magics.models.ids import ResourceId, cluster_id
from batchai_magics.models.job import JobSpec
from batchai_magics.models.load import load_wire


@dataclass(frozen=True)
class Submission:
    """A job that can be created."""

    id: ResourceId
    spec: JobSpec


def read(context: Context, arguments: Namespace, id: ResourceId, file: Path) -> Submission:
    """What the file and the line ask for; refused if the job is there or its cluster is not."""
    spec = JobSpec.from_wire({"properties": _body(context, arguments, id, file)})
    if resources.exists(context, id):
        raise refusal(
            "A job with given name, experiment, workspace and resource group already exists.",
            hint=f"Give it another name with -n, or see it with `batchai job show -n {id.name}`.",
        )
    context.backend.show(ResourceId.parse(spec.cluster.id))
    return Submission(id, spec)


def submit(context: Context, submission: Submission) -> Job:
    """Creates the job."""
    experiment.ensure(context, submission.id.parent)
    context.backend.create(submission.id, submission.spec)
    return Job(context.backend, submission.id)


def _body(context: Context, arguments: Namespace, id: ResourceId, file: Path) -> dict[str, Any]:
    """The job's `properties`: the file's, and what the options put in their place."""
    account = credentials.account_of(context, arguments)
    path = file.expanduser()
    body = dict(load_wire(JobSpec, read_file(path), source=str(path), account=account)["properties"])
    credentials.check_volumes(body.get("mountVolumes"))
    body["cluster"] = {
        "id": str(cluster_id(_cluster(context, arguments, body), context.workspace(arguments)))
    }
    volumes = mounts.with_mounts(body.get("mountVolumes"), arguments, account, owner=id)
    volumes = credentials.with_keys(volumes, context.backend)
    return {**body, "mountVolumes": volumes} if volumes else body


def _cluster(context: Context, arguments: Namespace, body: dict[str, Any]) -> str:
    """The cluster that the line names, else the file, else the session's."""
    reference = body.get("cluster")
    named = reference.get("id") if isinstance(reference, dict) else None
    chosen = arguments.cluster if arguments.cluster is not None else named or context.settings.cluster
    if not chosen and not named:
        raise refusal("Please provide cluster information via command line or configuration file.")
    return str(chosen or named)
