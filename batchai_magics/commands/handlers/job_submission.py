"""Submission of a job from its file and options, validated before it is created."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from batchai_magics.backends.base.backend_registry import backend_options
from batchai_magics.cell import CellRequest
from batchai_magics.cell.cell_option_values import channels_of, exports_of, restart_fields_of, tags_of
from batchai_magics.cell.cell_request import CellSource, exports_below
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import experiment_commands, mount_options, resource_commands
from batchai_magics.errors import command_error
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submission_recorder import SubmissionRecorder
from batchai_magics.jobs.watch_records import watch_records, with_watch_settings
from batchai_magics.models.backend_options import check_texts, given_options, with_backend_options
from batchai_magics.models.documents.description import load_file
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.mount_volumes import AccountKey
from batchai_magics.models.resource_ids import ResourceId, cluster_id, cluster_named_in
from batchai_magics.models.stop_conditions import conditions_of, with_conditions


@dataclass(frozen=True)
class Submission:
    """A validated job to create, with messages about its file."""

    id: ResourceId
    spec: JobSpec
    notes: tuple[str, ...] = ()
    source: CellSource | None = None
    has_provenance: bool = True  # not --no-provenance
    tags: tuple[str, ...] = ()
    notify: tuple[str, ...] = field(default=(), repr=False)
    exports: tuple[str, ...] = ()
    records: Mapping[str, str] = field(default_factory=dict)  # of the run that is submitted again


def read_new_job(context: Context, arguments: Namespace, id: ResourceId, file: Path) -> Submission:
    """Reads a job file; raises a command error if the job exists or its cluster does not."""
    read = read_job_file(context, arguments, id, file)
    if resource_commands.exists(context, id):
        raise command_error(
            "A job with given name, experiment, workspace and resource group already exists.",
            hint=f"Give it another name with -n, or see it with `batchai job show -n {id.name}`.",
        )
    context.backend.show(ResourceId.parse(read.spec.cluster.id))
    return read


def read_job_file(context: Context, arguments: Namespace, id: ResourceId, file: Path) -> Submission:
    """Reads a job file without looking at existing resources."""
    account = mount_options.account_of(context, arguments)
    description = load_file(JobSpec, file.expanduser(), account=account)
    declared = backend_options(context.settings)
    body = with_backend_options(description.body, given_options(vars(arguments), declared))
    body = _body(context, arguments, id, body, account=account)
    spec = description.checked(JobSpec, body)
    check_texts(spec.backend_options, declared, what=spec.what)
    path = file.expanduser().absolute()
    return Submission(
        id,
        spec,
        description.notes,
        source=CellSource(path.parent, name=file.name),
        has_provenance=not arguments.no_provenance,
        tags=tags_of(arguments.tag),
        notify=channels_of(arguments.notify),
        exports=exports_below(exports_of(arguments.export), context.settings, Path.cwd()),
    )


def to_cell_request(submission: Submission) -> CellRequest:
    """The equivalent request of a cell."""
    id = submission.id
    cluster = ResourceId.parse(submission.spec.cluster.id)
    return CellRequest(
        id.name,
        submission.spec,
        id.workspace,
        id.experiment,
        cluster.name,
        source=submission.source,
        has_provenance=submission.has_provenance,
        tags=submission.tags,
        notify=submission.notify,
        exports=submission.exports,
    )


def submit(context: Context, submission: Submission) -> Job:
    """Creates the job."""
    request = with_watch_settings(to_cell_request(submission), context.settings, context.backend)
    recorder = SubmissionRecorder(request, context.settings)
    experiment_commands.ensure(context, submission.id.parent)
    records = submission.records or recorder.files(request)
    records = {**records, **watch_records(replace(request, records=records), request.name)}
    context.backend.create(submission.id, submission.spec, records=records)
    return Job(context.backend, submission.id)


def _body(
    context: Context, arguments: Namespace, id: ResourceId, of_file: Mapping[str, Any], *, account: AccountKey
) -> dict[str, Any]:
    """The job's `properties`: those of the file, overridden by the options."""
    body = with_conditions(of_file, conditions_of(arguments.stop_if)) | restart_fields_of(arguments)
    body["cluster"] = {
        "id": str(cluster_id(_cluster(context, arguments, body), context.workspace(arguments)))
    }
    volumes = mount_options.with_mounts(body.get("mountVolumes"), arguments, account, owner=id)
    volumes = mount_options.with_keys(volumes, context.backend)
    return {**body, "mountVolumes": volumes} if volumes else body


def _cluster(context: Context, arguments: Namespace, body: dict[str, Any]) -> str:
    """The cluster named on the line, else in the file, else the session's."""
    named = cluster_named_in(body)
    chosen = arguments.cluster if arguments.cluster is not None else named or context.settings.cluster
    if not chosen and not named:
        raise command_error("Please provide cluster information via command line or configuration file.")
    return chosen or named or ""
