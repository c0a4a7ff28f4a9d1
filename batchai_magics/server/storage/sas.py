"""Shared access signatures, and account keys, with which requests are signed (`Authorization: SharedKey`)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlencode

from batchai_magics.backends.base import Backend
from batchai_magics.backends.folders.private_files import write
from batchai_magics.server.storage.storage_resource import (
    OWN_ACCOUNT,
    StorageApiError,
    StorageResource,
    authentication_failed,
)

CLOCK_SKEW = timedelta(minutes=1)  # tolerated between clocks
_BLOB_HAS_KIND = "2018-11-09"  # since this version, blob signatures include the resource kind
_BLOB_HAS_SCOPE = "2020-12-06"  # and since this one the encryption scope
_OVERRIDES = ("rscc", "rscd", "rsce", "rscl", "rsct")
_TIME_FORMATS = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True)
class SasGrant:
    """A signature to create, for one file."""

    account: str
    file: str  # share and path
    permissions: str
    expiry: datetime
    version: str
    service: str = "file"


@dataclass(frozen=True)
class RequestOrigin:
    """The request properties that a signature may restrict: time, client address, HTTPS."""

    now: datetime
    ip: str = ""
    is_https: bool = False


def sign_sas(grant: SasGrant, key: str) -> str:
    """The query string of a signed URL for `grant`."""
    query = {
        "sv": grant.version,
        "sr": grant.service[0],
        "se": grant.expiry.astimezone(timezone.utc).strftime(_TIME_FORMATS[0]),
        "sp": grant.permissions,
    }
    share, _, path = grant.file.partition("/")
    text = _service_string_to_sign(query, StorageResource(grant.account, grant.service, share, path))
    return urlencode({**query, "sig": signature(key, text)})


def check_sas(
    query: Mapping[str, str], resource: StorageResource, keys: Iterable[str], caller: RequestOrigin
) -> None:
    """Raises StorageApiError unless a signature is genuine, current, valid for the resource and origin."""
    if "ss" in query:
        text = _account_string_to_sign(query, resource.account)
    elif query.get("si"):
        raise authentication_failed("Stored access policies are not kept here.")
    else:
        is_of_share = query.get("sr") in ("s", "c")
        text = _service_string_to_sign(query, replace(resource, path="") if is_of_share else resource)
    received = query.get("sig", "").encode()
    if not any(hmac.compare_digest(signature(key, text).encode(), received) for key in keys):
        raise authentication_failed("Signature did not match.")
    _check_times(query, caller.now)
    if query.get("spr", "https,http") == "https" and not caller.is_https:
        raise StorageApiError(403, "AuthorizationProtocolMismatch", "The signature is for https only.")
    allowed_ip = query.get("sip", "")
    if allowed_ip and not _is_between(caller.ip, allowed_ip):
        raise StorageApiError(403, "AuthorizationSourceIPMismatch", "The signature is for another address.")
    services = {"file": "f", "blob": "b"}.get(resource.service, "fb")  # listing the account covers both
    if "ss" in query and not set(services) <= set(query["ss"]):
        raise StorageApiError(403, "AuthorizationServiceMismatch", "The signature is for another service.")


def signature(key: str, text: str) -> str:
    """The HMAC-SHA256 of a text with an account's key, in base64."""
    return base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), hashlib.sha256)).decode()


def parse_time(text: str) -> datetime | None:
    """A time in a signature, None if invalid."""
    for form in _TIME_FORMATS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=timezone.utc)
        except ValueError:
            continue
    return None


def _check_times(query: Mapping[str, str], now: datetime) -> None:
    start, end = query.get("st", ""), query.get("se", "")
    expiry = parse_time(end)
    if expiry is None or now > expiry + CLOCK_SKEW:
        raise authentication_failed(
            f"Signature not valid in the specified time frame: Expiry [{end}] - Current [{now:%c}]."
        )
    beginning = parse_time(start) if start else None
    if start and (beginning is None or now < beginning - CLOCK_SKEW):
        raise authentication_failed(
            f"Signature not valid in the specified time frame: Start [{start}] - Current [{now:%c}]."
        )


def _is_between(ip: str, addresses: str) -> bool:
    first, _, last = addresses.partition("-")
    try:
        number = int(ipaddress.ip_address(ip))
        return int(ipaddress.ip_address(first)) <= number <= int(ipaddress.ip_address(last or first))
    except ValueError:
        return False


def _service_string_to_sign(query: Mapping[str, str], resource: StorageResource) -> str:
    path = "/".join(part for part in (resource.account, resource.share, resource.path) if part)
    lines = [query.get(name, "") for name in ("sp", "st", "se")]
    lines += [f"/{resource.service}/{path}", query.get("si", "")]
    lines += [query.get(name, "") for name in ("sip", "spr", "sv")]
    version = query.get("sv", "")
    if resource.service == "blob" and version >= _BLOB_HAS_KIND:
        lines += [query.get("sr", ""), query.get("snapshot", "")]
    if resource.service == "blob" and version >= _BLOB_HAS_SCOPE:
        lines.append(query.get("ses", ""))
    return "\n".join([*lines, *(query.get(name, "") for name in _OVERRIDES)])


