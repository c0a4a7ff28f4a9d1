"""Jobs: ended by hand, and what they wrote."""

from __future__ import annotations

from batchai_magics.backends.service.dialect.headers import OWN_CLIENT
from batchai_magics.models.execution import OutputFile
from batchai_magics.models.ids import Kind
from batchai_magics.models.resources import JobResource
from batchai_magics.server.batchai.links import accepted
from batchai_magics.server.batchai.output import Addresses
from batchai_magics.server.batchai.paging import LONGEST, check_token, listed
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.errors import refusal
from batchai_magics.server.operations import TERMINATE
from batchai_magics.server.service import Service

_LONGEST_LINK_MIN = 600  # as the API has it


def terminate(service: Service, call: Call) -> Answer:
    """Asks a job to end; 200 with nothing for one that has ended already."""
    service.check_subscription(call)
    id = call.id(Kind.JOB)
    job = _job(service, call)
    service.check_owner(call, id.key)
    if job.state.is_final:
        return Answer(200)
    service.backend.terminate(id)
    return accepted(service, call, service.operations.begin(TERMINATE, str(id)))


def list_output_files(service: Service, call: Call) -> Answer:
    """One level of an output directory, each file with an address that is good for a while."""
    service.check_subscription(call)
    directory_id = call.query.get("outputdirectoryid", "")
    if not directory_id:
        message = "The required query parameter outputdirectoryid is missing."
        raise refusal(400, "MissingRequiredQueryParameter", message)
    expiry_min = call.number("linkexpiryinminutes", 60, least=5, most=_LONGEST_LINK_MIN)
    job, path = _job(service, call), folder(call.query.get("directory", "."))
    start, end = _page(call)
    files = service.backend.files(job.id, directory_id, path, expiry_min=expiry_min, limit=end + 1)
    token = str(end) if end < len(files) else None
    is_own_client = OWN_CLIENT in call.headers
    addresses = Addresses(service, call, job, directory_id, expiry_min)
    items = []
    for file in files[start:end]:
        if not (is_own_client or _is_published(file)):
            continue
        item = file.to_wire()
        if file.is_file:
            item["downloadUrl"] = addresses.of(file.path)
        items.append(item)
    return listed(call, items, token)


def _is_published(file: OutputFile) -> bool:
    """Whether it is of a kind that clients know: links and pipes are told to our own alone."""
    return file.is_file or file.is_directory


def _job(service: Service, call: Call) -> JobResource:
    job = service.backend.show(call.id(Kind.JOB))
    assert isinstance(job, JobResource), "what has the id of a job is one"
    return job


def _page(call: Call) -> tuple[int, int]:
    """Where a page begins and ends in a list sorted by name; its token is how many come before it."""
    start = int(check_token(call.query.get("$skiptoken", "")) or 0)
    return start, start + call.number("maxresults", LONGEST, least=1, most=LONGEST)


def folder(directory: str) -> str:
    """The folder that a query names, relative to the one that is listed."""
    parts = [part for part in directory.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise refusal(
            400, "InvalidQueryParameterValue", f"The directory {directory!r} leads out of the job's."
        )
    return "/".join(parts)
