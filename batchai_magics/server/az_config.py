"""Sign-in for a genuine `az`: its configuration folder and the managed identity endpoint.

Until 2023, `az` sent the token in the path (`MSI_ENDPOINT`); later versions send it in a header
(`IDENTITY_ENDPOINT`, `IDENTITY_HEADER`). The endpoint echoes the token it receives, so it grants no access.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from batchai_magics.backends.folders import private_files
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.arm.subscriptions import TENANT

CLOUD = "batchai"


def write(
    folder: Path, url: str, token: str, settings: Settings, *, authority: Path | None = None
) -> list[str]:
    """Writes the configuration folder; returns the lines a shell needs before `az`, including the token."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "env").exists():
        hint = "Name a new folder: your own configuration of az stays as it is."
        raise UsageError(f"{folder} has something else in it", hint=hint)
    private_files.make_folder(folder)
    lines = [
        f"export AZURE_CONFIG_DIR={folder.absolute()}",
        f"export MSI_ENDPOINT={url}/msi/{token}/token",  # for az until 2023
        f"export IDENTITY_ENDPOINT={url}/msi/token",
        f"export IDENTITY_HEADER={token}",
    ]
    if authority:
        lines.append(f"export REQUESTS_CA_BUNDLE={authority}")
    endpoints = ("management", "resource_manager", "active_directory", "active_directory_resource_id")
    cloud = {
        **{f"endpoint_{name}": f"{url}/" for name in endpoints},
        "suffix_storage_endpoint": "core.local",
        "subscription": settings.subscription,
    }
    subscription = {
        "id": settings.subscription,
        "name": settings.backend,
        "state": "Enabled",
        "isDefault": True,
        "tenantId": TENANT,
        "environmentName": CLOUD,
        "user": {
            "name": "systemAssignedIdentity",
            "type": "servicePrincipal",
            "assignedIdentityInfo": "MSI",
        },
    }
    profile = {"installationId": str(uuid.uuid4()), "subscriptions": [subscription]}
    files = {
        "config": _sections({"cloud": {"name": CLOUD}, "core": _CORE}),
        "clouds.config": _sections({CLOUD: cloud}),
        "azureProfile.json": json.dumps(profile),
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


def _sections(sections: Mapping[str, Mapping[str, str]]) -> str:
    lines = []
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in values.items()), ""]
    return "\n".join(lines)


_PATH = re.compile(r"/msi/(?:(?P<token>[\w.~-]{1,512})/)?token/?")
_TOKEN = re.compile(r"[\w.~-]{1,512}", re.ASCII)
_TOKEN_LIFETIME_S = 24 * 3600


def managed_identity_token(call: ApiCall) -> ApiResponse:
    """A managed identity's token response: the token of the path, or of the header."""
    match = _PATH.fullmatch(call.path)
    token = (match["token"] or call.headers.get("x-identity-header", "")) if match else ""
    if not _TOKEN.fullmatch(token):
        message = "The path must be /msi/TOKEN/token, or /msi/token with a header X-IDENTITY-HEADER."
        return ApiResponse(404, {"error": {"code": "NotFound", "message": message}})
    data = {
        "access_token": token,
        "token_type": "Bearer",
        "resource": "batchai",
        "expires_in": str(_TOKEN_LIFETIME_S),
        "expires_on": str(int(time.time()) + _TOKEN_LIFETIME_S),
    }
    return ApiResponse(data=data)
