"""A backend in the workspace of the stand-in."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from batchai_magics.backends.azure.arm_client import TIMING
from batchai_magics.backends.azureml.azureml_backend import AzureMLBackend
from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.config import Settings
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from tests.azureml.conftest import azure
from tests.azureml.stand_in import AzureStandIn

__all__ = ["azure"]
Starter = Callable[..., ResourceId]
platform.platform()  # starts a process the first time; Azure's libraries send the system's name


@pytest.fixture
def settings(azure: AzureStandIn) -> Settings:
    return azure.settings()


@pytest.fixture
def backend(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureMLBackend]:
    monkeypatch.setitem(cast("dict[str, float]", TIMING), "polling_interval", 0.05)
    made = open_backend(settings)
    yield made
    made.close()


@pytest.fixture
def connection(backend: AzureMLBackend) -> Connection:
    return backend.connection


@pytest.fixture
def workspace(settings: Settings) -> ResourceId:
    return workspace_id(settings)


@pytest.fixture
def experiment(settings: Settings) -> ResourceId:
    return workspace_id(settings).child(Kind.EXPERIMENT, "first")


@pytest.fixture
def start(azure: AzureStandIn, backend: AzureMLBackend, experiment: ResourceId) -> Starter:
    """Starts a job as another client of the service would."""

    def put(name: str = "resnet", status: str = "Running", **more: Any) -> ResourceId:
        job = {
            "jobType": "Command",
            "command": "train",
            "environmentId": "azureml:image:1",
            "experimentName": experiment.name,
            "resources": {"instanceCount": 1, "instanceType": "Standard_DS3_v2"},
            **more,
        }
        connection = backend.connection
        connection.send(connection.request("PUT", f"jobs/{name}", {"properties": job}))
        azure.set_status(name, status)
        return experiment.child(Kind.JOB, name)

    return put
