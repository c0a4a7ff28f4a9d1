"""The arm backend: the Backend protocol over the Batch AI REST API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from batchai_magics.backends.arm.connection import (
    Endpoint,
    EndpointConnection,
    collection_path,
    parse_resource,
    request_body,
    resource_path,
)
from batchai_magics.backends.arm.extended_storage import extended_storage
from batchai_magics.backends.arm.published_api import PublishedApi, output_listing
from batchai_magics.backends.arm.published_storage import PublishedStorage
from batchai_magics.backends.arm.server_extensions import ServerDiscovery, ServerExtensions
from batchai_magics.backends.arm.share_clients import ShareClients
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
    Page,
    Patch,
    Spec,
    StatusSnapshot,
)
from batchai_magics.backends.service.extension_bodies import RECORDS_KEY
from batchai_magics.backends.service.extension_wire import AT_ONCE, ServerInfo
from batchai_magics.config import Settings
from batchai_magics.models.job_execution import STDOUTERR, OutputFile
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource, Node, Resource

if TYPE_CHECKING:
    from batchai_magics.backends.base.facets import NodeCommands, Preemption, Records, SetupLogs, Telemetry

_LONGEST_PAGE = 1000


class ArmBackend(Backend):
    """Jobs at an endpoint. It keeps no state: all processes and machines see the same."""

    accounts: ServerAccounts
    groups: ServerGroups
    usages: ServerUsages

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._connection = EndpointConnection(endpoint, settings.subscription)
        self._resource_group = settings.resource_group
        self.groups = ServerGroups(self._connection)
        self.accounts = ServerAccounts(self._connection, self.groups)
        self.usages = ServerUsages(self._connection)
        published = PublishedStorage(ShareClients(self._connection, self.accounts))
        self._discovery = ServerDiscovery(
            self._connection, PublishedApi(self, self._connection, published), self._extended_api
        )

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # discovered on first use
        """The capabilities of the endpoint."""
        return self._api.capabilities

    @property
    def storage(self) -> PublishedStorage | None:  # type: ignore[override]  # as above
        """The shares of all storage accounts, where the endpoint has any."""
        return self._api.storage

    @property
    def containers(self) -> PublishedStorage | None:  # type: ignore[override]  # as above
        """The blob containers, where the endpoint has them as folders."""
        return self._api.containers

    @property
    def node_commands(self) -> NodeCommands | None:  # type: ignore[override]  # as above
        """Shell commands on nodes, where the endpoint runs them."""
        return self._api.node_commands

    @property
    def preemption(self) -> Preemption | None:  # type: ignore[override]  # as above
        """Preemption of nodes, where the endpoint can simulate it."""
        return self._api.preemption

    @property
    def setup_logs(self) -> SetupLogs | None:  # type: ignore[override]  # as above
        """The output of setup tasks, where the endpoint serves it."""
        return self._api.setup_logs

    @property
    def telemetry(self) -> Telemetry | None:  # type: ignore[override]  # as above
        """The resource usage of jobs, where the endpoint measures it."""
        return self._api.telemetry

    @property
    def records(self) -> Records | None:  # type: ignore[override]  # as above
        """The records of runs, where the endpoint keeps them."""
        return self._api.records

    def host_note(self, job: JobSpec) -> str:
        """The note of the server on a job whose image it cannot run."""
        return self._api.host_note(job)

    def _create(self, id: ResourceId, spec: Spec, owner: str, records: Mapping[str, str]) -> Resource:
        """Creates a resource, or returns an identical one that exists."""
        body = request_body(spec)
        if records and self.records:
            body = {**body, RECORDS_KEY: dict(records)}
        return parse_resource(
            self._connection.create(ArmRequest("PUT", resource_path(id), body=body)), id.kind
        )

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates the missing resources of a job, in one request where the endpoint can."""
        return self._api.ensure(needs)

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
        listed = next(list_pages(self._connection, request, page.after, size))
        following = Page(page.size, listed.next) if listed.next else None
        return Listing((parse_resource(item, kind) for item in listed.items), following)

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names inside `parent` with a prefix, matched case-insensitively."""
        return self._api.names(parent, kind, prefix)

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs ahead of a queued one."""
        return self._api.jobs_ahead_of(job)

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None = None, wait_s: float = 0.0
    ) -> StatusSnapshot:
        """The current state of jobs and clusters, in one request where the endpoint can."""
        return self._api.status(ids, since=since, wait_s=wait_s) if ids else StatusSnapshot({})

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
        """Terminates a job; no effect on one that has ended. `now` is for servers of our own."""
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
        request = output_listing(job, directory_id, path, expiry_min, limit)
        items = islice(list_items(self._connection, request), limit)
        return [OutputFile.from_wire(item, folder=path) for item in items]

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`."""
        check_inside(file.path)
        return self._api.read(file, offset, limit)

    def tail(
        self,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all logs of a job; an endpoint that can waits up to `wait_s` for some."""
        return self._api.tail(job, positions, limit, wait_s=wait_s)

    def close(self) -> None:
        """Closes the connection; jobs run on."""
        self._connection.close()

    @property
    def _api(self) -> PublishedApi:
        return self._discovery.api

    def _extended_api(self, info: ServerInfo) -> ServerExtensions:
        shares, containers = (
            extended_storage(self._connection, self.accounts, self._resource_group, service)
            for service in ("file", "blob")
        )
        return ServerExtensions(self, self._connection, info, storage=shares, containers=containers)
