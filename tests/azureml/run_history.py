"""Run history, a data plane service: what a run did, why it failed, and where its logs are."""

from __future__ import annotations

import datetime
from typing import Any

from tests.azureml.blobs import Blobs
from tests.azureml.http_messages import RefusedError, Request, Response, Routes, json_response
from tests.azureml.jobs import Job, Jobs, output_uri
from tests.azureml.workspace import ARTIFACTS, LOCATION, ROOT, WORKSPACE

LOGS = ("user_logs/", "system_logs/", "azureml-logs/", "logs/")
_PROVIDER_PART = "/providers/Microsoft.MachineLearningServices"
_DATA = f"azureml://locations/{LOCATION}/workspaces/{WORKSPACE}/data"


class RunHistory:
    """The runs behind the jobs. `link_life_s` is how long the addresses of logs are valid."""

    def __init__(self, jobs: Jobs, storage: Blobs) -> None:
        self.link_life_s = 3600.0
        self._jobs, self._storage = jobs, storage
        self.routes, base = Routes(), f"/history/v1.0{ROOT}"
        for method, path, handler in (
            ("GET", f"{base}/runs/{{name}}", self._run),
            ("GET", f"{base}/runs/{{name}}/details", self._details),
            ("POST", f"{base}/rundata", self._run_data),
            ("POST", f"/data/v1.0{ROOT}/dataversion/batchGetResolvedUris", self._resolve),
        ):
            self.routes.add(method, path, handler)

    def _find(self, name: str) -> Job:
        try:
            return self._jobs.find(name)
        except RefusedError as missing:
            raise RefusedError(404, "UserError", f"RunNotFound: Run {name} was not found") from missing

    def _details(self, request: Request, name: str) -> Response:
        job = self._find(name)
        names = self._storage.names(ARTIFACTS, job.prefix)
        logs = [own for own in names if own[len(job.prefix) :].startswith(LOGS)]
        links = {own[len(job.prefix) :]: self._link(own) for own in logs}
        return json_response({**self._body(job), "logFiles": links})

    def _link(self, name: str) -> str:
        return self._storage.url(ARTIFACTS, name, life_s=self.link_life_s)

    def _run(self, request: Request, name: str) -> Response:
        return json_response(self._metadata(self._find(name)))

    def _run_data(self, request: Request) -> Response:
        job = self._find(request.json()["runId"])
        outputs = {
            name: {"assetId": f"{_DATA}/{job.name}:{name}/versions/1", "type": "uri_folder"}
            for name in (job.properties.get("outputs") or {})
        }
        return json_response(
            {"runMetadata": {**self._metadata(job), "outputs": outputs}, "runDefinition": None}
        )

    def _resolve(self, request: Request) -> Response:
        """Where the data of outputs is."""
        found = {}
        for asset in request.json()["values"]:
            job, _, name = asset.split("/")[-3].partition(":")
            short = output_uri(self._jobs.find(job), name)
            uri = short.replace("azureml:/", f"azureml:/{ROOT.replace(_PROVIDER_PART, '')}")
            found[asset] = {"uri": uri, "type": "uri_folder"}
        return json_response({"values": found})

    def _metadata(self, job: Job) -> dict[str, Any]:
        name = job.properties.get("displayName") or job.name
        return {**self._body(job), "experimentId": job.properties["experimentName"], "displayName": name}

    def _body(self, job: Job) -> dict[str, Any]:
        with job.lock:
            target = (job.properties.get("computeId") or "serverless").rpartition("/")[2]
            return {
                "runId": job.name,
                "runNumber": job.number,
                "status": job.status,
                "startTimeUtc": _time(job.started_at),
                "endTimeUtc": _time(job.ended_at),
                "error": {"error": job.error} if job.error else None,
                "warnings": [{"source": "Service", "message": text} for text in job.warnings],
                "target": target,
                "tags": job.properties.get("tags") or {},
                "properties": job.properties.get("properties") or {},
                "computeRequest": {"nodeCount": job.node_count, "gpuCount": 0},
            }


def _time(moment: datetime.datetime | None) -> str | None:
    return moment.isoformat() if moment else None
