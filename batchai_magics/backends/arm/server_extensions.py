"""The extensions of `batchai serve` to the published API, and whether an endpoint has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

from batchai_magics.backends.arm.connection import (
    EndpointConnection,
    collection_path,
    parse_any_resource,
    provider_path,
    request_body,
    resource_path,
)
from batchai_magics.backends.arm.extended_storage import ExtendedStorage
from batchai_magics.backends.arm.published_api import PublishedApi
from batchai_magics.backends.arm.settings import NAME
from batchai_magics.backends.azure.arm_client import list_items
from batchai_magics.backends.azure.arm_protocol import ArmRequest, check_inside
from batchai_magics.backends.base import (
    CONTAINERS,
    NODE_COMMANDS,
    PREEMPTION,
    RECORDS,
    SETUP_LOGS,
    STORAGE,
    TELEMETRY,
    Backend,
    Capabilities,
    Chunk,
    CommandBytes,
    CommandOutput,
    FileRef,
    JobNeeds,
    StatusSnapshot,
    check_supported,
)
from batchai_magics.backends.service import extension_bodies, extension_wire
from batchai_magics.backends.service.extension_wire import (
    ENSURE,
    PREFER,
    SINCE,
    STATE,
    ServerInfo,
    prefer_wait,
)
from batchai_magics.errors import ServiceError, UnreachableError
from batchai_magics.models.job_execution import OutputFile
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import PROVIDER, Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.response_object import unreadable
from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.models.telemetry_records import TelemetryRecord

_ACCESS_DENIED = (
    "AuthenticationFailed",
    "InvalidAuthenticationToken",
    "NoCredentials",
    "AuthorizationFailed",
)
Api = TypeVar("Api")


class ServerDiscovery(Generic[Api]):
    """The API to use with an endpoint: `extended`, made from its offer, for our own server, else `published`.

    The endpoint is queried on first use. While it is unreachable or denies access, the published API is
    used and each use queries again. Thread-safe.
    """

    def __init__(
        self, connection: EndpointConnection, published: Api, extended: Callable[[ServerInfo], Api]
    ) -> None:
        self._connection, self._extended = connection, extended
        self._lock = threading.Lock()
        self._api = published
        self._is_settled = False

    @property
    def api(self) -> Api:
        """The API that the endpoint understands; may send one request."""
        with self._lock:
            if not self._is_settled:
                self._query()
            return self._api

    def _query(self) -> None:
        try:
            data = self._connection.request_json(ArmRequest("GET", f"/providers/{PROVIDER}/batchaiOffer"))
        except UnreachableError:
            return
        except ServiceError as error:
            self._is_settled = error.code not in _ACCESS_DENIED
            return
        info = extension_wire.info_from_wire(data, NAME)
        if info is not None:
            self._api = self._extended(info)
        self._is_settled = True


_MAX_IDS = 5000  # in one request
_MAX_JOBS = 500  # whose states are kept for the next request
_KEEP_ALIVE = CommandBytes(b"")


class ServerExtensions(PublishedApi):
    """The published API with the extensions that a server's offer names: fewer requests, more facets."""

    def __init__(
        self,
        backend: Backend,
        connection: EndpointConnection,
        info: ServerInfo,
        *,
        storage: ExtendedStorage,
        containers: ExtendedStorage,
    ) -> None:
        super().__init__(backend, connection, storage)
        self._info = info
        self.storage = storage if STORAGE.attribute in info.facets else None
        self._logs = LogReader(connection)
        self.containers = containers if CONTAINERS.attribute in info.facets else None
        self.node_commands = (
            ServerNodeCommands(connection) if NODE_COMMANDS.attribute in info.facets else None
        )
        self.preemption = ServerPreemption(connection) if PREEMPTION.attribute in info.facets else None
        self.setup_logs = ServerSetupLogs(connection) if SETUP_LOGS.attribute in info.facets else None
        self.telemetry = ServerTelemetry(connection) if TELEMETRY.attribute in info.facets else None
        self.records = ServerRecords(connection) if RECORDS.attribute in info.facets else None

    @property
    def capabilities(self) -> Capabilities:
        """What the server's own backend can do."""
        return self._info.capabilities

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates the missing resources of a job in one request; older servers need one each."""
        if ENSURE not in self._info.facets:
            return super().ensure(needs)
        for _, spec in needs.resources:
            check_supported(self.capabilities, spec)
        specs = [{"id": str(id), "body": request_body(spec)} for id, spec in needs.resources]
        body: dict[str, Any] = {"job": str(needs.job), "resources": specs, "share": needs.share}
        if needs.spec:
            body["spec"] = request_body(needs.spec)
        if needs.files and not self.storage:
            body["files"] = extension_bodies.files_to_wire(needs.files)
        request = ArmRequest("POST", self._provider("batchaiEnsure"), body=body)
        response = self._connection.request_json(request)
        if needs.files and self.storage:
            self.storage.upload(needs.share, needs.files)
        runs = (parse_any_resource(item) for item in response["value"])
        return [run for run in runs if isinstance(run, JobResource)]

    def host_note(self, job: JobSpec) -> str:
        """What the server does with a job whose image it cannot run, or its refusal."""
        request = ArmRequest("POST", self._provider("batchaiHostNote"), body=request_body(job))
        return str(self._connection.request_json(request)["value"])

    def names(self, parent: ResourceId, kind: Kind, prefix: str) -> Sequence[str]:
        """The names inside `parent` with a prefix, without listing the resources."""
        if kind is Kind.WORKSPACE:
            return super().names(parent, kind, prefix)
        request = ArmRequest("GET", collection_path(parent, kind), {"batchaiNames": prefix})
        return [str(name) for name in self._connection.request_json(request).get("value", ())]

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs ahead of a queued one, in one request."""
        request = ArmRequest("POST", resource_path(job.id, "batchaiAhead"), is_polled=True)
        return [ResourceId.parse(str(id)) for id in self._connection.request_json(request).get("value", ())]

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None, wait_s: float
    ) -> StatusSnapshot:
        """The current state of jobs and clusters, in one request; waits for a change after `since`."""
        state = since.state if since else ""
        headers = (
            {PREFER: prefer_wait(wait_s), SINCE: state} if wait_s and state else {PREFER: prefer_wait(1)}
        )
        body = {"ids": [str(id) for id in ids]}
        path = self._provider("batchaiLook")
        response = self._connection.send(ArmRequest("POST", path, body=body, headers=headers, is_polled=True))
        resources = [parse_any_resource(item) for item in response.json()["value"]]
        return StatusSnapshot({item.id.key: item for item in resources}, response.headers.get(STATE, ""))

    def read(self, file: FileRef, offset: int, limit: int) -> Chunk:
        """A chunk of an output file, in one request."""
        return self._logs.read(file, offset, limit)

    def tail(
        self, job: ResourceId, positions: Mapping[str, int], limit: int, *, wait_s: float
    ) -> Mapping[str, Chunk]:
        """The new bytes of all logs of a job, in one request."""
        return self._logs.tail(job, positions, limit, wait_s=wait_s)

    def _provider(self, action: str) -> str:
        return provider_path(self._connection.subscription, action)


