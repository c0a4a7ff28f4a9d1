"""Azure Machine Learning on this machine: one workspace, its storage and sign-in, over TLS behind a proxy."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchai_magics.backends.azureml.settings import AzureMLSettings
from batchai_magics.config import Settings
from batchai_magics.server.access.certificates import server_certificate
from tests.azureml import blobs, sign_in
from tests.azureml.blobs import Blobs
from tests.azureml.computes import Computes
from tests.azureml.faults import Faults
from tests.azureml.http_messages import RefusedError, Request, Response
from tests.azureml.job_runs import JobRuns
from tests.azureml.jobs import Job, Jobs, artifact
from tests.azureml.run_history import RunHistory
from tests.azureml.sign_in import MANAGEMENT, ML, SignIn
from tests.azureml.tls_proxy import Exchange, TlsProxy
from tests.azureml.workspace import GROUP, SUBSCRIPTION, WORKSPACE, Workspace

HOSTS = (
    "management.azure.com",
    "login.microsoftonline.com",
    "*.api.azureml.ms",
    "*.blob.core.windows.net",
    "*.file.core.windows.net",
)


class AzureStandIn:
    """The services of one workspace. Without `runs_jobs`, its jobs do what a test says."""

    def __init__(self, folder: Path, *, runs_jobs: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.faults, self.sign_in = Faults(), SignIn()
        self.blobs = Blobs(self.sign_in)
        self.workspace = Workspace(self.blobs)
        self.computes = Computes(self.workspace)
        self.runs = JobRuns(folder / "runs", self.workspace, self.computes)
        self.jobs = Jobs(self.workspace, self.computes, self.runs.start if runs_jobs else self._wait_for_test)
        self.history = RunHistory(self.jobs, self.blobs)
        files = server_certificate(folder, HOSTS)
        self._bundle = files.authority
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(files.certificate, files.key)
        self._proxy = TlsProxy(self._respond, self.faults, tls)

    @property
    def client_env(self) -> Mapping[str, str]:
        """The variables with which a client's program reaches this and signs in."""
        return {
            "HTTPS_PROXY": self._proxy.url,
            "REQUESTS_CA_BUNDLE": str(self._bundle),
            "AZURE_TENANT_ID": sign_in.TENANT,
            "AZURE_CLIENT_ID": sign_in.CLIENT_ID,
            "AZURE_CLIENT_SECRET": sign_in.CLIENT_SECRET,
            "AZUREML_RUN_POLLING_INTERVAL_MIN": "0",
            "AZUREML_RUN_POLLING_INTERVAL_MAX": "1",
        }

    @property
    def place(self) -> tuple[str, str, str]:
        """The subscription, resource group and workspace."""
        return SUBSCRIPTION, GROUP, WORKSPACE

    def settings(self, **own: Any) -> Settings:
        """The settings of the backend for the workspace, with these of its own."""
        names = dict(zip(("subscription", "resource_group", "workspace"), self.place, strict=True))
        sections = {"azureml": AzureMLSettings(look_s=0.0, **own)}
        return replace(Settings(), backend="azureml", sections=sections, **names)

    @property
    def exchanges(self) -> list[Exchange]:
        """Every request so far, in the order of their ends."""
        return list(self._proxy.exchanges)

    def close(self) -> None:
        """Ends all jobs, then all connections."""
        self.runs.close()
        self._proxy.close()

    # what a test has a job do

    def write_log(self, job: str, name: str, data: bytes) -> None:
        """Appends to a log of a job, such as `user_logs/std_log.txt`."""
        self.blobs.append(*artifact(self.jobs.find(job), name), data)

    def set_status(self, job: str, status: str, *, error: dict[str, object] | None = None) -> None:
        """Has a job enter a state; a last one with an error."""
        found = self.jobs.find(job)
        found.error = error or found.error
        found.change(status)

    def _wait_for_test(self, job: Job) -> None:
        """Nothing: the job waits for a test to change it."""

    # requests

    def _respond(self, request: Request) -> Response:
        if request.host == blobs.HOST:
            return self.blobs.answer(request)
        if request.host == sign_in.HOST:
            return self.sign_in.answer(request)
        try:
            return self._api(request)
        except RefusedError as refused:
            return refused.as_json()

    def _api(self, request: Request) -> Response:
        if response := self.workspace.discovery.answer(request):
            return response  # without a token
        self.sign_in.check(request, MANAGEMENT, ML)
        for service in (self.history, self.jobs, self.computes, self.workspace):
            if response := service.routes.answer(request):
                return response
        message = f"No registered resource provider found for {request.method} {request.path}"
        raise RefusedError(404, "ResourceNotFound", message)
