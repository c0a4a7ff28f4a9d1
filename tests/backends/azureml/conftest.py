"""A backend in the workspace of the stand-in."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from batchai_magics.backends.azure.arm_client import TIMING
from batchai_magics.backends.azureml.azureml_backend import AzureMLBackend
from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.settings import AzureMLSettings
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.config import Settings
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from tests.azureml.conftest import azure
from tests.azureml.stand_in import AzureStandIn

__all__ = ["azure"]
platform.platform()  # starts a process the first time; Azure's libraries send the system's name


@pytest.fixture
def settings(azure: AzureStandIn) -> Settings:
    subscription, group, workspace = azure.place
    names = {"subscription": subscription, "resource_group": group, "workspace": workspace}
    own = AzureMLSettings(look_s=0.0)
    return replace(Settings(), backend="azureml", sections={"azureml": own}, **names)


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