class LogReader:
    """Reads and tails logs; remembers each job's state and logs as of its last tail."""

    def __init__(self, connection: EndpointConnection) -> None:
        self._connection = connection
        self._states: dict[str, tuple[str, Collection[str]]] = {}

    def read(self, file: FileRef, offset: int, limit: int) -> Chunk:
        """A chunk of one file."""
        body = {"path": file.path, "directoryId": file.directory_id, "offset": offset, "limit": limit}
        return extension_bodies.chunk_from_wire(
            self._connection.request_json(
                ArmRequest("POST", resource_path(file.job, "batchaiRead"), body=body)
            )
        )

    def tail(
        self, job: ResourceId, positions: Mapping[str, int], limit: int, *, wait_s: float
    ) -> Mapping[str, Chunk]:
        """The new bytes of all logs. With `wait_s` the server waits for some, or for a change of the job."""
        body = {"positions": dict(positions), "limit": limit}
        headers = {PREFER: prefer_wait(wait_s), SINCE: self._state_of(job, positions)} if wait_s else {}
        response = self._connection.send(
            ArmRequest(
                "POST",
                resource_path(job, "batchaiTail"),
                body=body,
                headers=headers,
                is_polled=True,
            )
        )
        pieces = response.json()["value"]
        if wait_s:
            self._states.pop(job.key, None)  # re-inserted last: the dict is in least-recently-used order
            while len(self._states) >= _MAX_JOBS:
                self._states.pop(next(iter(self._states)), None)
            self._states[job.key] = response.headers.get(STATE, ""), {*positions, *pieces}
        return {path: extension_bodies.chunk_from_wire(piece) for path, piece in pieces.items()}

    def _state_of(self, job: ResourceId, positions: Mapping[str, int]) -> str:
        """The last state; empty for a caller that lacks a log of that time: it must not wait."""
        state, logs = self._states.get(job.key, ("", ()))
        return state if all(path in positions for path in logs) else ""


