"""The extensions of `batchai serve` to the published API, and whether an endpoint has them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.arm.connection import (
    EndpointConnection,
    collection_path,
    parse_any_resource,
    provider_path,
    resource_path,
)
from batchai_magics.backends.arm.published_storage import PublishedStorage, Steps, read_local, save_local
from batchai_magics.backends.arm.settings import NAME
from batchai_magics.backends.arm.share_clients import (
    ResponseHeaders,
    ShareClients,
    checked_path,
    file_of,
    share_errors,
)
from batchai_magics.backends.arm.subscription_facets import ServerAccounts
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
    Chunk,
    CommandBytes,
    CommandOutput,
    Copy,
    FileRef,
    JobNeeds,
    ShareFile,
    StatusSnapshot,
    api_errors,
    check_supported,
)
from batchai_magics.backends.base.storage import BLOCK_BYTES, PartialDownloads, transfer_error
from batchai_magics.backends.service import extension_bodies, extension_wire
from batchai_magics.backends.service.extension_bodies import PackedFile
from batchai_magics.backends.service.extension_wire import (
    DIGEST,
    OWN_CLIENT,
    PREFER,
    RECEIVED,
    SERVICE,
    SINCE,
    STATE,
    UPLOAD,
    ServerInfo,
    UploadStep,
    prefer_wait,
)
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import ServiceError, UnreachableError
from batchai_magics.models.job_execution import FileKind, OutputFile
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import PROVIDER, Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.response_object import ResponseObject, unreadable
from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.models.telemetry_records import TelemetryRecord
from batchai_magics.models.wire_times import parse_time

_ACCESS_DENIED = (
    "AuthenticationFailed",
    "InvalidAuthenticationToken",
    "NoCredentials",
    "AuthorizationFailed",
)
_MAX_IDS = 5000  # in one request
_KEEP_ALIVE = CommandBytes(b"")


class ServerDiscovery:
    """Whether an endpoint is `batchai serve`.

    The endpoint is queried on first use. While it is unreachable or denies access, it is treated as any other
    endpoint, and each use queries again. Thread-safe.
    """

    def __init__(self, connection: EndpointConnection, accounts: ServerAccounts, group: str) -> None:
        self._connection, self._accounts, self._group = connection, accounts, group
        self._lock = threading.Lock()
        self._server: ServerExtensions | None = None
        self._is_settled = False

    @property
    def server(self) -> ServerExtensions | None:
        """The extensions of the endpoint, None if it has none; may send one request."""
        with self._lock:
            if not self._is_settled:
                request = ArmRequest("GET", f"/providers/{PROVIDER}/batchaiOffer")
                try:
                    data = self._connection.request_json(request)
                except UnreachableError:
                    return None
                except ServiceError as error:
                    self._is_settled = error.code not in _ACCESS_DENIED
                    return None
                if info := extension_wire.info_from_wire(data, NAME):
                    self._server = ServerExtensions(self._connection, info, self._accounts, self._group)
                self._is_settled = True
            return self._server


class ServerExtensions:
    """The extensions of `batchai serve` to the published API: fewer requests, more facets.

    Caches the state and the log names of each job as of its last tail, for long polling.
    """

    max_jobs = 500  # the maximum number of cached states

    def __init__(
        self, connection: EndpointConnection, info: ServerInfo, accounts: ServerAccounts, group: str
    ) -> None:
        self._connection = connection
        self.capabilities = info.capabilities
        self._states: dict[str, tuple[str, Collection[str]]] = {}
        offered = info.facets
        shares, containers = (
            ExtendedStorage(connection, accounts, group, service) for service in ("file", "blob")
        )
        self.storage = shares if STORAGE.attribute in offered else None
        self.containers = containers if CONTAINERS.attribute in offered else None
        nodes = ServerNodes(connection)
        self.node_commands = nodes if NODE_COMMANDS.attribute in offered else None
        self.preemption = nodes if PREEMPTION.attribute in offered else None
        self.setup_logs = nodes if SETUP_LOGS.attribute in offered else None
        self.telemetry = ServerTelemetry(connection) if TELEMETRY.attribute in offered else None
        self.records = ServerRecords(connection) if RECORDS.attribute in offered else None

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates the missing resources of a job in one request."""
        for _, spec in needs.resources:
            check_supported(self.capabilities, spec)
        specs = [{"id": str(id), "body": spec.to_wire(secrets=True)} for id, spec in needs.resources]
        body: dict[str, Any] = {"job": str(needs.job), "resources": specs, "share": needs.share}
        if needs.spec:
            body["spec"] = needs.spec.to_wire(secrets=True)
        if needs.files and not self.storage:
            body["files"] = extension_bodies.files_to_wire(needs.files)
        request = ArmRequest("POST", self._provider("batchaiEnsure"), body=body)
        response = self._connection.request_json(request)
        if needs.files and self.storage:
            self.storage.upload(needs.share, needs.files)
        runs = (parse_any_resource(item) for item in response["value"])
        return [run for run in runs if isinstance(run, JobResource)]

    def host_note(self, job: JobSpec) -> str:
        """The server's note on a job whose image it cannot run; raises its refusal."""
        request = ArmRequest("POST", self._provider("batchaiHostNote"), body=job.to_wire(secrets=True))
        return str(self._connection.request_json(request)["value"])

    def names(self, parent: ResourceId, kind: Kind, prefix: str) -> Sequence[str]:
        """The names inside `parent` with a prefix, without listing the resources."""
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
        body = {"path": file.path, "directoryId": file.directory_id, "offset": offset, "limit": limit}
        request = ArmRequest("POST", resource_path(file.job, "batchaiRead"), body=body)
        return extension_bodies.chunk_from_wire(self._connection.request_json(request))

    def tail(
        self, job: ResourceId, positions: Mapping[str, int], limit: int, *, wait_s: float
    ) -> Mapping[str, Chunk]:
        """The new bytes of all logs. With `wait_s` the server waits for some, or for a change of the job."""
        body = {"positions": dict(positions), "limit": limit}
        state, logs = self._states.get(job.key, ("", ()))
        if not all(path in positions for path in logs):  # a log of that time is missing: it must not wait
            state = ""
        headers = {PREFER: prefer_wait(wait_s), SINCE: state} if wait_s else {}
        path = resource_path(job, "batchaiTail")
        response = self._connection.send(ArmRequest("POST", path, body=body, headers=headers, is_polled=True))
        pieces = response.json()["value"]
        if wait_s:
            self._states.pop(job.key, None)  # re-inserted last: the dict is in least-recently-used order
            while len(self._states) >= self.max_jobs:
                self._states.pop(next(iter(self._states)), None)
            self._states[job.key] = response.headers.get(STATE, ""), {*positions, *pieces}
        return {path: extension_bodies.chunk_from_wire(piece) for path, piece in pieces.items()}

    def _provider(self, action: str) -> str:
        return provider_path(self._connection.subscription, action)


