"""Extensions for our own client: operations the published API lacks.

Log chunks with ranks and write times, the states of many resources at once, commands on nodes, and creating
all that a job needs in one request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from batchai_magics.backends.base import (
    NODE_COMMANDS,
    PREEMPTION,
    RECORDS,
    SETUP_LOGS,
    TELEMETRY,
    FileRef,
    JobNeeds,
    Pace,
    Spec,
)
from batchai_magics.backends.base.protocol import ignoring_existing, missing
from batchai_magics.backends.service import extension_bodies, extension_wire
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name, check_share_name
from batchai_magics.models.resources import ExperimentSpec, JobResource, WorkspaceSpec
from batchai_magics.models.runs.labels import LabelChange
from batchai_magics.server.api_call import (
    JSON,
    MAX_READ_BYTES,
    ApiCall,
    ApiError,
    ApiResponse,
    content_digest,
    encode_json,
    integer_field,
    positions_field,
    string_field,
)
from batchai_magics.server.batchai import job_handlers, resource_handlers
from batchai_magics.server.batchai.batchai_responses import resource_json
from batchai_magics.server.batchai.job_handlers import directory_path
from batchai_magics.server.handler_context import HandlerContext

MAX_IDS = 5000  # per request
PACE = Pace(poll_interval_s=0.1, max_wait_s=10.0)
_MAX_TIMESTAMP_S = 1e12  # since 1970
_HEARTBEAT_S = 0.5  # between heartbeats of a silent command


def show_capabilities(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Shows what the backend behind this server supports."""
    return ApiResponse(data=extension_wire.info_to_wire(context.backend, PACE))


