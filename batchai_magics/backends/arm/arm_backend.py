"""The arm backend: the Backend protocol over the Batch AI REST API."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from batchai_magics.backends.arm.connection import (
    Endpoint,
    EndpointConnection,
    collection_path,
    is_loopback,
    parse_resource,
    resource_path,
)
from batchai_magics.backends.arm.published_storage import PublishedStorage
from batchai_magics.backends.arm.server_extensions import ServerDiscovery, ServerExtensions
from batchai_magics.backends.arm.settings import NAME
from batchai_magics.backends.arm.share_clients import (
    ResponseHeaders,
    ShareClients,
    signed_file_client,
    translated_errors,
)
from batchai_magics.backends.arm.subscription_facets import ServerAccounts, ServerGroups, ServerUsages
from batchai_magics.backends.azure.arm_client import list_items, list_pages
from batchai_magics.backends.azure.arm_protocol import ArmRequest, check_inside
from batchai_magics.backends.base import (
    Backend,
    Capabilities,
    Chunk,
    FileRef,
    JobNeeds,
    Listing,
    Pace,
    Page,
    Patch,
    Spec,
    StatusSnapshot,
    Storage,
)
from batchai_magics.backends.service.extension_bodies import RECORDS_KEY
from batchai_magics.backends.service.extension_wire import AT_ONCE
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.models.job_execution import STDOUTERR, OutputFile
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource, Node, Resource

if TYPE_CHECKING:
    from batchai_magics.backends.base.facets import NodeCommands, Preemption, Records, SetupLogs, Telemetry

_LONGEST_PAGE = 1000
_SHORTEST_LINK_MIN, _LONGEST_LINK_MIN = 5, 600  # limits of the API
_TOTAL = re.compile(r"/(\d+)\s*$")


def _server_facet(facet: str) -> Any:
    """A facet that an endpoint has if it is `batchai serve` and offers it."""
    return property(lambda backend: getattr(backend.server, facet, None))


class ArmBackend(Backend):
    """Jobs at an endpoint. It keeps no state: all processes and machines see the same.

    `batchai serve` has extensions. Other endpoints are used through the published API alone; methods without
    an operation there are composed of others, as in `Backend`.
    """

    accounts: ServerAccounts
    groups: ServerGroups
    usages: ServerUsages
    containers: Storage | None = _server_facet("containers")
    node_commands: NodeCommands | None = _server_facet("node_commands")
    preemption: Preemption | None = _server_facet("preemption")
    setup_logs: SetupLogs | None = _server_facet("setup_logs")
    telemetry: Telemetry | None = _server_facet("telemetry")
    records: Records | None = _server_facet("records")

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._connection = EndpointConnection(endpoint, settings.subscription)
        self.groups = ServerGroups(self._connection)
        self.accounts = ServerAccounts(self._connection, self.groups)
        self.usages = ServerUsages(self._connection)
        self._published_storage = PublishedStorage(ShareClients(self._connection, self.accounts))
        self._discovery = ServerDiscovery(self._connection, self.accounts, settings.resource_group)

    @property
    def server(self) -> ServerExtensions | None:
        """The extensions of the endpoint, None if it has none; may send one request."""
        return self._discovery.server

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # discovered on first use
        """The capabilities of the endpoint; for any other than `batchai serve`, the minimum."""
        server = self.server
        pace = Pace(poll_interval_s=self._connection.endpoint.settings.look_s)
        return server.capabilities if server else Capabilities(name=NAME, pace=pace)

    @property
    def storage(self) -> PublishedStorage | None:  # type: ignore[override]  # as above
        """The shares of all storage accounts, where the endpoint has any."""
        server = self.server
        return server.storage if server else self._published_storage

    def host_note(self, job: JobSpec) -> str:
        """The note of the server on a job whose image it cannot run; any other endpoint runs every image."""
        server = self.server
        return server.host_note(job) if server else ""

    def _create(self, id: ResourceId, spec: Spec, owner: str, records: Mapping[str, str]) -> Resource:
        """Creates a resource, or returns an identical one that exists."""
        body = spec.to_wire(secrets=True)
        if records and self.records:
            body = {**body, RECORDS_KEY: dict(records)}
        return parse_resource(
            self._connection.create(ArmRequest("PUT", resource_path(id), body=body)), id.kind
        )

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates the missing resources of a job, in one request where the endpoint can."""
        server = self.server
        return server.ensure(needs) if server else super().ensure(needs)

    def show(self, id: ResourceId) -> Resource:
        """The current resource."""
        return parse_resource(self._connection.request_json(ArmRequest("GET", resource_path(id))), id.kind)

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind inside `parent`, oldest first."""
        request = ArmRequest("GET", collection_path(parent, kind))
        if page is None or page.size is None:
            after = page.after if page else ""
            return Listing(
                parse_resource(item, kind) for item in list_items(self._connection, request, after)
            )
        size = min(page.size, _LONGEST_PAGE)
        json_page = next(list_pages(self._connection, request, page.after, size))
        next_page = Page(page.size, json_page.next) if json_page.next else None
        return Listing((parse_resource(item, kind) for item in json_page.items), next_page)

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names inside `parent` with a prefix, matched case-insensitively."""
        server = self.server
        if server and kind is not Kind.WORKSPACE:
            return server.names(parent, kind, prefix)
        return super().names(parent, kind, prefix)

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs ahead of a queued one."""
        server = self.server
        return server.jobs_ahead_of(job) if server else super().jobs_ahead_of(job)

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None = None, wait_s: float = 0.0
    ) -> StatusSnapshot:
        """The current state of jobs and clusters, in one request where the endpoint can."""
        if not ids:
            return StatusSnapshot({})
        server = self.server
        return server.status(ids, since=since, wait_s=wait_s) if server else super().status(ids)

    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Tags a workspace, or resizes a cluster."""
        return parse_resource(
            self._connection.request_json(ArmRequest("PATCH", resource_path(id), body=patch.to_wire())),
            id.kind,
        )

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource with its contents and waits for it."""
        self.show(id)  # the service ignores deletions of missing resources
        self._connection.delete(ArmRequest("DELETE", resource_path(id)))

    def terminate(self, job: ResourceId, *, now: bool = False) -> None:
        """Terminates a job; no effect on one that has ended. Only `batchai serve` supports `now`."""
        headers = {AT_ONCE: "true"} if now else {}
        self._connection.send(ArmRequest("POST", resource_path(job, "terminate"), headers=headers))

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster or of a job."""
        request = ArmRequest("POST", resource_path(id, "listRemoteLoginInformation"))
        return [Node.from_wire(item) for item in list_items(self._connection, request)]

    def files(
        self,
        job: ResourceId,
        directory_id: str = STDOUTERR,
        path: str = "",
        *,
        expiry_min: int = 60,
        limit: int | None = None,
    ) -> Sequence[OutputFile]:
        """One level of a job's output directory, sorted by name."""
        check_inside(path)
        query = {
            "outputdirectoryid": directory_id,
            "directory": path.strip("/") or ".",
            "linkexpiryinminutes": str(min(max(expiry_min, _SHORTEST_LINK_MIN), _LONGEST_LINK_MIN)),
            "maxresults": str(min(_LONGEST_PAGE, max(1, limit or _LONGEST_PAGE))),
        }
        request = ArmRequest("POST", resource_path(job, "listOutputFiles"), query)
        items = islice(list_items(self._connection, request), limit)
        return [OutputFile.from_wire(item, folder=path) for item in items]

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`, in one ranged request."""
        check_inside(file.path)
        if server := self.server:
            return server.read(file, offset, limit)
        job = self.show(file.job)  # first: a job that has ended by now writes no more
        is_complete = isinstance(job, JobResource) and job.state.is_final
        folder, _, name = file.path.strip("/").rpartition("/")
        same_name = [item for item in self.files(file.job, file.directory_id, folder) if item.name == name]
        entry = min(same_name, key=lambda item: item.is_directory, default=None)
        if entry is None:
            return Chunk(b"", offset, 0, is_complete)
        if not entry.is_file or not entry.download_url:
            raise NotFoundError(f"{entry.name} is {entry.kind.words}, not a file", code="FileNotFound")
        data, size = _read_address(self._connection.endpoint, entry, offset, limit)
        return Chunk(data, offset, size, is_complete)

    def tail(
        self,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all logs of a job; `batchai serve` waits up to `wait_s` for some."""
        if server := self.server:
            return server.tail(job, positions, limit, wait_s=wait_s)
        return super().tail(job, positions, limit)

    def close(self) -> None:
        """Closes the connection; jobs run on."""
        self._connection.close()


def _read_address(endpoint: Endpoint, file: OutputFile, offset: int, limit: int) -> tuple[bytes, int]:
    """Bytes of a file by its download URL, and its current size: the listed size may be out of date."""
    from azure.core.exceptions import HttpResponseError

    address = urlsplit(file.download_url or "")
    if address.scheme != "https" and not is_loopback(address.hostname or ""):
        name = unquote(address.path.rpartition("/")[2])
        raise StorageError(f"the address of {name} is plain http on another machine: it is not asked")
    headers = ResponseHeaders()
    with signed_file_client(endpoint, address) as client, translated_errors():
        try:
            stream = client.download_file(offset=offset, length=max(1, limit), raw_response_hook=headers.keep)
            data = stream.readall()[:limit]
        except HttpResponseError as error:
            if error.status_code != 416:  # the offset is at or past the end
                raise
            return b"", min(file.size_bytes, offset)
    total = _TOTAL.search(headers.get("content-range"))
    return data, int(total[1]) if total else offset + len(data)
