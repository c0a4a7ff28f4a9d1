"""Two clocks that differ a little: what was signed by one is good by the other, for so long and no longer."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from urllib.parse import parse_qsl

import pytest

from batchai_magics.server.storage import sas
from batchai_magics.server.storage.sas import (
    CLOCK_SKEW,
    RequestOrigin,
    SasGrant,
    check_sas,
    sign_sas,
    signature,
)
from batchai_magics.server.storage.storage_resource import StorageApiError, StorageResource

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=timezone.utc)
KEY = base64.b64encode(b"a key of an account").decode()
FILE = StorageResource("acct", "file", "share", "log.txt")
MOMENT = timedelta(seconds=1)


def signed(start: datetime | None = None) -> dict[str, str]:
    """An address that is good until now, and from a moment on if one is said."""
    query = dict(parse_qsl(sign_sas(SasGrant("acct", "share/log.txt", "r", NOW, "2018-11-09"), KEY)))
    if start is None:
        return query
    query["st"] = start.strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = [query["sp"], query["st"], query["se"], "/file/acct/share/log.txt", "", "", "", query["sv"]]
    return {**query, "sig": signature(KEY, "\n".join([*lines, *[""] * 5]))}


def test_an_address_is_good_a_minute_longer_by_another_clock_and_then_no_more() -> None:
    check_sas(signed(), FILE, [KEY], RequestOrigin(NOW + CLOCK_SKEW))
    with pytest.raises(StorageApiError, match="Expiry"):
        check_sas(signed(), FILE, [KEY], RequestOrigin(NOW + CLOCK_SKEW + MOMENT))


def test_an_address_that_begins_now_is_good_a_minute_before_by_another_clock() -> None:
    begins = NOW - timedelta(hours=1)
    check_sas(signed(begins), FILE, [KEY], RequestOrigin(begins - CLOCK_SKEW))
    with pytest.raises(StorageApiError, match="Start"):
        check_sas(signed(begins), FILE, [KEY], RequestOrigin(begins - CLOCK_SKEW - MOMENT))


@pytest.mark.parametrize("sign_of", [1, -1])
def test_a_request_that_a_key_has_signed_is_good_for_a_quarter_of_an_hour(sign_of: int) -> None:
    headers = {"x-ms-date": format_datetime(NOW, usegmt=True), "x-ms-version": "2021-06-08"}
    text = "\n".join(
        ["GET", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items()), "/acct/acct/share"]
    )
    headers["authorization"] = f"SharedKey acct:{signature(KEY, text)}"

    def check(now: datetime) -> None:
        sas.check_shared_key("GET", "/acct/share", {}, headers, keys=[KEY], now=now)

    check(NOW + sign_of * sas.MAX_REQUEST_AGE)
    with pytest.raises(StorageApiError, match="too old"):
        check(NOW + sign_of * (sas.MAX_REQUEST_AGE + MOMENT))