@dataclass(frozen=True)
class _ServerFacet:
    connection: EndpointConnection


class ServerNodes(_ServerFacet):
    """The facets of nodes: shell commands on them, preemption, the output of their setup tasks."""

    def execute(self, id: ResourceId, node_id: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
        """Runs a shell command on a node and streams its output; the server sets the interval of ticks."""
        body = {"nodeId": node_id, "command": command}
        request = ArmRequest("POST", resource_path(id, "batchaiExecute"), body=body, is_endless=True)
        return self._output(self.connection.send(request, is_streamed=True), is_ticking=bool(tick_s))

    def _output(self, response: Any, *, is_ticking: bool) -> CommandOutput:
        try:
            with self.connection.translated_errors():
                for part in extension_bodies.output_from_lines(response.iter_raw()):
                    if is_ticking or part != _KEEP_ALIVE:
                        yield part
        finally:
            response.close()

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Preempts a node of a low-priority cluster."""
        self.connection.request_json(
            ArmRequest("POST", resource_path(cluster, "batchaiPreempt"), body={"nodeId": node_id})
        )

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """One level of the output of a cluster's setup task, sorted by name."""
        check_inside(path)
        request = ArmRequest(
            "POST",
            resource_path(cluster, "batchaiSetupFiles"),
            {"directory": path.strip("/") or "."},
        )
        return [OutputFile.from_wire(item, folder=path) for item in list_items(self.connection, request)]


class ServerTelemetry(_ServerFacet):
    """The resource usage of the processes of jobs."""

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples taken later than `after`."""
        request = ArmRequest("POST", resource_path(job, "batchaiTelemetry"), body={"after": after})
        return TelemetryRecord.from_wire(self.connection.request_json(request))


class ServerRecords(_ServerFacet):
    """The records of runs."""

    def read(self, job: ResourceId, names: Collection[str]) -> Mapping[str, bytes]:
        """The record files with these names, and those in these folders."""
        request = ArmRequest("POST", resource_path(job, "batchaiRecords"), body={"names": list(names)})
        try:
            return extension_bodies.files_from_wire(self.connection.request_json(request).get("value"))
        except ValueError as error:
            raise unreadable("the records of a run", str(error)) from None

    def labels(self, jobs: Collection[ResourceId]) -> Mapping[str, Labels]:
        """The labels of those jobs that have any, by key."""
        labels: dict[str, Labels] = {}
        path = provider_path(self.connection.subscription, "batchaiLabels")
        ids = [str(id) for id in jobs]
        for start in range(0, len(ids), _MAX_IDS):
            request = ArmRequest("POST", path, body={"ids": ids[start : start + _MAX_IDS]})
            labels |= extension_bodies.labels_from_wire(self.connection.request_json(request))
        return labels

    def relabel(self, job: ResourceId, change: LabelChange) -> Labels:
        """Changes the labels of a job."""
        request = ArmRequest("POST", resource_path(job, "batchaiRelabel"), body=change.to_json())
        return Labels.from_json(self.connection.request_json(request))

    def baseline(self, experiment: ResourceId) -> str:
        """The name of the run that others are compared with; empty without one."""
        request = ArmRequest("POST", resource_path(experiment, "batchaiBaseline"), body={})
        return str(self.connection.request_json(request).get("value", ""))


class ExtendedStorage(PublishedStorage):
    """The shares of our own server, or with the service `blob` its containers; `group` has its own account.

    The server does not list unfinished uploads.
    """

    def __init__(
        self, connection: EndpointConnection, accounts: ServerAccounts, group: str, service: str
    ) -> None:
        clients = ServerShareClients(connection, accounts, group, service)
        super().__init__(clients, "container" if service == "blob" else "share")
        self._connection, self._service = connection, service

    def upload(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes files; each that fits into one request appears whole or not at all."""
        contents = {checked_path(path): content for path, content in files.items()}
        for path, content in contents.items():
            if 0 < len(content) <= BLOCK_BYTES:
                self.upload_small(share, path, content)
            else:
                super().upload(share, {path: content})

    def show(self, share: str, path: str) -> ShareFile:
        """A file or folder; one request serves both on `batchai serve`."""
        target = checked_path(path)
        with share_errors(share, path, self._noun), self.file(share, target) as client:
            return file_of(target, client.get_file_properties(), FileKind.FILE)

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts or resumes an upload in pieces; returns the offset to send from."""
        response = ResponseHeaders()
        with self.file(share, path) as client:
            headers = {UPLOAD: UploadStep.BEGIN.value}
            client.create_file(size_bytes, headers=headers, raw_response_hook=response.keep)
        return int(response.get(RECEIVED, "0"))

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Sends the next piece of an upload."""
        with self.file(share, path) as client:
            client.upload_range(data, offset, len(data), headers={UPLOAD: UploadStep.WRITE.value})

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Publishes an uploaded file if its digest matches."""
        with self.file(share, path) as client:
            headers = {UPLOAD: UploadStep.FINISH.value, DIGEST: sha256}
            client.set_file_metadata({}, headers=headers)

    def upload_small(self, share: str, path: str, data: bytes) -> ShareFile:
        """Uploads a file of one piece in one request."""
        return self.store_pack(share, {checked_path(path): data})[0]

    def store_pack(self, share: str, files: Mapping[str, bytes]) -> Sequence[ShareFile]:
        """Uploads small files in one request: all of them, or none if one is corrupted in transit."""
        request = self._pack_request("batchaiStoreFiles", share, content=extension_bodies.pack_files(files))
        response = self._connection.request_json(request)
        times = ResponseObject.of(response, "the files that were sent").items("value")
        return [
            ShareFile(path, FileKind.FILE, len(data), parse_time(str(time)))
            for (path, data), time in zip(files.items(), times, strict=True)
        ]

    def fetch_pack(self, share: str, paths: Sequence[str]) -> Mapping[str, PackedFile]:
        """Downloads the files that the server packs into one response; the others need a request each."""
        request = self._pack_request("batchaiFetchFiles", share, body={"paths": list(paths)})
        with self._connection.translated_errors():
            body = self._connection.send(request, is_streamed=True).read()
        try:
            return {file.path: file for file in extension_bodies.unpack_files(body)}
        except ValueError as error:
            raise unreadable("the files that were fetched", str(error)) from error

    def _pack_request(self, action: str, share: str, **body: Any) -> ArmRequest:
        path = provider_path(self._connection.subscription, action)
        return ArmRequest("POST", path, {"share": share, "service": self._service}, **body)

    def _groups(self, copies: Sequence[Copy]) -> Iterator[Sequence[Copy]]:
        """Groups of neighbouring small files, in order; each group fits into one pack."""
        group: list[Copy] = []
        room = 0
        for copy in copies:
            if group and (copy.size_bytes > room or len(group) == extension_bodies.MAX_FILES):
                yield group
                group = []
            room = (room if group else extension_bodies.MAX_BYTES) - copy.size_bytes
            group.append(copy)
        if group:
            yield group

    def _send_group(self, share: str, group: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
        if len(group) > 1:
            files = {copy.path: read_local(copy) for copy in group}
            if sum(map(len, files.values())) <= extension_bodies.MAX_BYTES:  # else a file has grown
                sent = self.store_pack(share, files)
                yield sum(copy.size_bytes for copy in group)
                return sent
        return (yield from super()._send_group(share, group))

    def _fetch_group(self, share: str, group: Sequence[Copy], unfinished: PartialDownloads) -> Steps[None]:
        packed = self.fetch_pack(share, [copy.path for copy in group]) if len(group) > 1 else {}
        for copy in group:
            file = packed.get(copy.path)
            if file is None:
                yield from super()._fetch_group(share, [copy], unfinished)
            elif not file.is_intact:
                raise transfer_error(copy, is_changed=False)
            else:
                yield save_local(copy, file.data, unfinished)

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, or a folder with its contents, as the server does."""
        if not checked_path(path):
            raise api_errors.not_on_share(share, path)
        with self.file(share, path) as client:
            client.delete_file()

    def rename(self, share: str, path: str, new_path: str) -> None:
        """Renames a file or folder; replaces a file of that name."""
        with self.file(share, path) as file:
            file.rename_file(checked_path(new_path), overwrite=True)


class ServerShareClients(ShareClients):
    """Clients for the accounts of our own server, whose default account is in none of its lists."""

    def __init__(
        self, connection: EndpointConnection, accounts: ServerAccounts, group: str, service: str
    ) -> None:
        super().__init__(connection, accounts)
        self._group = group
        self.headers = {OWN_CLIENT: "1", **({SERVICE: "blob"} if service == "blob" else {})}

    def names(self) -> list[str]:
        """The names of all accounts."""
        return [DEFAULT_ACCOUNT, *super().names()]

    def _address(self, name: str) -> str:
        return f"{self._connection.endpoint.url}/{name}"

    def _key(self, name: str) -> str:
        if name == DEFAULT_ACCOUNT:
            return self._accounts.keys_in(name, self._group)[0]
        return super()._key(name)
