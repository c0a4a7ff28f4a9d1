"""The jobs of the workspace: their resources, and the requests that make, list, cancel and archive them."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.azureml.computes import Computes, Node
from tests.azureml.http_messages import RefusedError, Request, Response, Routes, json_response
from tests.azureml.workspace import ARTIFACTS, CREATED, ROOT

FINAL = {"Completed", "Failed", "Canceled"}
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
    retries: int = 0
    nodes: list[Node] = field(default_factory=list)
    is_cancelled: threading.Event = field(default_factory=threading.Event)
    is_preempted: threading.Event = field(default_factory=threading.Event)
    lock: Any = field(default_factory=threading.RLock, repr=False)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def prefix(self) -> str:
        """Where its logs and outputs are in the container of artifacts."""
        return f"ExperimentRun/dcid.{self.name}/"

    @property
    def log_folder(self) -> str:
        """The folder of what the processes of the present attempt print."""
        return "user_logs/" + (f"retry_{self.retries:03}/" if self.retries else "")

    @property
    def node_count(self) -> int:
        return (self.properties.get("resources") or {}).get("instanceCount") or 1

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
        base = {"id": f"{ROOT}/jobs/{self.name}", "name": self.name, "systemData": CREATED}
        return {**base, "type": "Microsoft.MachineLearningServices/workspaces/jobs", "properties": properties}


class Jobs:
    """All jobs by name. `page` is how many one page of a list has."""

    def __init__(self, computes: Computes, start: Callable[[Job], None]) -> None:
        self.page = 50
        self.jobs: dict[str, Job] = {}
        self._computes, self._start = computes, start
        self._lock = threading.RLock()
        self.routes = Routes(f"{ROOT}/jobs")
        for method, path, handler in (
            ("GET", "", self._list),
            ("GET", "/{name}", self._show),
            ("PUT", "/{name}", self._put),
            ("PATCH", "/{name}", self._patch),
            ("DELETE", "/{name}", self._delete),
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
            self._check(properties)
            job = self.jobs[name] = Job(name, {"experimentName": "Default", **properties}, len(self.jobs))
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
        return job

    def _patch(self, request: Request, name: str) -> Response:
        job = self.find(name)
        changes = request.json().get("properties", {})
        with job.lock:
            job.properties.update({key: changes[key] for key in CHANGEABLE if key in changes})
        return json_response(job.body())

    def _check(self, properties: dict[str, Any]) -> None:
        if properties.get("jobType") == "Command" and not properties.get("environmentId"):
            raise RefusedError(400, "UserError", "The EnvironmentId field is required.")
        if compute := properties.get("computeId"):
            try:
                self._computes.find(compute)
            except RefusedError as missing:
                raise RefusedError(400, "UserError", f"Compute not found: {compute}") from missing
        elif not (properties.get("resources") or {}).get("instanceType"):
            raise RefusedError(400, "UserError", "Neither a compute nor an instance type is given.")

    def _delete(self, request: Request, name: str) -> Response:
        job = self.find(name)
        if not job.is_final:
            raise RefusedError(409, "UserError", f"The job {name} has not ended.")
        with self._lock:
            del self.jobs[name]
        return Response(202, headers={"Location": f"https://management.azure.com{ROOT}/jobs/{name}"})

    def _cancel(self, request: Request, name: str) -> Response:
        job = self.find(name)
        if job.is_final:
            raise RefusedError(400, "UserError", f"The job {name} is already in the state {job.status}.")
        job.change("CancelRequested")
        job.is_cancelled.set()
        return Response(202, headers={"Location": f"https://management.azure.com{ROOT}/jobs/{name}?done"})


def output_uri(job: Job, name: str) -> str:
    """Where an output is: a place of its own unless the job has named one."""
    given = ((job.properties.get("outputs") or {}).get(name) or {}).get("uri")
    return given or f"azureml://datastores/workspaceblobstore/paths/azureml/{job.name}/{name}"


def artifact(job: Job, name: str) -> tuple[str, str]:
    """The container and name of the blob with a log or output of a job."""
    return ARTIFACTS, job.prefix + name
