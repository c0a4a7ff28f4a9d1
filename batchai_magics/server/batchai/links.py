"""Where a long-running operation is asked for: the headers of a 202, as the service sent them."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from batchai_magics.models.ids import Kind
from batchai_magics.models.resources import Workspace
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.errors import refusal
from batchai_magics.server.operations import Operation
from batchai_magics.server.service import Service

API_VERSION = "2018-05-01"
# The default of all clients is 30 s, also for 0.
RETRY_S = "1"


def accepted(service: Service, call: Call, operation: Operation) -> Answer:
    """202, empty, with both headers. Their names are the opposite of what one expects, as recorded."""
    query, location = f"api-version={API_VERSION}", _location(service, call)
    headers = {
        "Location": call.link(_path(service, location, "operationstatuses", operation), query),
        "Azure-AsyncOperation": call.link(_path(service, location, "operationresults", operation), query),
        "Retry-After": RETRY_S,
    }
    return Answer(202, headers=headers)


def result(service: Service, call: Call) -> Answer:
    """The operation as it stands."""
    operation = _find(service, call)
    return _told(service, call, operation, 200)


def status(service: Service, call: Call) -> Answer:
    """The same, with 202 while it is in progress: for clients that only look at the status."""
    operation = _find(service, call)
    return _told(service, call, operation, 202 if operation.ended is None else 200)


def _find(service: Service, call: Call) -> Operation:
    service.check_subscription(call)
    name = call.parts["operation"]
    operation = service.operations.find(name)
    if operation is None:
        raise refusal(404, "OperationNotFound", f"The specified operation {name} is not found")
    return operation


def _told(service: Service, call: Call, operation: Operation, status: int) -> Answer:
    url = f"{call.origin}{_path(service, call.parts['location'], 'operationresults', operation)}"
    answer = Answer(status, operation.to_wire(url))
    if operation.ended is not None:
        return answer
    return replace(answer.with_headers(Retry_After=RETRY_S), is_news=False)


def _location(service: Service, call: Call) -> str:
    """The location of the workspace that a call is about, as addresses spell it: `northeurope`."""
    found = service.backend.status([call.id(Kind.WORKSPACE)]).states.values()
    named = next((resource.location for resource in found if isinstance(resource, Workspace)), "")
    return quote(named.replace(" ", "").lower()) or service.location


def _path(service: Service, location: str, word: str, operation: Operation) -> str:
    scope = f"/subscriptions/{service.subscription}/providers/Microsoft.BatchAI"
    return f"{scope}/locations/{location}/{word}/{operation.name}"
