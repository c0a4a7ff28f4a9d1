"""Opens the azureml backend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.azureml.settings import AzureMLSettings, WorkspaceAddress, with_workspace_file

if TYPE_CHECKING:
    from batchai_magics.backends.base import Backend
    from batchai_magics.config import Settings

IMPLEMENTED_IN = "batchai_magics.backends.azureml.azureml_backend"
OWN_SETTINGS = AzureMLSettings
IS_PAID = True


def complete_settings(settings: Settings) -> Settings:
    """The settings with the workspace of the nearest `config.json`, unless they name one."""
    return with_workspace_file(settings, Path.cwd())


def open_backend(settings: Settings) -> Backend:
    """The backend in the workspace of the settings; sends no request yet."""
    from batchai_magics.backends.azureml.azureml_backend import AzureMLBackend
    from batchai_magics.backends.azureml.connection import Connection

    azureml_settings = settings.for_backend(AzureMLSettings)
    return AzureMLBackend(Connection(WorkspaceAddress.of(settings), azureml_settings), settings)


def check_choice(settings: Settings) -> str:
    """Signs in and finds the workspace; returns a note that names it."""
    from batchai_magics.backends.azureml.connection import Connection

    connection = Connection(WorkspaceAddress.of(settings), settings.for_backend(AzureMLSettings))
    try:
        workspace = connection.workspace
    finally:
        connection.close()
    return f"Workspace {connection.address.name} in {workspace.location}."
