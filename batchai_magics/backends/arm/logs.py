"""Pieces of logs from our own server, with all that its backend knows of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from batchai_magics.backends.arm import paths
from batchai_magics.backends.arm.connection import Connection
from batchai_magics.backends.arm.far_side import FarSide
from batchai_magics.backends.arm.paths import Question
from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.backends.service.dialect import chunks
from batchai_magics.backends.service.dialect.headers import PREFER, SINCE, STATE, waiting
from batchai_magics.models.ids import ResourceId

_MOST_JOBS = 500  # whose states are kept for the next question


class Logs:
    """Reads and tails; remembers how each job stood when its tail was asked for last, and its logs then."""

    def __init__(self, connection: Connection, far: FarSide) -> None:
        self._connection, self._far = connection, far
        self._states: dict[str, tuple[str, Collection[str]]] = {}

    def read(self, file: FileRef, offset: int, limit: int) -> Chunk:
        """A piece of one file."""
        body = {"path": file.path, "directoryId": file.directory_id, "offset": offset, "limit": limit}
        return chunks.from_wire(
            self._connection.ask(Question("POST", paths.of(file.job, "batchaiRead"), body=body))
        )

    def tail(
        self, job: ResourceId, positions: Mapping[str, int], limit: int, *, wait_s: float
    ) -> Mapping[str, Chunk]:
        """The new bytes of all logs. With `wait_s` the server waits for some, or for a change of the job."""
        body = {"positions": dict(positions), "limit": limit}
        headers = {PREFER: waiting(wait_s), SINCE: self._known(job, positions)} if wait_s else {}
        response = self._connection.send(
            Question("POST", paths.of(job, "batchaiTail"), body=body, headers=headers, is_asked_again=True)
        )
        pieces = response.json()["value"]
        if wait_s:
            self._keep(job, response.headers.get(STATE, ""), {*positions, *pieces})
        return {path: chunks.from_wire(piece) for path, piece in pieces.items()}

    def _known(self, job: ResourceId, positions: Mapping[str, int]) -> str:
        """The last state; none for who does not know all logs of that time, and must not wait for them."""
        state, logs = self._states.get(job.key, ("", ()))
        return state if all(path in positions for path in logs) else ""

    def _keep(self, job: ResourceId, state: str, logs: Collection[str]) -> None:
        self._states.pop(job.key, None)  # it comes last again: the one asked for longest ago goes
        while len(self._states) >= _MOST_JOBS:
            self._states.pop(next(iter(self._states)), None)
        self._states[job.key] = state, logs
