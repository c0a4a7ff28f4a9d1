"""The jobs of the workspace: their resources, and the requests that make, list, cancel and archive them."""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.azureml.computes import Computes, Node, seconds
from tests.azureml.http_messages import RefusedError, Request, Response, Routes, json_response
from tests.azureml.workspace import ARTIFACTS, ROOT, Workspace, find_size, now, system_data

FINAL = {"Completed", "Failed", "Canceled"}
TIERS = ("standard", "spot")  # that serverless compute documents
JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
DAY_S = 86_400
CHANGEABLE = ("tags", "displayName", "description", "isArchived")


@dataclass
class Job:
    """A job, and what is known of its run."""

    name: str
    properties: dict[str, Any]
    number: int
    status: str = "NotStarted"
    started_at: datetime.datetime | None = None
    ended_at: datetime.datetime | None = None
    error: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    creator: str = "Ann"
    created_at: str = field(default_factory=now)
    modified_at: str = field(default_factory=now)
    is_cancelled: threading.Event = field(default_factory=threading.Event)
    lock: Any = field(default_factory=threading.RLock, repr=False)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def prefix(self) -> str:
        """Where its logs and outputs are in the container of artifacts."""
        return f"ExperimentRun/dcid.{self.name}/"

    @property
    def node_count(self) -> int:
        return (self.properties.get("resources") or {}).get("instanceCount") or 1

    @property
    def size(self) -> str:
        """The VM size of its nodes, if it is serverless."""
        return str((self.properties.get("resources") or {}).get("instanceType") or "")

    @property
    def is_spot(self) -> bool:
        """Whether it asks serverless compute for low-priority nodes."""
        return str((self.properties.get("queueSettings") or {}).get("jobTier")).lower() == "spot"

    def change(self, status: str) -> None:
        """Enters a state, unless it has ended."""
        with self.lock:
            if self.is_final:
                return
            now = datetime.datetime.now(datetime.timezone.utc)
            if status == "Running" and self.started_at is None:
                self.started_at = now
            if status in FINAL:
                self.ended_at = now
            self.status = status

    def body(self) -> dict[str, Any]:
        """The resource."""
        with self.lock:
            properties = {**self.properties, "status": self.status}
        uri = f"azureml://datastores/workspaceartifactstore/{self.prefix.rstrip('/')}"
        default = {"jobOutputType": "uri_folder", "mode": "ReadWriteMount", "uri": uri}
        services = {
            "Tracking": {"jobServiceType": "Tracking", "endpoint": "azureml://standin", "status": None},
            "Studio": {"jobServiceType": "Studio", "endpoint": f"https://ml.azure.com/runs/{self.name}"},
        }
        properties |= {
            "services": services,
            "outputs": {**(properties.get("outputs") or {}), "default": default},
        }
        made = {**system_data(self.created_at, self.modified_at), "createdBy": self.creator}
        base = {"id": f"{ROOT}/jobs/{self.name}", "name": self.name, "systemData": made}
        return {**base, "type": "Microsoft.MachineLearningServices/workspaces/jobs", "properties": properties}


