"""What our own client alone asks for: the published API has no words for it.

Which rank wrote what and when, whether a file can grow, many resources in one question, commands on nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batchai_magics.backends.base import (
    NODE_COMMANDS,
    PREEMPTION,
    SETUP_LOGS,
    TELEMETRY,
    FileRef,
    NodeCommands,
    Pace,
    Preemption,
    SetupLogs,
    StatusSnapshot,
)
from batchai_magics.backends.service.dialect import capabilities, chunks, commands
from batchai_magics.models.execution import STDOUTERR
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.server.batchai import log_secrets
from batchai_magics.server.batchai.body_fields import MOST_BYTES, number, positions, text
from batchai_magics.server.batchai.jobs import folder
from batchai_magics.server.batchai.shown import shown
from batchai_magics.server.call import Answer, Call, digest_of
from batchai_magics.server.errors import refusal
from batchai_magics.server.service import Handler, Service

MOST_IDS = 5000  # in one look
PACE = Pace(look_s=0.1, longest_wait_s=10.0)
_LATEST_S = 1e12  # since 1970
_TICK_S = 0.5  # between two signs of life of a command that writes nothing


def offer(service: Service, call: Call) -> Answer:
    """What the backend behind this server can do."""
    return Answer(data=capabilities.to_wire(service.backend, PACE))


def status(service: Service, call: Call) -> Answer:
    """The resources of many `ids`, those that are there; `x-batchai-since` waits for another state."""
    service.check_subscription(call)
    ids = call.json().get("ids")
    if not isinstance(ids, list) or len(ids) > MOST_IDS:
        raise refusal(400, "InvalidRequestContent", f"ids must be a list of at most {MOST_IDS} ids.")
    value = _wire(service, service.backend.status([ResourceId.parse(str(id)) for id in ids]))
    return Answer(data={"value": value}, state=digest_of(value))


def read(service: Service, call: Call) -> Answer:
    """A piece of one file: `path`, `directoryId`, `offset` and `limit` say which."""
    service.check_subscription(call)
    body = call.json()
    file = FileRef(call.id(Kind.JOB), text(body, "path"), text(body, "directoryId", STDOUTERR))
    chunk = service.backend.read(file, number(body, "offset", 0), number(body, "limit", MOST_BYTES))
    return Answer(data=chunks.to_wire(log_secrets.for_caller(service, call, file.job)(chunk)))


def tail(service: Service, call: Call) -> Answer:
    """The new bytes of all logs; `positions` says how far each is known.

    Who waits is answered when there are some, or when the job or its cluster is in another state.
    """
    service.check_subscription(call)
    body, job = call.json(), call.id(Kind.JOB)
    new = service.backend.tail(job, positions(body), number(body, "limit", MOST_BYTES))
    readable = log_secrets.for_caller(service, call, job)
    data = {"value": {path: chunks.to_wire(readable(chunk)) for path, chunk in new.items()}}
    return Answer(data=data, is_news=bool(new))


def jobs_ahead_of(service: Service, call: Call) -> Answer:
    """The ids of the jobs that get nodes before a queued one, in turn."""
    service.check_subscription(call)
    job = service.backend.show(call.id(Kind.JOB))
    before = service.backend.jobs_ahead_of(job) if isinstance(job, JobResource) else ()
    return Answer(data={"value": [str(id) for id in before]})


def execute(kind: Kind) -> Handler:
    """What runs a command on a node of a cluster or a job, and gives what it writes as it comes."""

    def handle(service: Service, call: Call) -> Answer:
        service.check_subscription(call)
        id, body = call.id(kind), call.json()
        on_nodes: NodeCommands = NODE_COMMANDS.of(service.backend)
        service.backend.show(id)
        service.check_owner(call, id.key)
        node, command = text(body, "nodeId"), text(body, "command")
        output = on_nodes.execute(id, node, command, tick_s=_TICK_S)
        return Answer(pieces=_closing(output), headers={"Content-Type": "application/x-ndjson"})

    return handle


def preempt(service: Service, call: Call) -> Answer:
    """Takes a node of a cluster away."""
    service.check_subscription(call)
    cluster, node = call.id(Kind.CLUSTER), text(call.json(), "nodeId")
    nodes: Preemption = PREEMPTION.of(service.backend)
    service.backend.show(cluster)
    service.check_owner(call, cluster.key)
    nodes.preempt(cluster, node)
    return Answer(204)


def telemetry(service: Service, call: Call) -> Answer:
    """The samples of what a job's processes use that were taken later than `after`, in seconds since 1970."""
    service.check_subscription(call)
    after = call.json().get("after", 0.0)
    if isinstance(after, bool) or not isinstance(after, (int, float)) or not -_LATEST_S < after < _LATEST_S:
        raise refusal(400, "InvalidRequestContent", "after must be a number: seconds since 1970.")
    return Answer(data=TELEMETRY.of(service.backend).read(call.id(Kind.JOB), after=after).to_wire())


def setup_files(service: Service, call: Call) -> Answer:
    """One level of what the setup tasks of a cluster wrote; `directory` says which."""
    service.check_subscription(call)
    logs: SetupLogs = SETUP_LOGS.of(service.backend)
    files = logs.files(call.id(Kind.CLUSTER), folder(call.query.get("directory", ".")))
    return Answer(data={"value": [file.to_wire() for file in files]})


def _closing(output: Any) -> Iterator[bytes]:
    """The lines of a command's output; when they are not wanted any more, the command ends."""
    try:
        yield from commands.to_lines(output)
    finally:
        output.close()


def _wire(service: Service, look: StatusSnapshot) -> list[dict[str, Any]]:
    return [shown(service, resource) for resource in look.states.values()]
