"""Keys of storage accounts, and the check of requests signed with one (`Authorization: SharedKey`).

The string to sign: learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path

from batchai_magics.backends.base import Backend
from batchai_magics.backends.service.private_files import write
from batchai_magics.server.storage.sas import signature
from batchai_magics.server.storage.storage_errors import authentication_failed
from batchai_magics.server.storage.storage_resource import OWN_ACCOUNT


class AccountKeys:
    """The two keys of each account: from the backend, or the server's own for its default account."""

    def __init__(self, file: Path, backend: Backend) -> None:
        self._file, self._backend = file, backend

    def of(self, account: str) -> tuple[str, str]:
        """The two keys of an account; NotFoundError if it does not exist."""
        if account == OWN_ACCOUNT or self._backend.accounts is None:
            return self._server_keys()
        return self._backend.accounts.keys(account)

    def regenerate(self, account: str, number: int) -> None:
        """Replaces key 1 or 2, which invalidates URLs signed with it."""
        if account != OWN_ACCOUNT and self._backend.accounts:
            self._backend.accounts.renew_key(account, number)
            return
        keys = list(self._server_keys())
        keys[number - 1] = _new_key()
        self._write(keys)

    def _server_keys(self) -> tuple[str, str]:
        if not self._file.exists():
            self._write([_new_key(), _new_key()])
        first, second = json.loads(self._file.read_text(encoding="ascii"))
        return first, second

    def _write(self, keys: list[str]) -> None:
        write(self._file, json.dumps(keys))


def _new_key() -> str:
    return base64.b64encode(secrets.token_bytes(64)).decode()


MAX_REQUEST_AGE = timedelta(minutes=15)  # of a request, as in Azure
_SIGNED_HEADERS = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)
# Azure sorts names without hyphens; many clients sort the plain names.
_HEADER_ORDERS: tuple[Callable[[str], str], ...] = (lambda name: name.replace("-", ""), lambda name: name)


def authorized_account(authorization: str) -> str:
    """The account in an `Authorization: SharedKey ACCOUNT:SIGNATURE` header."""
    scheme, _, rest = authorization.partition(" ")
    account, colon, _ = rest.partition(":")
    if scheme != "SharedKey" or not colon:
        raise authentication_failed("The Authorization header is not formed correctly.")
    return account


def check_shared_key(
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    *,
    keys: Iterable[str],
    now: datetime,
) -> None:
    """Raises StorageApiError (403) unless one of the keys signed the request; `path` is percent-encoded."""
    account, _, given = headers["authorization"].partition(" ")[2].partition(":")
    texts = dict.fromkeys(
        _string_to_sign(method, f"/{account}{path}", query, headers, order) for order in _HEADER_ORDERS
    )
    known = (signature(key, text) for key in keys for text in texts)
    if not any(hmac.compare_digest(text.encode(), given.encode()) for text in known):
        raise authentication_failed(
            "The MAC signature found in the HTTP request is not the same as any computed signature."
        )
    _check_date(headers.get("x-ms-date") or headers.get("date", ""), now)


def _string_to_sign(
    method: str,
    resource: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    order: Callable[[str], str],
) -> str:
    values = [headers.get(name, "") for name in _SIGNED_HEADERS]
    values[2] = "" if values[2] == "0" else values[2]
    values[5] = "" if "x-ms-date" in headers else values[5]
    ours = sorted((name for name in headers if name.startswith("x-ms-")), key=order)
    signed = [f"{name}:{headers[name].strip()}" for name in ours]
    parameters = [f"{name.lower()}:{value}" for name, value in sorted(query.items())]
    return "\n".join([method, *values, *signed, resource, *parameters])


def _check_date(text: str, now: datetime) -> None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        raise authentication_failed("The date header in the request is incorrect.") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    if abs(now - moment) > MAX_REQUEST_AGE:
        raise authentication_failed(f"Request date header too old: '{text}'.")
