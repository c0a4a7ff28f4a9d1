"""A job file and a line become what is submitted: an id and a description, checked before it is made."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchai_magics.cell import CellRequest
from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers import credentials, experiment, mounts, resources
from batchai_magics.errors import command_error
from batchai_magics.jobs.handle import Job
from batchai_magics.models.documents.load import load_file
from batchai_magics.models.ids import ResourceId, cluster_id, cluster_named_in
from batchai_magics.models.job import JobSpec
from batchai_magics.models.slurm_options import with_slurm_options
from batchai_magics.models.stop_conditions import conditions_of, with_conditions
from batchai_magics.models.storage import AccountKey


@dataclass(frozen=True)
class Submission:
    """A job that can be created, and what to know of its file."""

    id: ResourceId
    spec: JobSpec
    notes: tuple[str, ...] = ()


def read(context: Context, arguments: Namespace, id: ResourceId, file: Path) -> Submission:
    """What the file and the line ask for; refused if the job is there or its cluster is not."""
    read = described(context, arguments, id, file)
    if resources.exists(context, id):
        raise command_error(
            "A job with given name, experiment, workspace and resource group already exists.",
            hint=f"Give it another name with -n, or see it with `batchai job show -n {id.name}`.",
        )
    context.backend.show(ResourceId.parse(read.spec.cluster.id))
    return read


def described(context: Context, arguments: Namespace, id: ResourceId, file: Path) -> Submission:
    """The same, whatever is there."""
    account = credentials.account_of(context, arguments)
    description = load_file(JobSpec, file.expanduser(), account=account)
    body = _body(context, arguments, id, description.body, account=account)
    return Submission(id, description.checked(JobSpec, body), description.notes)


def request(submission: Submission) -> CellRequest:
    """What a cell would have asked for."""
    id = submission.id
    cluster = ResourceId.parse(submission.spec.cluster.id)
    return CellRequest(id.name, submission.spec, id.workspace, id.experiment, cluster.name)


def submit(context: Context, submission: Submission) -> Job:
    """Creates the job."""
    experiment.ensure(context, submission.id.parent)
    context.backend.create(submission.id, submission.spec)
    return Job(context.backend, submission.id)


def _body(
    context: Context, arguments: Namespace, id: ResourceId, of_file: Mapping[str, Any], *, account: AccountKey
) -> dict[str, Any]:
    """The job's `properties`: the file's, and what the options put in their place."""
    body = with_conditions(of_file, conditions_of(arguments.stop_if))
    body = with_slurm_options(body, arguments.slurm)
    body["cluster"] = {
        "id": str(cluster_id(_cluster(context, arguments, body), context.workspace(arguments)))
    }
    volumes = mounts.with_mounts(body.get("mountVolumes"), arguments, account, owner=id)
    volumes = credentials.with_keys(volumes, context.backend)
    return {**body, "mountVolumes": volumes} if volumes else body


def _cluster(context: Context, arguments: Namespace, body: dict[str, Any]) -> str:
    """The cluster that the line names, else the file, else the session's."""
    named = cluster_named_in(body)
    chosen = arguments.cluster if arguments.cluster is not None else named or context.settings.cluster
    if not chosen and not named:
        raise command_error("Please provide cluster information via command line or configuration file.")
    return chosen or named or ""
