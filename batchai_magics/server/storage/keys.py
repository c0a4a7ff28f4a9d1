"""The keys that requests to storage are signed with."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

from batchai_magics.backends.base import Backend
from batchai_magics.backends.service.private_files import write
from batchai_magics.server.storage.request import OWN_ACCOUNT


class Keys:
    """Two keys for each account: those of the backend, and for the account that needs none, our own."""

    def __init__(self, file: Path, backend: Backend) -> None:
        self._file, self._backend = file, backend

    def of(self, account: str) -> tuple[str, str]:
        """The two keys of an account; NotFoundError where there is no such account."""
        if account == OWN_ACCOUNT or self._backend.accounts is None:
            return self._own()
        return self._backend.accounts.keys(account)

    def renew(self, account: str, number: int) -> None:
        """Makes a new key 1 or 2. Addresses that were signed with the old one are worth nothing then."""
        if account != OWN_ACCOUNT and self._backend.accounts:
            self._backend.accounts.renew_key(account, number)
            return
        keys = list(self._own())
        keys[number - 1] = _new_key()
        self._write(keys)

    def _own(self) -> tuple[str, str]:
        if not self._file.exists():
            self._write([_new_key(), _new_key()])
        first, second = json.loads(self._file.read_text(encoding="ascii"))
        return first, second

    def _write(self, keys: list[str]) -> None:
        write(self._file, json.dumps(keys))


def _new_key() -> str:
    return base64.b64encode(secrets.token_bytes(64)).decode()