class ServerNodeCommands:
    """Shell commands on nodes."""

    def __init__(self, connection: EndpointConnection) -> None:
        self._connection = connection

    def execute(self, id: ResourceId, node_id: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
        """Runs a shell command on a node and streams its output; the server sets the interval of ticks."""
        body = {"nodeId": node_id, "command": command}
        request = ArmRequest("POST", resource_path(id, "batchaiExecute"), body=body, is_endless=True)
        return self._output(self._connection.send(request, is_streamed=True), is_ticking=bool(tick_s))

    def _output(self, response: Any, *, is_ticking: bool) -> CommandOutput:
        try:
            with self._connection.translated_errors():
                for part in extension_bodies.output_from_lines(response.iter_raw()):
                    if is_ticking or part != _KEEP_ALIVE:
                        yield part
        finally:
            response.close()


class ServerPreemption:
    """Preemption of nodes of low-priority clusters."""

    def __init__(self, connection: EndpointConnection) -> None:
        self._connection = connection

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Preempts a node of a low-priority cluster."""
        self._connection.request_json(
            ArmRequest("POST", resource_path(cluster, "batchaiPreempt"), body={"nodeId": node_id})
        )


class ServerSetupLogs:
    """The output of setup tasks."""

    def __init__(self, connection: EndpointConnection) -> None:
        self._connection = connection

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """One level of the output of a cluster's setup task, sorted by name."""
        check_inside(path)
        request = ArmRequest(
            "POST",
            resource_path(cluster, "batchaiSetupFiles"),
            {"directory": path.strip("/") or "."},
        )
        return [OutputFile.from_wire(item, folder=path) for item in list_items(self._connection, request)]


class ServerTelemetry:
    """The resource usage of the processes of jobs."""

    def __init__(self, connection: EndpointConnection) -> None:
        self._connection = connection

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples taken later than `after`."""
        request = ArmRequest("POST", resource_path(job, "batchaiTelemetry"), body={"after": after})
        return TelemetryRecord.from_wire(self._connection.request_json(request))


class ServerRecords:
    """The records of runs."""

    def __init__(self, connection: EndpointConnection) -> None:
        self._connection = connection

    def read(self, job: ResourceId, names: Collection[str]) -> Mapping[str, bytes]:
        """The record files with these names, and those in these folders."""
        request = ArmRequest("POST", resource_path(job, "batchaiRecords"), body={"names": list(names)})
        try:
            return extension_bodies.files_from_wire(self._connection.request_json(request).get("value"))
        except ValueError as error:
            raise unreadable("the records of a run", str(error)) from None

    def labels(self, jobs: Collection[ResourceId]) -> Mapping[str, Labels]:
        """The labels of those jobs that have any, by key."""
        labels: dict[str, Labels] = {}
        path = provider_path(self._connection.subscription, "batchaiLabels")
        ids = [str(id) for id in jobs]
        for start in range(0, len(ids), _MAX_IDS):
            request = ArmRequest("POST", path, body={"ids": ids[start : start + _MAX_IDS]})
            labels |= extension_bodies.labels_from_wire(self._connection.request_json(request))
        return labels

    def relabel(self, job: ResourceId, change: LabelChange) -> Labels:
        """Changes the labels of a job."""
        request = ArmRequest("POST", resource_path(job, "batchaiRelabel"), body=change.to_json())
        return Labels.from_json(self._connection.request_json(request))

    def baseline(self, experiment: ResourceId) -> str:
        """The name of the run that others are compared with; empty without one."""
        request = ArmRequest("POST", resource_path(experiment, "batchaiBaseline"), body={})
        return str(self._connection.request_json(request).get("value", ""))
