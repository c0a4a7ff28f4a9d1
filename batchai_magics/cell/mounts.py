"""`--mount` of the job magic: what each volume is, as the `mountVolumes` of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models import storage
from batchai_magics.models.ids import Kind, ResourceId, check_name
from batchai_magics.models.storage import AccountKey

FORM = "[afs:|bfs:|nfs:]NAME[=PATH]"
_KEYS = {"afs": storage.SHARES, "bfs": storage.CONTAINERS, "nfs": storage.SERVERS}


def with_mounts(
    fields: dict[str, Any], texts: Sequence[str], *, account: AccountKey, workspace: ResourceId
) -> dict[str, Any]:
    """The fields of a job, with the volumes that the option names beside those of its `mountVolumes`.

    A text is the kind in the words of `az` (afs: file share, the default; bfs: blob container; nfs: file
    server of the workspace), the name, and the path below `$AZ_BATCHAI_JOB_MOUNT_ROOT`, which is the name
    where it is left out. Raises UsageError naming the text.
    """
    if not texts:
        return fields
    volumes = fields.get("mountVolumes")
    for text in texts:
        kind, name, path = _parts(text)
        volume = _volume(kind, name, path, account=account, workspace=workspace)
        volumes = storage.with_volumes(volumes, {_KEYS[kind]: [volume]})
    return {**fields, "mountVolumes": volumes}


def _parts(text: str) -> tuple[str, str, str]:
    source, _, path = text.partition("=")
    kind, sign, name = source.rpartition(":")
    kind = kind.lower() if sign else "afs"
    if kind not in _KEYS:
        hint = did_you_mean(kind, _KEYS) or "afs is a file share, bfs a blob container, nfs a file server"
        raise UsageError(f"--mount {text}: there is no kind {kind!r}", hint=hint)
    if not name or ("=" in text and not path):
        raise UsageError(f"--mount {text}: expected {FORM}", hint="such as --mount data=datasets")
    return kind, name, path or name


def _volume(kind: str, name: str, path: str, *, account: AccountKey, workspace: ResourceId) -> dict[str, Any]:
    if kind == "nfs":
        server = workspace.child(Kind.FILE_SERVER, check_name(name, Kind.FILE_SERVER))
        return storage.file_server(server, path)
    owner = replace(account, name=account.name or DEFAULT_ACCOUNT)
    return storage.container(owner, name, path) if kind == "bfs" else storage.share(owner, name, path)