class Jobs:
    """All jobs by name. `page` is how many one page of a list has."""

    def __init__(self, workspace: Workspace, computes: Computes, start: Callable[[Job], None]) -> None:
        self.page = 50
        self.jobs: dict[str, Job] = {}
        self._workspace, self._computes, self._start = workspace, computes, start
        self._lock = threading.RLock()
        self.routes = Routes(f"{ROOT}/jobs")
        for method, path, handler in (
            ("GET", "", self._list),
            ("GET", "/{name}", self._show),
            ("PUT", "/{name}", self._put),
            ("POST", "/{name}/cancel", self._cancel),
        ):
            self.routes.add(method, path, handler)

    def find(self, name: str) -> Job:
        with self._lock:
            if name in self.jobs:
                return self.jobs[name]
        raise RefusedError(404, "UserError", f"Not found: the specified resource {name} is not there")

    def _list(self, request: Request) -> Response:
        view, skipped = request.query.get("listViewType", "ActiveOnly"), int(request.query.get("$skip", "0"))
        with self._lock:
            newest = sorted(self.jobs.values(), key=lambda job: -job.number)
        shown = [job for job in newest if self._is_listed(job, view, request)]
        page = shown[skipped : skipped + self.page]
        answer: dict[str, Any] = {"value": [job.body() for job in page]}
        if len(shown) > skipped + self.page:
            place = f"listViewType={view}&$skip={skipped + self.page}"
            version = request.query.get("api-version", "")
            answer["nextLink"] = f"https://management.azure.com{ROOT}/jobs?api-version={version}&{place}"
        return json_response(answer)

    def _is_listed(self, job: Job, view: str, request: Request) -> bool:
        is_archived = bool(job.properties.get("isArchived"))
        if view != "All" and is_archived is not (view == "ArchivedOnly"):
            return False
        name, _, value = request.query.get("tag", "").partition("=")
        tags = job.properties.get("tags") or {}
        return not name or (name in tags and value in ("", tags[name]))

    def _show(self, request: Request, name: str) -> Response:
        return json_response(self.find(name).body())

    def _put(self, request: Request, name: str) -> Response:
        properties = request.json()["properties"]
        with self._lock:
            if name in self.jobs:
                return json_response(self._changed(self.jobs[name], properties).body())
            job = Job(name, {"experimentName": "Default", **properties}, len(self.jobs))
            self._check(job)
            self.jobs[name] = job
        job.change("Starting")
        body = job.body()
        self._start(job)
        return json_response(body, 201, {"Location": f"https://management.azure.com{ROOT}/jobs/{name}"})

    def _changed(self, job: Job, properties: dict[str, Any]) -> Job:
        """A job that is there can only get other tags and suchlike."""
        if properties.get("command") != job.properties.get("command"):
            message = f"A job with this name already exists: {job.name}. Use a different name for a new job."
            raise RefusedError(409, "UserError", message)
        with job.lock:
            job.properties.update({key: properties[key] for key in CHANGEABLE if key in properties})
            job.modified_at = now()
        return job

    def _check(self, job: Job) -> None:
        """Refuses what the service refuses of a new job."""
        properties = job.properties
        if not JOB_NAME.fullmatch(job.name):
            raise RefusedError(400, "UserError", f"The job name {job.name} is not valid.")
        if properties.get("jobType") == "Command" and not properties.get("environmentId"):
            raise RefusedError(400, "UserError", "The EnvironmentId field is required.")
        is_spot = self._is_spot_on_compute(properties["computeId"]) if properties.get("computeId") else None
        if is_spot is None:
            is_spot = self._check_serverless(job)
        _check_timeout(properties, days=7 if is_spot else 21)

    def _is_spot_on_compute(self, compute: str) -> bool:
        try:
            return self._computes.find(compute).is_spot
        except RefusedError as missing:
            raise RefusedError(400, "UserError", f"Compute not found: {compute}") from missing

    def _check_serverless(self, job: Job) -> bool:
        """Refuses unknown sizes and tiers, and nodes that exceed the quota; returns whether they are spot."""
        if not job.size:
            raise RefusedError(400, "UserError", "Neither a compute nor an instance type is given.")
        find_size(job.size)
        tier = (job.properties.get("queueSettings") or {}).get("jobTier") or "Standard"
        if tier.lower() not in TIERS:
            raise RefusedError(
                400, "UserError", f"The job tier {tier} is not supported on serverless compute."
            )
        self._workspace.check_cores(job.size, job.node_count, is_spot=job.is_spot)
        return job.is_spot

    def _cancel(self, request: Request, name: str) -> Response:
        job = self.find(name)
        if job.is_final:
            raise RefusedError(400, "UserError", f"The job {name} is already in the state {job.status}.")
        job.change("CancelRequested")
        job.is_cancelled.set()
        return Response(202, headers={"Location": f"https://management.azure.com{ROOT}/jobs/{name}?done"})


def _check_timeout(properties: dict[str, Any], *, days: int) -> None:
    timeout = (properties.get("limits") or {}).get("timeout")
    if timeout and seconds(timeout) > days * DAY_S:
        message = f"The timeout {timeout} exceeds the maximum of {days} days for these nodes."
        raise RefusedError(400, "UserError", message)


def output_uri(job: Job, name: str) -> str:
    """Where an output is: a place of its own unless the job has named one."""
    given = ((job.properties.get("outputs") or {}).get(name) or {}).get("uri")
    return given or f"azureml://datastores/workspaceblobstore/paths/azureml/{job.name}/{name}"


def artifact(job: Job, name: str) -> tuple[str, str]:
    """The container and name of the blob with a log or output of a job."""
    return ARTIFACTS, job.prefix + name
