"""Handlers of jobs: terminate, list output files, and read logs.

Logs are redacted for everyone but the job's owner; all watchers of a job share its long polls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from batchai_magics.backends.base import Chunk
from batchai_magics.backends.service.extension_wire import AT_ONCE, OWN_CLIENT
from batchai_magics.errors import BatchAIError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse, content_digest, positions_field
from batchai_magics.server.batchai.batchai_responses import (
    MAX_PAGE_SIZE,
    accepted_response,
    page_number,
    page_response,
    requested_page,
    resource_json,
)
from batchai_magics.server.batchai.output_addresses import addressed_folder, log_at, signed_url
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.operations import TERMINATE

_GENERATION_PARTS = 2  # of a generation; after them comes a digest of the first bytes
Mask = Callable[[int, bytes], bytes]  # from an offset and the bytes there, to as many bytes


def chunk_redactor(context: HandlerContext, call: ApiCall, job: ResourceId) -> Callable[[Chunk], Chunk]:
    """A function that redacts chunks of a job's files for the caller; the owner gets them unchanged."""
    if context.is_owner(call, job.key) or not _has_secrets(context, job):
        return lambda chunk: chunk

    def redact(chunk: Chunk) -> Chunk:
        # also without digests, from which secrets could be guessed
        generation = "-".join(chunk.generation.split("-")[:_GENERATION_PARTS])
        return replace(chunk.redacted, seal=None, generation=generation)

    return redact


def byte_mask(context: HandlerContext, path: str) -> Mask | None:
    """A function that redacts bytes read through a share or signed URL; None unless it is a log with secrets.

    Neither account keys nor URLs identify the reader, so everyone gets redacted logs there.
    """
    file = log_at(context, path)
    if file is None or not _has_secrets(context, file.job):
        return None

    def mask(offset: int, data: bytes) -> bytes:
        chunk = context.backend.read(file, offset, len(data))
        return replace(chunk, data=data, offset=offset).redacted.data

    return mask


def _has_secrets(context: HandlerContext, job: ResourceId) -> bool:
    try:
        resource = context.backend.show(job)
    except BatchAIError:  # reported when its file is read
        return False
    return isinstance(resource, JobResource) and bool(resource.spec.secrets)


@dataclass(frozen=True)
class JobLogState:
    """A job at one moment: a digest of its and its cluster's state, and the size of each log."""

    state: str
    sizes: Mapping[str, int]
    cluster: ResourceId | None = None


class LogWatcher:
    """Waits for new bytes of a job's logs, or a state change of the job or its cluster.

    The client's known state has two parts. The second covers logs missing from its positions, so that they
    are reported once and not in every response.
    """

    def __init__(self, call: ApiCall) -> None:
        self._call = call
        self._positions = positions_field(call.json())

    def poll(self, context: HandlerContext, last: ApiResponse | None) -> ApiResponse:
        """Reads the job's state and log sizes; later polls read only what has changed."""
        job = self._call.id(Kind.JOB)
        previous = last.data if last and isinstance(last.data, JobLogState) else JobLogState("", {})
        cluster = previous.cluster
        status = context.backend.status([job, cluster] if cluster else [job])
        resource = status.of(job)
        if cluster is None and isinstance(resource, JobResource):
            cluster = ResourceId.parse(resource.spec.cluster.id)
            status = context.backend.status([job, cluster])
        state = content_digest([resource_json(context, resource) for resource in status.states.values()])
        changed = context.backend.tail(job, previous.sizes, 1)
        sizes = {**previous.sizes, **{path: chunk.size for path, chunk in changed.items()}}
        return ApiResponse(data=JobLogState(state, sizes, cluster))

    def state(self, logs: JobLogState) -> str:
        """The state to respond with."""
        other_logs = {path: size for path, size in logs.sizes.items() if size and path not in self._positions}
        return f"{logs.state}.{content_digest(other_logs)}" if other_logs else logs.state

    def first_state(self, logs: JobLogState) -> str:
        """The state assumed for a client that sends none: the current one, if it has read any log."""
        return self.state(logs) if self._positions else ""

    def is_other_state(self, logs: JobLogState, known: str) -> bool:
        """Whether the state differs from the one that the client knows."""
        state, _, other_logs = self.state(logs).partition(".")
        known_state, _, known_other_logs = known.partition(".")
        return state != known_state or other_logs not in ("", known_other_logs)

    def has_bytes(self, logs: JobLogState) -> bool:
        """Whether a log's size differs from the client's position."""
        return any(logs.sizes.get(path, position) != position for path, position in self._positions.items())


_MAX_LINK_MIN = 600  # as the API has it


def terminate(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Requests termination of a job; an empty 200 if it has already ended."""
    id = call.id(Kind.JOB)
    job = _job(context, call)
    context.check_owner(call, id.key)
    if job.state.is_final:
        return ApiResponse(200)
    context.backend.terminate(id, now=AT_ONCE in call.headers)
    return accepted_response(context, call, context.operations.start(TERMINATE, str(id)))


def list_output_files(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists one level of an output directory, each file with a download URL that expires."""
    directory_id = call.query.get("outputdirectoryid", "")
    if not directory_id:
        message = "The required query parameter outputdirectoryid is missing."
        raise ApiError(400, "MissingRequiredQueryParameter", message)
    expiry_min = call.integer_parameter("linkexpiryinminutes", 60, minimum=5, maximum=_MAX_LINK_MIN)
    job, path = _job(context, call), directory_path(call.query.get("directory", "."))
    page = requested_page(call)
    start = page_number(page) or 0  # of a list sorted by name; the token is the number of entries before it
    end = start + (page.size or MAX_PAGE_SIZE)
    files = context.backend.files(job.id, directory_id, path, expiry_min=expiry_min, limit=end + 1)
    token = str(end) if end < len(files) else None
    is_own_client = OWN_CLIENT in call.headers
    folder = addressed_folder(context, job, directory_id)
    items = []
    for file in files[start:end]:
        if not (is_own_client or file.is_file or file.is_directory):  # the published API has no other kinds
            continue
        item = file.to_wire()
        if file.is_file:
            item["downloadUrl"] = signed_url(context, call, folder, file.path, expiry_min=expiry_min)
        items.append(item)
    return page_response(call, items, token)


def _job(context: HandlerContext, call: ApiCall) -> JobResource:
    job = context.backend.show(call.id(Kind.JOB))
    assert isinstance(job, JobResource), "what has the id of a job is one"
    return job


def directory_path(directory: str) -> str:
    """The folder named in the query, relative to the listed directory."""
    parts = [part for part in directory.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ApiError(
            400, "InvalidQueryParameterValue", f"The directory {directory!r} is outside the job's."
        )
    return "/".join(parts)