def _account_string_to_sign(query: Mapping[str, str], account: str) -> str:
    lines = [account, *(query.get(name, "") for name in ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv"))]
    if query.get("sv", "") >= _BLOB_HAS_SCOPE:
        lines.append(query.get("ses", ""))
    return "\n".join([*lines, ""])


# The values of `sr`, by service: for one file or blob, and for a whole share or container.
_SCOPES: Mapping[str, tuple[str, str]] = {"file": ("f", "s"), "blob": ("b", "c")}


@dataclass(frozen=True)
class SasRule:
    """The authorization that an operation requires."""

    any_of: str  # permissions; one of them suffices
    resource_type: str  # the resource type an account SAS must have in `srt`: s, c or o
    scopes: str = ""  # the values of `sr` that suffice in a service SAS
    to_replace: str = ""  # permissions that are all required to overwrite an existing file


_IN_SHARE, _ANY_SCOPE = "sc", "fbsc"

LIST_SHARES = SasRule("l", "s")
CREATE_SHARE = SasRule("cw", "c")
READ_SHARE = SasRule("r", "c")
CHANGE_SHARE = SasRule("w", "c")
DELETE_SHARE = SasRule("d", "c")
LIST_FILES = SasRule("l", "c", _IN_SHARE)
CREATE_FOLDER = SasRule("cw", "o", _IN_SHARE)
READ_FOLDER = SasRule("r", "o", _IN_SHARE)
CHANGE_FOLDER = SasRule("w", "o", _IN_SHARE)
DELETE_FOLDER = SasRule("d", "o", _IN_SHARE)
RENAME_FOLDER = SasRule("cw", "o", _IN_SHARE)
CREATE_FILE = SasRule("cw", "o", _ANY_SCOPE, to_replace="w")
READ_FILE = SasRule("r", "o", _ANY_SCOPE)
CHANGE_FILE = SasRule("w", "o", _ANY_SCOPE)
DELETE_FILE = SasRule("d", "o", _ANY_SCOPE)
RENAME_FILE = SasRule("cw", "o", _ANY_SCOPE, to_replace="wd")


def check_permission(query: Mapping[str, str], service: str, rule: SasRule) -> None:
    """Raises StorageApiError (403) unless a genuine signature permits an operation."""
    if "ss" in query:
        if rule.resource_type not in query.get("srt", ""):
            raise _resource_type_error()
    else:
        scope = query.get("sr", "")
        if scope not in _SCOPES.get(service, ()):
            raise authentication_failed(f"Signatures with sr={scope!r} are not supported.")
        if scope not in rule.scopes:
            raise _resource_type_error()
    if not set(rule.any_of) & set(query.get("sp", "")):
        raise permission_error()


def may_replace(query: Mapping[str, str], rule: SasRule) -> bool:
    """Whether a request may overwrite a file; without a signature it has the account's key, and may."""
    return "sig" not in query or set(rule.to_replace) <= set(query.get("sp", ""))


def permission_error() -> StorageApiError:
    """The error for a signature that lacks a permission."""
    message = "This request is not authorized to perform this operation using this permission."
    return StorageApiError(403, "AuthorizationPermissionMismatch", message)


def _resource_type_error() -> StorageApiError:
    message = "This request is not authorized to perform this operation using this resource type."
    return StorageApiError(403, "AuthorizationResourceTypeMismatch", message)


class AccountKeys:
    """The two keys of each account: from the backend, or the server's own for its default account."""

    def __init__(self, file: Path, backend: Backend) -> None:
        self._file, self._backend = file, backend
        self._cached_keys: tuple[tuple[int, int], tuple[str, str]] | None = (
            None  # version of the file, its keys
        )

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
        """The keys in the file, which is read again once it has been replaced."""
        if not self._file.exists():
            self._write([_new_key(), _new_key()])
        status = self._file.stat()
        version = status.st_ino, status.st_mtime_ns
        if self._cached_keys is None or self._cached_keys[0] != version:
            first, second = json.loads(self._file.read_text(encoding="ascii"))
            self._cached_keys = version, (first, second)
        return self._cached_keys[1]

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
    account, _, received = headers["authorization"].partition(" ")[2].partition(":")
    texts = dict.fromkeys(
        _string_to_sign(method, f"/{account}{path}", query, headers, order) for order in _HEADER_ORDERS
    )
    valid_signatures = (signature(key, text) for key in keys for text in texts)
    if not any(hmac.compare_digest(valid.encode(), received.encode()) for valid in valid_signatures):
        raise authentication_failed(
            "The MAC signature found in the HTTP request is not the same as any computed signature."
        )
    date = headers.get("x-ms-date") or headers.get("date", "")
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError):
        raise authentication_failed("The date header in the request is incorrect.") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    if abs(now - moment) > MAX_REQUEST_AGE:
        raise authentication_failed(f"Request date header too old: '{date}'.")


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
    names = sorted((name for name in headers if name.startswith("x-ms-")), key=order)
    azure_headers = [f"{name}:{headers[name].strip()}" for name in names]
    parameters = [f"{name.lower()}:{value}" for name, value in sorted(query.items())]
    return "\n".join([method, *values, *azure_headers, resource, *parameters])
