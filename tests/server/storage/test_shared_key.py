"""Which requests an account's key has signed: by each part of what is signed."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from batchai_magics.server.storage import sas
from batchai_magics.server.storage.sas import signature
from batchai_magics.server.storage.storage_resource import StorageApiError

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=timezone.utc)
DATE, LONG_AGO = "Sun, 22 Nov 2026 12:00:00 GMT", "Sun, 22 Nov 2020 12:00:00 GMT"
KEY = "YSBrZXkgb2YgYW4gYWNjb3VudA=="
DATED = {"x-ms-date": DATE}


def check(
    lines: list[str], headers: dict[str, str], *, standard: dict[int, str] | None = None, **query: str
) -> None:
    """Checks a request whose key has signed these lines, behind the eleven of HTTP's own headers."""
    own = [(standard or {}).get(number, "") for number in range(11)]
    text = "\n".join(["PUT", *own, *lines])
    signed = {**headers, "authorization": f"SharedKey acct:{signature(KEY, text)}"}
    sas.check_shared_key("PUT", "/acct/share", query, signed, keys=["b3RoZXI=", KEY], now=NOW)


def test_a_body_of_no_bytes_is_signed_as_if_it_had_no_length() -> None:
    signed = [f"x-ms-date:{DATE}", "/acct/acct/share"]
    check(signed, {**DATED, "content-length": "0"})
    check(signed, {**DATED, "content-length": "7"}, standard={2: "7"})
    with pytest.raises(StorageApiError, match="MAC signature"):
        check(signed, {**DATED, "content-length": "0"}, standard={2: "0"})


def test_of_two_dates_the_services_own_is_signed_and_counts() -> None:
    check([f"x-ms-date:{DATE}", "/acct/acct/share"], {**DATED, "date": LONG_AGO})
    with pytest.raises(StorageApiError, match="too old"):
        check([f"x-ms-date:{LONG_AGO}", "/acct/acct/share"], {"x-ms-date": LONG_AGO, "date": DATE})


def test_a_request_may_have_the_date_of_http_alone() -> None:
    check(["/acct/acct/share"], {"date": DATE}, standard={5: DATE})
    with pytest.raises(StorageApiError, match="MAC signature"):
        check(["/acct/acct/share"], {"date": DATE})


@pytest.mark.parametrize("date", ["", "today", "Sun, 99 Nov 2026 12:00:00 GMT"])
def test_a_request_without_a_date_that_is_one_is_refused(date: str) -> None:
    with pytest.raises(StorageApiError, match="date header"):
        check([f"x-ms-date:{date}", "/acct/acct/share"], {"x-ms-date": date})


@pytest.mark.parametrize("order", [["x-ms-meta-a-z", "x-ms-meta-ab"], ["x-ms-meta-ab", "x-ms-meta-a-z"]])
def test_headers_may_be_signed_in_either_order_that_clients_have(order: list[str]) -> None:
    signed = [f"x-ms-date:{DATE}", *(f"{name}:1" for name in order), "/acct/acct/share"]
    check(signed, {**dict.fromkeys(order, " 1 "), **DATED})


def test_the_query_is_signed_by_name_whatever_its_order() -> None:
    signed = [f"x-ms-date:{DATE}", "/acct/acct/share", "comp:list", "restype:directory"]
    check(signed, DATED, restype="directory", comp="list")
    with pytest.raises(StorageApiError, match="MAC signature"):
        check(signed, DATED, restype="directory", comp="rename")


@pytest.mark.parametrize(
    "header", ["SharedKeyLite acct:sig", "Bearer acct:sig", "SharedKey acct", "SharedKey", ""]
)
def test_a_header_of_another_scheme_names_no_account(header: str) -> None:
    with pytest.raises(StorageApiError, match="not formed correctly"):
        sas.authorized_account(header)
    assert sas.authorized_account("SharedKey acct:sig") == "acct"
