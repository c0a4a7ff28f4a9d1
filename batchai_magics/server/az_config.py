"""The configuration of a genuine `az`: a cloud that is this server, and a profile that is signed in to it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path

from batchai_magics.backends.service import private_files
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.server.arm.subscriptions import TENANT

CLOUD = "batchai"


def write(
    folder: Path, url: str, token: str, settings: Settings, *, authority: Path | None = None
) -> list[str]:
    """Writes the folder; gives the lines that a shell needs before `az`. The token stands in them."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "env").exists():
        hint = "Name a new folder: your own configuration of az stays as it is."
        raise UsageError(f"{folder} has something else in it", hint=hint)
    private_files.make_folder(folder)
    lines = [
        f"export AZURE_CONFIG_DIR={folder.absolute()}",
        f"export MSI_ENDPOINT={url}/msi/{token}/token",  # of az until 2023
        f"export IDENTITY_ENDPOINT={url}/msi/token",
        f"export IDENTITY_HEADER={token}",
    ]
    if authority:
        lines.append(f"export REQUESTS_CA_BUNDLE={authority}")
    files = {
        "config": _sections({"cloud": {"name": CLOUD}, "core": _CORE}),
        "clouds.config": _sections({CLOUD: _cloud(url, settings)}),
        "azureProfile.json": json.dumps(_profile(settings)),
        "env": "\n".join(lines) + "\n",
    }
    for name, text in files.items():
        private_files.write(folder / name, text)
    return lines


_CORE = {
    "collect_telemetry": "no",
    "instance_discovery": "false",
    "output": "json",
    "survey_message": "false",
}


def _cloud(url: str, settings: Settings) -> Mapping[str, str]:
    names = ("management", "resource_manager", "active_directory", "active_directory_resource_id")
    return {
        **{f"endpoint_{name}": f"{url}/" for name in names},
        "suffix_storage_endpoint": "core.local",
        "subscription": settings.subscription,
    }


def _profile(settings: Settings) -> Mapping[str, object]:
    user = {"name": "systemAssignedIdentity", "type": "servicePrincipal", "assignedIdentityInfo": "MSI"}
    subscription = {
        "id": settings.subscription,
        "name": settings.backend,
        "state": "Enabled",
        "isDefault": True,
        "tenantId": TENANT,
        "environmentName": CLOUD,
        "user": user,
    }
    return {"installationId": str(uuid.uuid4()), "subscriptions": [subscription]}


def _sections(sections: Mapping[str, Mapping[str, str]]) -> str:
    lines = []
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in values.items()), ""]
    return "\n".join(lines)
