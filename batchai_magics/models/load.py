"""The text of a description file → wire JSON in today's spelling, its storage placeholders filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from batchai_magics.errors import Problem, SpecError
from batchai_magics.models.document import parse
from batchai_magics.models.problems import join
from batchai_magics.models.storage import AccountKey
from batchai_magics.models.wire import WireModel

ACCOUNT = "<AZURE_BATCHAI_STORAGE_ACCOUNT>"
KEY = "<AZURE_BATCHAI_STORAGE_KEY>"
_MISSING = (
    "Please configure Azure Storage account {what} via AZURE_BATCHAI_STORAGE_{part} "
    "or provide storage_{setting} value in batchai section of your az configuration file."
)


def load_wire(
    model: type[WireModel], text: str, *, source: str, account: AccountKey | None = None
) -> dict[str, Any]:
    """The description as wire JSON in today's spelling, placeholders filled, not checked yet.

    `source` names the text in errors. What options override is laid over its `properties`;
    `model.from_wire` checks the whole. Raises UsageError for text that is neither JSON nor YAML, SpecError
    for a placeholder that there is no value for.
    """
    wire = model.canonical(parse(text, source=source))
    account = account or AccountKey()
    volumes = list(_volumes(wire["properties"]))
    problems = [problem for path, volume in volumes for problem in _missing(volume, path, account)]
    if problems:
        raise SpecError(problems, what=source)
    for _, volume in volumes:
        _fill(volume, account)
    return wire


def _volumes(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The file shares and containers that a job's or a cluster's body mounts, with their paths."""
    setup = _object(body, "nodeSetup")
    owners = {"properties.mountVolumes": body, "properties.nodeSetup.mountVolumes": setup}
    for path, owner in owners.items():
        for key in ("azureFileShares", "azureBlobFileSystems"):
            volumes = _object(owner, "mountVolumes").get(key)
            for index, volume in enumerate(volumes if isinstance(volumes, list) else []):
                if isinstance(volume, dict):
                    yield join(join(path, key), index), volume


def _missing(volume: Mapping[str, Any], path: str, account: AccountKey) -> Iterator[Problem]:
    """The placeholders that there is no value for."""
    names = (volume.get("accountName"), volume.get("azureFileUrl"))
    if not account.name and any(isinstance(name, str) and ACCOUNT in name for name in names):
        yield Problem(path, _MISSING.format(what="name", part="ACCOUNT", setting="account"))
    if not account.key and _object(volume, "credentials").get("accountKey") == KEY:
        yield Problem(path, _MISSING.format(what="key", part="KEY", setting="key"))


def _fill(volume: dict[str, Any], account: AccountKey) -> None:
    """Puts the account's name and key in their places; takes a name that is left out from the URL."""
    url = volume.get("azureFileUrl")
    if isinstance(url, str):
        volume["azureFileUrl"] = url = url.replace(ACCOUNT, account.name)
        volume.setdefault("accountName", (urlsplit(url).hostname or "").split(".")[0])
    if volume.get("accountName") == ACCOUNT:
        volume["accountName"] = account.name
    is_own = bool(account.key) and volume.get("accountName") == account.name and not volume.get("credentials")
    if is_own or _object(volume, "credentials").get("accountKey") == KEY:
        volume["credentials"] = {"accountKey": account.key}


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}
