"""Handlers of jobs: terminate, and list output files."""

from __future__ import annotations

from batchai_magics.backends.service.extension_wire import OWN_CLIENT
from batchai_magics.models.job_execution import OutputFile
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import JobResource
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.api_errors import ApiError
from batchai_magics.server.batchai.batchai_responses import (
    MAX_PAGE_SIZE,
    accepted_response,
    check_skip_token,
    page_response,
)
from batchai_magics.server.batchai.output_addresses import OutputAddresses
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.operations import TERMINATE

_LONGEST_LINK_MIN = 600  # as the API has it


def terminate(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Requests termination of a job; an empty 200 if it has already ended."""
    context.check_subscription(call)
    id = call.id(Kind.JOB)
    job = _job(context, call)
    context.check_owner(call, id.key)
    if job.state.is_final:
        return ApiResponse(200)
    context.backend.terminate(id)
    return accepted_response(context, call, context.operations.start(TERMINATE, str(id)))


def list_output_files(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists one level of an output directory, each file with a download URL that expires."""
    context.check_subscription(call)
    directory_id = call.query.get("outputdirectoryid", "")
    if not directory_id:
        message = "The required query parameter outputdirectoryid is missing."
        raise ApiError(400, "MissingRequiredQueryParameter", message)
    expiry_min = call.integer_parameter("linkexpiryinminutes", 60, minimum=5, maximum=_LONGEST_LINK_MIN)
    job, path = _job(context, call), directory_path(call.query.get("directory", "."))
    start, end = _page_range(call)
    files = context.backend.files(job.id, directory_id, path, expiry_min=expiry_min, limit=end + 1)
    token = str(end) if end < len(files) else None
    is_own_client = OWN_CLIENT in call.headers
    addresses = OutputAddresses(context, call, job, directory_id, expiry_min)
    items = []
    for file in files[start:end]:
        if not (is_own_client or _is_published(file)):
            continue
        item = file.to_wire()
        if file.is_file:
            item["downloadUrl"] = addresses.of(file.path)
        items.append(item)
    return page_response(call, items, token)


def _is_published(file: OutputFile) -> bool:
    """Whether the published API knows this kind of file; links and pipes only our own client does."""
    return file.is_file or file.is_directory


def _job(context: HandlerContext, call: ApiCall) -> JobResource:
    job = context.backend.show(call.id(Kind.JOB))
    assert isinstance(job, JobResource), "what has the id of a job is one"
    return job


def _page_range(call: ApiCall) -> tuple[int, int]:
    """Start and end of a page in a list sorted by name; the token is the number of entries before it."""
    start = int(check_skip_token(call.query.get("$skiptoken", "")) or 0)
    return start, start + call.integer_parameter(
        "maxresults", MAX_PAGE_SIZE, minimum=1, maximum=MAX_PAGE_SIZE
    )


def directory_path(directory: str) -> str:
    """The folder named in the query, relative to the listed directory."""
    parts = [part for part in directory.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ApiError(
            400, "InvalidQueryParameterValue", f"The directory {directory!r} is outside the job's."
        )
    return "/".join(parts)
