"""The settings of the azureml backend."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from batchai_magics.config import setting
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
