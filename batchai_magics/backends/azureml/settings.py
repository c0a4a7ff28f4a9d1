"""The settings of the azureml backend, and its workspace: from them, or from a `config.json`.

Azure's portal offers such a file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast
from urllib.parse import quote

from batchai_magics.config import Settings, setting
from batchai_magics.errors import UsageError
from batchai_magics.models.backend_options import BackendOption


def is_file(text: str) -> None:
    """Raises ValueError unless the text is the path of a file."""
    if not Path(text).expanduser().is_file():
        raise ValueError(f"{text} is no file")


NAME = "azureml"
SIZE = BackendOption("size", "VM size of a job on Azure Machine Learning without a cluster", "SIZE")
SPOT = BackendOption("spot", "run on low-priority nodes, where the service has them", is_switch=True)
CONDA = BackendOption("conda", "conda file with the packages of the job's environment", "FILE", is_file)


@dataclass(frozen=True)
class AzureMLSettings:
    """The settings of the azureml backend; the workspace is in the general settings, or in `config.json`."""

    BACKEND_OPTIONS: ClassVar = (SIZE, SPOT, CONDA)

    resource_manager: str = setting("https://management.azure.com", "address of Azure Resource Manager")
    api_version: str = setting("2025-12-01", "version of the service's API")
    size: str = setting("Standard_DS3_v2", "VM size of jobs without a cluster")
    image: str = setting(
        "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04",
        "image or environment of jobs that name none",
    )
    datastore: str = setting("workspaceblobstore", "datastore that outputs are written to")
    identity: str = setting("", "whose rights jobs have: `user`, `managed`, or the client id of an identity")
    visible_secrets: str = setting("no", "yes: secrets become variables that all of the workspace can read")
    connect_s: float = setting(5.0, "connection timeout in seconds")
    answer_s: float = setting(60.0, "response timeout in seconds")
    look_s: float = setting(1.0, "seconds between two polls")


_HOW = (
    "Give --subscription, --resource-group and --workspace with `%batchai use --backend azureml`, or put "
    "the workspace's config.json into the notebook's folder."
)
_FILES = (".azureml/config.json", "config.json", "aml_config/config.json")
_KEYS = {"subscription": "subscription_id", "resource_group": "resource_group", "workspace": "workspace_name"}


@dataclass(frozen=True)
class WorkspaceAddress:
    """A workspace of Azure Machine Learning: subscription, resource group and name."""

    subscription: str
    group: str
    name: str

    @classmethod
    def of(cls, settings: Settings) -> WorkspaceAddress:
        """The workspace of the settings; raises UsageError if they name no subscription."""
        if settings.subscription == Settings.subscription:
            raise UsageError("the azureml backend has no workspace", hint=_HOW)
        return cls(settings.subscription, settings.resource_group, settings.workspace)

    @property
    def group_path(self) -> str:
        """The path of the workspaces in its resource group."""
        group = f"/subscriptions/{quote(self.subscription)}/resourceGroups/{quote(self.group)}"
        return f"{group}/providers/Microsoft.MachineLearningServices/workspaces"

    @property
    def path(self) -> str:
        """Its path below Azure Resource Manager and the run history."""
        return f"{self.group_path}/{quote(self.name)}"

    def location_path(self, location: str) -> str:
        """The path of its subscription's quotas and VM sizes in a location."""
        provider = f"/subscriptions/{quote(self.subscription)}/providers/Microsoft.MachineLearningServices"
        return f"{provider}/locations/{quote(location)}"


def with_workspace_file(settings: Settings, folder: Path) -> Settings:
    """The settings; names that they leave out are taken from the nearest `config.json`.

    The file is searched for in `folder` and its parents, as Azure's SDK does.

    Raises:
        UsageError: The file is unreadable or lacks a name.
    """
    if settings.subscription != Settings.subscription:
        return settings
    files = (above / name for above in (folder, *folder.parents) for name in _FILES)
    file = next(filter(Path.is_file, files), None)
    if file is None:
        return settings
    values = _read(file)
    unnamed = {name: values[name] for name in values if getattr(settings, name) == getattr(Settings, name)}
    return replace(settings, **cast("Any", unnamed))


def _read(file: Path) -> dict[str, str]:
    """The names in a workspace's file, by their settings; empty for a file of another kind."""
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}", hint=_HOW) from None
    if not isinstance(data, dict) or not any(key in data for key in _KEYS.values()):
        return {}
    missing = [key for key in _KEYS.values() if not isinstance(data.get(key), str)]
    if missing:
        raise UsageError(f"{file} has no {', '.join(missing)}", hint=_HOW)
    return {name: data[key] for name, key in _KEYS.items()}
