"""Requests that are signed with an account's key. Pure.

What is signed: learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from batchai_magics.server.storage.errors import failed
from batchai_magics.server.storage.sas import signature

OLDEST = timedelta(minutes=15)  # a request, as Azure has it
_SIGNED = (
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
# Azure's own order has no hyphens; many clients sort by the plain names.
_ORDERS: tuple[Callable[[str], str], ...] = (lambda name: name.replace("-", ""), lambda name: name)


def account_of(authorization: str) -> str:
    """The account of a header `SharedKey ACCOUNT:SIGNATURE`."""
    scheme, _, rest = authorization.partition(" ")
    account, colon, _ = rest.partition(":")
    if scheme != "SharedKey" or not colon:
        raise failed("The Authorization header is not formed correctly.")
    return account


def check(
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    *,
    keys: Iterable[str],
    now: datetime,
) -> None:
    """Raises unless one of the keys has signed the request; `path` is that of the URL, as it came."""
    account, _, given = headers["authorization"].partition(" ")[2].partition(":")
    texts = dict.fromkeys(_text(method, f"/{account}{path}", query, headers, order) for order in _ORDERS)
    known = (signature(key, text) for key in keys for text in texts)
    if not any(hmac.compare_digest(text.encode(), given.encode()) for text in known):
        raise failed("The MAC signature found in the HTTP request is not the same as any computed signature.")
    _check_date(headers.get("x-ms-date") or headers.get("date", ""), now)


def _text(
    method: str,
    resource: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    order: Callable[[str], str],
) -> str:
    values = [headers.get(name, "") for name in _SIGNED]
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
        raise failed("The date header in the request is incorrect.") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    if abs(now - moment) > OLDEST:
        raise failed(f"Request date header too old: '{text}'.")
