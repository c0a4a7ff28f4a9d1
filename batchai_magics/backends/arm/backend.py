"""The arm backend: the Backend protocol over the Batch AI REST API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from batchai_magics.backends.arm import facets, output, paths, resources
from batchai_magics.backends.arm.connection import Connection
from batchai_magics.backends.arm.endpoint import Endpoint
from batchai_magics.backends.arm.far_side import FarSide
from batchai_magics.backends.arm.listing import items, pages
from batchai_magics.backends.arm.logs import Logs
from batchai_magics.backends.arm.paths import Question
from batchai_magics.backends.arm.storage.backend import ArmStorage
from batchai_magics.backends.arm.storage.clients import StorageClients
from batchai_magics.backends.arm.storage.packed import PackedFiles
from batchai_magics.backends.base import (
    CONTAINERS,
    NODE_COMMANDS,
    PREEMPTION,
    SETUP_LOGS,
    TELEMETRY,
    BackendBase,
    Capabilities,
    Chunk,
    FileRef,
    JobNeeds,
    Listing,
    Page,
    Patch,
    Spec,
    StatusSnapshot,
    refuse_beyond,
)
from batchai_magics.backends.base.plain import default_status
from batchai_magics.backends.service.dialect.capabilities import ENSURE
from batchai_magics.backends.service.dialect.headers import PREFER, SINCE, STATE, waiting
from batchai_magics.config import Settings
from batchai_magics.models.execution import STDOUTERR, OutputFile
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource, Node, Resource

_LONGEST_PAGE = 1000


class ArmBackend(BackendBase):
    """Jobs at an endpoint. Nothing is kept here: two processes, or two machines, see the same."""

    storage: ArmStorage
    accounts: facets.Accounts
    groups: facets.Groups
    usages: facets.Usages

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._connection = Connection(endpoint, settings.subscription)
        self._far = FarSide(self._connection)
        self._logs = Logs(self._connection, self._far)
        self.groups = facets.Groups(self._connection)
        self.accounts = facets.Accounts(self._connection, self.groups)
        self.usages = facets.Usages(self._connection)
        clients = StorageClients(self._connection, self._far, self.accounts, settings.resource_group)
        self.storage, self._containers = (
            ArmStorage(clients, self._far, PackedFiles(self._connection, service), noun)
            for noun, service in (("share", "file"), ("container", "blob"))
        )

    @property
    def capabilities(self) -> Capabilities:
        """What the far side can do."""
        return self._far.capabilities

    @property
    def containers(self) -> ArmStorage | None:  # type: ignore[override]  # the far side is asked when it is needed
        """The blob containers, where our own server has some."""
        return self._containers if self._far.has(CONTAINERS.attribute) else None

    @property
    def node_commands(self) -> facets.NodeCommands | None:  # type: ignore[override]  # as above
        """Commands on nodes, where our own server has them."""
        return facets.NodeCommands(self._connection) if self._far.has(NODE_COMMANDS.attribute) else None

    @property
    def preemption(self) -> facets.Preemption | None:  # type: ignore[override]  # as above
        """Nodes that can be taken away, where our own server has some."""
        return facets.Preemption(self._connection) if self._far.has(PREEMPTION.attribute) else None

    @property
    def setup_logs(self) -> facets.SetupLogs | None:  # type: ignore[override]  # as above
        """What setup tasks wrote, where our own server tells it."""
        return facets.SetupLogs(self._connection) if self._far.has(SETUP_LOGS.attribute) else None

    @property
    def telemetry(self) -> facets.Telemetry | None:  # type: ignore[override]  # as above
        """What the processes of jobs use, where our own server tells it."""
        return facets.Telemetry(self._connection) if self._far.has(TELEMETRY.attribute) else None

    def _create(self, id: ResourceId, spec: Spec, owner: str) -> Resource:
        """Makes a resource, or returns it if the very same is there already."""
        return resources.resource(
            self._connection.make(Question("PUT", paths.of(id), body=paths.body_of(spec))), id.kind
        )

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates what is missing of what a job needs: one request to our own server, else one for each."""
        if not self._far.has(ENSURE):
            return super().ensure(needs)
        for _, spec in needs.resources:
            refuse_beyond(self.capabilities, spec)
        listed = [{"id": str(id), "body": paths.body_of(spec)} for id, spec in needs.resources]
        body = {"job": str(needs.job), "resources": listed, "share": needs.share}
        path = paths.provider(self._connection.subscription, "batchaiEnsure")
        found = self._connection.ask(Question("POST", path, body=body))
        runs = (resources.any_resource(item) for item in found["value"])
        return [run for run in runs if isinstance(run, JobResource)]

    def show(self, id: ResourceId) -> Resource:
        """The resource as it stands."""
        return resources.resource(self._connection.ask(Question("GET", paths.of(id))), id.kind)

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind inside `parent`, oldest first."""
        question = Question("GET", paths.collection(parent, kind))
        if page is None or page.size is None:
            after = page.after if page else ""
            return Listing(
                resources.resource(item, kind) for item in items(self._connection, question, after)
            )
        size = min(page.size, _LONGEST_PAGE)
        found = next(pages(self._connection, question, page.after, size))
        following = Page(page.size, found.next) if found.next else None
        return Listing((resources.resource(item, kind) for item in found.items), following)

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names inside `parent` that begin so; our own server tells nothing but them."""
        if not self._far.is_own or kind is Kind.WORKSPACE:
            return super().names(parent, kind, prefix)
        question = Question("GET", paths.collection(parent, kind), {"batchaiNames": prefix})
        return [str(name) for name in self._connection.ask(question).get("value", ())]

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs before a queued one; our own server knows them, and lists none of the others for it."""
        if not self._far.is_own:
            return super().jobs_ahead_of(job)
        question = Question("POST", paths.of(job.id, "batchaiAhead"), is_asked_again=True)
        return [ResourceId.parse(str(id)) for id in self._connection.ask(question).get("value", ())]

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None = None, wait_s: float = 0.0
    ) -> StatusSnapshot:
        """Jobs and clusters as they stand: one question to our own server, else one for each parent."""
        if not ids:
            return StatusSnapshot({})
        if not self._far.is_own:
            return default_status(self, ids)
        wait = _patience(since.state if since else "", wait_s)
        body = {"ids": [str(id) for id in ids]}
        path = paths.provider(self._connection.subscription, "batchaiLook")
        response = self._connection.send(Question("POST", path, body=body, headers=wait, is_asked_again=True))
        found = [resources.any_resource(item) for item in response.json()["value"]]
        return StatusSnapshot({item.id.key: item for item in found}, response.headers.get(STATE, ""))

    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Tags a workspace, or resizes a cluster."""
        return resources.resource(
            self._connection.ask(Question("PATCH", paths.of(id), body=patch.to_wire())), id.kind
        )

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and all inside it, and waits until it is gone."""
        self.show(id)  # the service says nothing of what is not there
        self._connection.remove(Question("DELETE", paths.of(id)))

    def terminate(self, job: ResourceId) -> None:
        """Asks a job to end; nothing happens to one that has ended."""
        self._connection.send(Question("POST", paths.of(job, "terminate")))

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""
        question = Question("POST", paths.of(id, "listRemoteLoginInformation"))
        return [Node.from_wire(item) for item in items(self._connection, question)]

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
        question = output.listing(job, directory_id, path, expiry_min, limit)
        found = islice(items(self._connection, question), limit)
        return [OutputFile.from_wire(item, folder=path) for item in found]

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`."""
        paths.check_inside(file.path)
        if self._far.is_own:
            return self._logs.read(file, offset, limit)
        return output.read(self, self._connection, file, offset=offset, limit=limit)

    def tail(
        self,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs; our own server is asked once, and may wait for some."""
        if self._far.is_own:
            return self._logs.tail(job, positions, limit, wait_s=wait_s)
        return super().tail(job, positions, limit)

    def close(self) -> None:
        """Closes the connection; jobs run on."""
        self._connection.close()


def _patience(known: str, wait_s: float) -> Mapping[str, str]:
    """The headers that have our own server wait for something other than what is known."""
    return {PREFER: waiting(wait_s), SINCE: known} if wait_s and known else {PREFER: waiting(1)}
