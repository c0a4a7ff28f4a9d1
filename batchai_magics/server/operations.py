"""Long-running operations, one small file each, so that a restarted server resumes them."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from batchai_magics.backends.base import GROUPS, Backend
from batchai_magics.backends.folders.private_files import write
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.wire_times import wire_time
from batchai_magics.server.access.access_control import Owners
from batchai_magics.server.api_call import error_body

RETENTION_S = 24 * 3600.0  # how long an ended operation can be queried
WORKERS = 4
CREATE, TERMINATE, DELETE, DELETE_GROUP = "create", "terminate", "delete", "delete group"


@dataclass(frozen=True)
class AsyncOperation:
    """An operation started for a client; `target` is the id of a resource or of a resource group."""

    name: str
    kind: str
    target: str
    started: float
    ended: float | None = None
    error: Mapping[str, Any] | None = None

    @property
    def status(self) -> str:
        """The status in the service's terms."""
        if self.ended is None:
            return "InProgress"
        return "Failed" if self.error else "Succeeded"

    def to_wire(self, url: str) -> dict[str, Any]:
        """The service's JSON; `url` is the operation's address without query."""
        data: dict[str, Any] = {"id": url, "name": self.name, "status": self.status}
        data["startTime"] = _wire_seconds(self.started)
        if self.ended is not None:
            data["endTime"] = _wire_seconds(self.ended)
            parts = self.target.strip("/").split("/")
            names = [parts[1], parts[3], *parts[7::2]]
            # the id as the service spelled it here: `{sub}${rg}${ws}[${exp}]${name}`
            data["properties"] = {"resourceId": "$".join(names)}
        if self.error:
            data["error"] = self.error
        return data


class Operations:
    """The operations of a server, stored below a folder; deletions run in a thread pool.

    A deletion also removes the owners of the resource and of everything inside it.
    """

    def __init__(
        self, folder: Path, backend: Backend, owners: Owners, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._backend, self._owners, self._clock = folder, backend, owners, clock
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="operation")
        self._lock = threading.Lock()
        self._deleting: set[str] = set()

    def record_completed(self, target: ResourceId) -> AsyncOperation:
        """Stores an operation that is already complete: the resource was created."""
        now = self._clock()
        return self._save(AsyncOperation(str(uuid.uuid4()), CREATE, str(target), now, now))

    def start(self, kind: str, target: str) -> AsyncOperation:
        """Starts a deletion, or tracks a job that was asked to terminate."""
        operation = self._save(AsyncOperation(str(uuid.uuid4()), kind, target, self._clock()))
        if kind != TERMINATE:
            self._submit(operation)
        return operation

    def find(self, name: str) -> AsyncOperation | None:
        """The operation of that name, None if unknown."""
        try:
            file = self._folder / f"{uuid.UUID(name)}.json"
            operation = AsyncOperation(**json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, OSError, TypeError):
            return None
        if operation.kind == TERMINATE and operation.ended is None and self._has_ended(operation):
            return self._save(replace(operation, ended=self._clock()))
        return operation

    def is_deleting(self, id: ResourceId) -> bool:
        """Whether a resource, or one that contains it, is being deleted."""
        key = id.key
        with self._lock:
            return any(key == target or key.startswith(target + "/") for target in self._deleting)

    def resume(self) -> None:
        """Resumes operations of an earlier server and removes expired ones."""
        for file in self._folder.glob("*.json") if self._folder.exists() else ():
            operation = self.find(file.stem)
            if operation is None or (operation.ended or self._clock()) < self._clock() - RETENTION_S:
                file.unlink(missing_ok=True)
            elif operation.ended is None and operation.kind != TERMINATE:
                self._submit(operation)

    def close(self) -> None:
        """Returns without waiting: the next server resumes what is unfinished."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _submit(self, operation: AsyncOperation) -> None:
        with self._lock:
            self._deleting.add(operation.target.lower())
        self._workers.submit(self._run, operation)

    def _run(self, operation: AsyncOperation) -> None:
        error = None
        try:
            with contextlib.suppress(NotFoundError):  # deleted concurrently
                if operation.kind == DELETE_GROUP:
                    GROUPS.of(self._backend).delete(operation.target.rpartition("/")[2])
                else:
                    self._backend.delete(ResourceId.parse(operation.target))
            self._owners.forget(operation.target.lower())
        except BatchAIError as refused:
            error = error_body(refused)["error"]
        except Exception as defect:  # noqa: BLE001  reported to the client: nothing awaits this thread
            error = {"code": "InternalServerError", "message": f"{type(defect).__name__} while deleting"}
        with self._lock:
            self._deleting.discard(operation.target.lower())
        self._save(replace(operation, ended=self._clock(), error=error))

    def _has_ended(self, operation: AsyncOperation) -> bool:
        try:
            job = self._backend.show(ResourceId.parse(operation.target))
        except NotFoundError:
            return True
        return isinstance(job, JobResource) and job.state.is_final

    def _save(self, operation: AsyncOperation) -> AsyncOperation:
        write(self._folder / f"{operation.name}.json", json.dumps(asdict(operation)))
        return operation


def _wire_seconds(seconds: float) -> str:
    return wire_time(datetime.fromtimestamp(seconds, timezone.utc))
