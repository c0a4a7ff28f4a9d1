"""Long polls of a job's logs: one poll of the backend serves all who watch the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from batchai_magics.backends.base import StatusSnapshot
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.server.batchai.body_fields import positions
from batchai_magics.server.batchai.shown import shown
from batchai_magics.server.call import Answer, Call, digest_of
from batchai_magics.server.service import Service


@dataclass(frozen=True)
class JobLogs:
    """A job at one moment: a digest of its state and its cluster's, and the size of each log."""

    state: str
    sizes: Mapping[str, int]
    cluster: ResourceId | None = None


class LogWatcher:
    """Somebody who waits for new bytes of a job's logs, or another state of the job or its cluster.

    The state that it knows has two parts. The second one is of the logs whose position it leaves out, so that
    they are news once and not in every answer.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._positions = positions(call.json())

    def poll(self, service: Service, last: Answer | None) -> Answer:
        """The job's state and the sizes of its logs; a poll after another one reads only what has changed."""
        service.check_subscription(self._call)
        job = self._call.id(Kind.JOB)
        before = last.data if last and isinstance(last.data, JobLogs) else JobLogs("", {})
        look, cluster = _look(service, job, before.cluster)
        state = digest_of([shown(service, resource) for resource in look.states.values()])
        changed = service.backend.tail(job, before.sizes, 1)
        sizes = {**before.sizes, **{path: chunk.size for path, chunk in changed.items()}}
        return Answer(data=JobLogs(state, sizes, cluster))

    def state(self, logs: JobLogs) -> str:
        """The state to answer with."""
        left_out = {path: size for path, size in logs.sizes.items() if size and path not in self._positions}
        return f"{logs.state}.{digest_of(left_out)}" if left_out else logs.state

    def first_state(self, logs: JobLogs) -> str:
        """The state that it is taken to know when it names none: the present one, if it knows any log."""
        return self.state(logs) if self._positions else ""

    def is_other_state(self, logs: JobLogs, known: str) -> bool:
        """Whether the state is not the one that it knows."""
        state, _, left_out = self.state(logs).partition(".")
        known_state, _, known_left_out = known.partition(".")
        return state != known_state or left_out not in ("", known_left_out)

    def has_bytes(self, logs: JobLogs) -> bool:
        """Whether a log whose position it gives is not as long as that."""
        return any(logs.sizes.get(path, position) != position for path, position in self._positions.items())


def _look(
    service: Service, job: ResourceId, cluster: ResourceId | None
) -> tuple[StatusSnapshot, ResourceId | None]:
    """The job and its cluster, and which one that is."""
    look = service.backend.status([job, cluster] if cluster else [job])
    resource = look.of(job)
    if cluster is None and isinstance(resource, JobResource):
        cluster = ResourceId.parse(resource.spec.cluster.id)
        look = service.backend.status([job, cluster])
    return look, cluster
