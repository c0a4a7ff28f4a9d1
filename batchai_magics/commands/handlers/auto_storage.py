"""`--use-auto-storage`: an account with a share and a container, made once and used again."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base import ACCOUNTS, CONTAINERS, GROUPS, STORAGE, Backend
from batchai_magics.errors import NotFoundError
from batchai_magics.models import mounts
from batchai_magics.models.load import AccountKey

GROUP = "batchaiautostorage"
SHARE, CONTAINER = "batchaishare", "batchaicontainer"
SHARE_MOUNT, CONTAINER_MOUNT = "autoafs", "autobfs"


@dataclass(frozen=True)
class AutoStorage:
    """The account, its key, and what was done to have it."""

    account: str
    key: str
    notes: tuple[str, ...]

    def volumes(self) -> dict[str, list[dict[str, Any]]]:
        """The share and the container as mounts."""
        account = AccountKey(self.account, self.key)
        return {
            mounts.SHARES: [mounts.share(account, SHARE, SHARE_MOUNT)],
            mounts.CONTAINERS: [mounts.container(account, CONTAINER, CONTAINER_MOUNT)],
        }


def auto_storage(backend: Backend, location: str) -> AutoStorage:
    """The account of that location, with its share and container; made if need be."""
    notes, accounts = [_group(backend, location)], ACCOUNTS.of(backend)
    found = next((item for item in accounts.list(GROUP) if item.location == location), None)
    if found:
        name = found.name
        notes.append(f"Using existing {name} storage account as an auto-storage account")
    else:
        name = "bai" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(12))
        accounts.create(name, GROUP, location)
        notes.append(f"Created auto storage account {name}")
    STORAGE.of(backend).make(f"{name}/{SHARE}")
    CONTAINERS.of(backend).make(f"{name}/{CONTAINER}")
    return AutoStorage(name, accounts.keys(name)[0], tuple(notes))


def _group(backend: Backend, location: str) -> str:
    groups = GROUPS.of(backend)
    try:
        groups.show(GROUP)
    except NotFoundError:
        groups.create(GROUP, location)
        return f"Creating {GROUP} resource group for auto-storage account"
    return f"BatchAI will use existing {GROUP} resource group for auto-storage account"
