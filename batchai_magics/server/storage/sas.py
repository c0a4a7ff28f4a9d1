"""Shared access signatures: made, and checked. Pure.

What is signed, line by line: learn.microsoft.com/rest/api/storageservices, "Create a service SAS" and
"Create an account SAS".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from urllib.parse import urlencode

from batchai_magics.server.storage.errors import StorageRefusal, failed
from batchai_magics.server.storage.request import Resource

SKEW = timedelta(minutes=1)  # between two clocks that are right
_BLOB_HAS_KIND = "2018-11-09"  # from this version on a blob's signature has the kind of resource
_BLOB_HAS_SCOPE = "2020-12-06"  # and from this one an encryption scope
_OVERRIDES = ("rscc", "rscd", "rsce", "rscl", "rsct")
_TIMES = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True)
class Grant:
    """A signature to be made, for one file."""

    account: str
    file: str  # share and path
    permissions: str
    expiry: datetime
    version: str
    service: str = "file"


@dataclass(frozen=True)
class Caller:
    """What else of a request a signature may be bound to."""

    now: datetime
    ip: str = ""
    is_https: bool = False


def sign(grant: Grant, key: str) -> str:
    """The query of an address that gives what `grant` says."""
    query = {
        "sv": grant.version,
        "sr": grant.service[0],
        "se": grant.expiry.astimezone(timezone.utc).strftime(_TIMES[0]),
        "sp": grant.permissions,
    }
    share, _, path = grant.file.partition("/")
    text = _service_text(query, Resource(grant.account, grant.service, share, path))
    return urlencode({**query, "sig": signature(key, text)})


def check(query: Mapping[str, str], resource: Resource, keys: Iterable[str], caller: Caller) -> None:
    """Raises StorageRefusal unless a signature is genuine, in time, and made for the resource and caller."""
    texts = [_account_text(query, resource.account)] if "ss" in query else _texts(query, resource)
    given = query.get("sig", "")
    if not any(
        hmac.compare_digest(signature(key, text).encode(), given.encode()) for key in keys for text in texts
    ):
        raise failed("Signature did not match.")
    _check_times(query, caller.now)
    _check_caller(query, caller)
    needed = {"file": "f", "blob": "b"}.get(resource.service, "fb")  # a list of the account is of both
    if "ss" in query and not set(needed) <= set(query["ss"]):
        raise StorageRefusal(403, "AuthorizationServiceMismatch", "The signature is for another service.")


def signature(key: str, text: str) -> str:
    """The HMAC-SHA256 of a text with an account's key, in base64."""
    return base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), hashlib.sha256)).decode()


def parse_moment(text: str) -> datetime | None:
    """A moment of a signature, None where it is none."""
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=timezone.utc)
        except ValueError:
            continue
    return None


def _check_times(query: Mapping[str, str], now: datetime) -> None:
    start, end = query.get("st", ""), query.get("se", "")
    expiry = parse_moment(end)
    if expiry is None or now > expiry + SKEW:
        raise failed(f"Signature not valid in the specified time frame: Expiry [{end}] - Current [{now:%c}].")
    beginning = parse_moment(start) if start else None
    if start and (beginning is None or now < beginning - SKEW):
        raise failed(
            f"Signature not valid in the specified time frame: Start [{start}] - Current [{now:%c}]."
        )


def _check_caller(query: Mapping[str, str], caller: Caller) -> None:
    if query.get("spr", "https,http") == "https" and not caller.is_https:
        raise StorageRefusal(403, "AuthorizationProtocolMismatch", "The signature is for https only.")
    allowed_ip = query.get("sip", "")
    if allowed_ip and not _is_between(caller.ip, allowed_ip):
        raise StorageRefusal(403, "AuthorizationSourceIPMismatch", "The signature is for another address.")


def _is_between(ip: str, addresses: str) -> bool:
    first, _, last = addresses.partition("-")
    try:
        number = int(ipaddress.ip_address(ip))
        return int(ipaddress.ip_address(first)) <= number <= int(ipaddress.ip_address(last or first))
    except ValueError:
        return False


def _texts(query: Mapping[str, str], resource: Resource) -> list[str]:
    """What may have been signed: the file itself, or the share that it is on."""
    whole = Resource(resource.account, resource.service, resource.share)
    if query.get("si"):
        raise failed("Stored access policies are not kept here.")
    return [_service_text(query, whole if query.get("sr") in ("s", "c") else resource)]


def _service_text(query: Mapping[str, str], resource: Resource) -> str:
    place = "/".join(part for part in (resource.account, resource.share, resource.path) if part)
    lines = [query.get(name, "") for name in ("sp", "st", "se")]
    lines += [f"/{resource.service}/{place}", query.get("si", "")]
    lines += [query.get(name, "") for name in ("sip", "spr", "sv")]
    names = (*(_blob_names(query.get("sv", "")) if resource.service == "blob" else ()), *_OVERRIDES)
    return "\n".join([*lines, *(query.get(name, "") for name in names)])


def _blob_names(version: str) -> Sequence[str]:
    """What is signed of blobs alone."""
    if version < _BLOB_HAS_KIND:
        return ()
    return ("sr", "snapshot", "ses") if version >= _BLOB_HAS_SCOPE else ("sr", "snapshot")


def _account_text(query: Mapping[str, str], account: str) -> str:
    lines = [account, *(query.get(name, "") for name in ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv"))]
    if query.get("sv", "") >= _BLOB_HAS_SCOPE:
        lines.append(query.get("ses", ""))
    return "\n".join([*lines, ""])