def query_states(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """The resources of many `ids` that exist; `x-batchai-since` waits for a change."""
    states = context.backend.status(_ids(call)).states.values()
    value = [resource_json(context, resource) for resource in states]
    return ApiResponse(data={"value": value}, state=content_digest(value))


def show_host_note(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """What `Backend.host_note` returns for the job in the request."""
    return ApiResponse(data={"value": context.backend.host_note(JobSpec.from_wire(call.json()))})


def _ids(call: ApiCall) -> list[ResourceId]:
    """The `ids` of a request."""
    ids = call.json().get("ids")
    if not isinstance(ids, list) or len(ids) > MAX_IDS:
        raise ApiError(400, "InvalidRequestContent", f"ids must be a list of at most {MAX_IDS} ids.")
    return [ResourceId.parse(str(id)) for id in ids]


def read_file(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Reads bytes of one file: `path`, `directoryId`, `offset` and `limit`."""
    body = call.json()
    file = FileRef(
        call.id(Kind.JOB), string_field(body, "path"), string_field(body, "directoryId", STDOUTERR)
    )
    chunk = context.backend.read(
        file, integer_field(body, "offset", 0), integer_field(body, "limit", MAX_READ_BYTES)
    )
    return ApiResponse(
        data=extension_bodies.chunk_to_wire(job_handlers.chunk_redactor(context, call, file.job)(chunk))
    )


def tail_logs(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """The new bytes of all logs beyond `positions`.

    A long poll returns when there are some, or when the job or its cluster changes state.
    """
    body, job = call.json(), call.id(Kind.JOB)
    chunks = context.backend.tail(job, positions_field(body), integer_field(body, "limit", MAX_READ_BYTES))
    redact = job_handlers.chunk_redactor(context, call, job)
    data = {"value": {path: extension_bodies.chunk_to_wire(redact(chunk)) for path, chunk in chunks.items()}}
    # encoded once for all clients that wait for the same bytes
    return ApiResponse(body=encode_json(data), headers={"Content-Type": JSON}, is_news=bool(chunks))


def list_jobs_ahead(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """The ids of the jobs that get nodes before a queued one, in order."""
    job = context.backend.show(call.id(Kind.JOB))
    ids = context.backend.jobs_ahead_of(job) if isinstance(job, JobResource) else ()
    return ApiResponse(data={"value": [str(id) for id in ids]})


def execute_command(kind: Kind, context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Runs a command on a node of a cluster or job and streams its output."""
    id, body = call.id(kind), call.json()
    node_commands = NODE_COMMANDS.of(context.backend)
    context.backend.show(id)
    context.check_owner(call, id.key)
    node, command = string_field(body, "nodeId"), string_field(body, "command")
    output = node_commands.execute(id, node, command, tick_s=_HEARTBEAT_S)
    return ApiResponse(chunks=_closing_lines(output), headers={"Content-Type": "application/x-ndjson"})


def preempt_node(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Preempts a node of a cluster."""
    cluster, node = call.id(Kind.CLUSTER), string_field(call.json(), "nodeId")
    nodes = PREEMPTION.of(context.backend)
    context.backend.show(cluster)
    context.check_owner(call, cluster.key)
    nodes.preempt(cluster, node)
    return ApiResponse(204)


def read_telemetry(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """The telemetry samples of a job taken after `after`, in seconds since the epoch."""
    after = call.json().get("after", 0.0)
    if (
        isinstance(after, bool)
        or not isinstance(after, (int, float))
        or not -_MAX_TIMESTAMP_S < after < _MAX_TIMESTAMP_S
    ):
        raise ApiError(400, "InvalidRequestContent", "after must be a number: seconds since 1970.")
    return ApiResponse(data=TELEMETRY.of(context.backend).read(call.id(Kind.JOB), after=after).to_wire())


def read_records(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """The record files of a run with these `names`; a name that ends with `/` is a whole folder."""
    names = call.json().get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) > 100:
        raise ApiError(400, "InvalidRequestContent", "names must be a list of at most 100 texts.")
    files = RECORDS.of(context.backend).read(call.id(Kind.JOB), names)
    return ApiResponse(data={"value": extension_bodies.files_to_wire(files)})


def read_labels(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """The labels of those jobs among `ids` that have any."""
    labels = RECORDS.of(context.backend).labels(_ids(call))
    return ApiResponse(data=extension_bodies.labels_to_wire(labels))


def change_labels(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Changes the labels of a job: tags to `add` and `remove`, a `note`, `parameters`."""
    job = call.id(Kind.JOB)
    try:
        change = LabelChange.from_json(call.json())
    except ValueError as error:
        raise ApiError(400, "InvalidRequestContent", f"{error}.") from None
    records = RECORDS.of(context.backend)
    context.backend.show(job)
    context.check_owner(call, job.key)
    return ApiResponse(data=records.relabel(job, change).to_json())


def show_baseline(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """The name of the run that others of an experiment are compared with."""
    return ApiResponse(data={"value": RECORDS.of(context.backend).baseline(call.id(Kind.EXPERIMENT))})


def list_setup_files(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists one level of the output of a cluster's setup tasks; `directory` selects it."""
    logs = SETUP_LOGS.of(context.backend)
    files = logs.files(call.id(Kind.CLUSTER), directory_path(call.query.get("directory", ".")))
    return ApiResponse(data={"value": [file.to_wire() for file in files]})


def _closing_lines(output: Any) -> Iterator[bytes]:
    """The output lines of a command; closing the iterator ends the command."""
    try:
        yield from extension_bodies.output_to_lines(output)
    finally:
        output.close()


MAX_RESOURCES = 10
_MODELS: Mapping[Kind, type[WorkspaceSpec | ExperimentSpec | ClusterSpec]] = {
    Kind.WORKSPACE: WorkspaceSpec,
    Kind.EXPERIMENT: ExperimentSpec,
    Kind.CLUSTER: ClusterSpec,
}


def ensure_resources(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Creates missing `resources` (each an `id` and a `body`) and a `share`; returns the runs of a `job`.

    Before that, the `spec` of the job is checked.

    `files` have the scripts of the job by path, as base64 text, from clients whose users have no shares here.
    """
    body = call.json()
    job = _parse_id(context, string_field(body, "job"))
    needs = JobNeeds(job, tuple(_parse_resources(context, body)))
    try:
        files = extension_bodies.files_from_wire(body.get("files", {}))
    except ValueError as error:
        raise ApiError(400, "InvalidRequestContent", str(error)) from error
    share = string_field(body, "share") if body.get("share") or files else ""
    if share:
        check_share_name(share.rpartition("/")[2])
    if body.get("spec"):
        context.backend.check_needs(replace(needs, spec=JobSpec.from_wire(body["spec"])))
    for id, spec in missing(context.backend, needs):
        with ignoring_existing(context.backend, id):
            resource_handlers.create_owned(context, call.user.name, id, spec, is_new=True)
    runs = context.backend.ensure(JobNeeds(job, share=share, files=files))
    return ApiResponse(data={"value": [resource_json(context, run) for run in runs]})


def _parse_resources(context: HandlerContext, body: Mapping[str, Any]) -> Iterator[tuple[ResourceId, Spec]]:
    resources = body.get("resources", [])
    if not isinstance(resources, list) or len(resources) > MAX_RESOURCES:
        message = f"resources must be a list of at most {MAX_RESOURCES} objects."
        raise ApiError(400, "InvalidRequestContent", message)
    for item in resources:
        if not isinstance(item, Mapping) or not isinstance(item.get("body"), Mapping):
            raise ApiError(400, "InvalidRequestContent", "Each of resources must have an id and a body.")
        id = _parse_id(context, string_field(item, "id"))
        if id.kind not in _MODELS:
            message = f"{id} is not a workspace, experiment or cluster."
            raise ApiError(400, "InvalidRequestContent", message)
        yield id, _MODELS[id.kind].from_wire(item["body"])


def _parse_id(context: HandlerContext, value: str) -> ResourceId:
    """The id of a resource in this server's subscription."""
    id = ResourceId.parse(value)
    if id.subscription.lower() != context.subscription.lower():
        message = f"The subscription '{id.subscription}' could not be found."
        raise ApiError(404, "SubscriptionNotFound", message)
    check_name(id.name, id.kind)
    return id
