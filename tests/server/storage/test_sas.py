"""What a signature opens: by each part of what is signed, for how long, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from urllib.parse import parse_qsl

import pytest
from azure.storage.fileshare import (
    AccountSasPermissions,
    FileSasPermissions,
    ResourceTypes,
    generate_account_sas,
    generate_file_sas,
)

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
LATER = NOW + timedelta(hours=1)
ENDS = "2026-11-22T13:00:00Z"
KEY = "YSBrZXkgb2YgYW4gYWNjb3VudA=="
FILE = StorageResource("acct", "file", "share", "log.txt")
BLOB = StorageResource("acct", "blob", "box", "in/log.txt")


def file_sas(**more: object) -> dict[str, str]:
    """The query of a file's address, as Azure's library makes it."""
    may = FileSasPermissions(read=True)
    return dict(parse_qsl(generate_file_sas("acct", "share", ["log.txt"], KEY, may, LATER, **more)))


def account_sas(types: ResourceTypes, **more: object) -> dict[str, str]:
    """The query of a signature for an account's files, as Azure's library makes it."""
    may = AccountSasPermissions(read=True)
    return dict(parse_qsl(generate_account_sas("acct", KEY, types, may, LATER, **more)))


def blob_sas(version: str, kind: str, place: str, *more: str) -> dict[str, str]:
    """The query of a blob's address: what is signed has `more` lines behind the version."""
    lines = ["r", "", ENDS, f"/blob/acct/{place}", "", "", "", version, *more, *[""] * 5]
    return {"sp": "r", "se": ENDS, "sr": kind, "sv": version, "sig": signature(KEY, "\n".join(lines))}


def opens(query: Mapping[str, str], resource: StorageResource = FILE, **caller: object) -> bool:
    try:
        check_sas(query, resource, [KEY], RequestOrigin(NOW, **caller))
    except StorageApiError:
        return False
    return True


def code_of(query: Mapping[str, str], resource: StorageResource = FILE, **caller: object) -> str:
    with pytest.raises(StorageApiError) as caught:
        check_sas(query, resource, [KEY], RequestOrigin(NOW, **caller))
    return caught.value.code


@pytest.mark.parametrize(
    ("said", "ip", "is_open"),
    [
        ("10.0.0.1-10.0.0.9", "10.0.0.1", True),
        ("10.0.0.1-10.0.0.9", "10.0.0.9", True),
        ("10.0.0.1-10.0.0.9", "10.0.0.10", False),
        ("10.0.0.2-10.0.0.9", "10.0.0.1", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "", False),
    ],
)
def test_an_address_for_some_machines_is_for_no_others(said: str, ip: str, is_open: bool) -> None:
    assert opens(file_sas(ip=said), ip=ip) is is_open


def test_an_address_for_https_is_worth_nothing_without_it() -> None:
    query = file_sas(protocol="https")
    assert opens(query, is_https=True)
    assert code_of(query) == "AuthorizationProtocolMismatch"
    assert opens(file_sas(protocol="https,http"))


def test_a_signature_for_files_opens_no_blob() -> None:
    query = account_sas(ResourceTypes(object=True))
    assert opens(query)
    assert (
        code_of(query, StorageResource("acct", "blob", "share", "log.txt")) == "AuthorizationServiceMismatch"
    )


def test_signature_without_valid_start_and_end_is_refused() -> None:
    for start, end in (("", ""), ("", "soon"), ("today", ENDS)):
        lines = ["r", start, end, "/file/acct/share/log.txt", "", "", "", "2018-11-09", *[""] * 5]
        query = {"sp": "r", "st": start, "se": end, "sr": "f", "sv": "2018-11-09"}
        assert code_of({**query, "sig": signature(KEY, "\n".join(lines))}) == "AuthenticationFailed"


def test_a_signature_by_a_policy_that_is_kept_nowhere_opens_nothing() -> None:
    lines = ["r", "", ENDS, "/file/acct/share/log.txt", "policy", "", "", "2018-11-09", *[""] * 5]
    query = {"sp": "r", "se": ENDS, "sr": "f", "sv": "2018-11-09", "si": "policy"}
    assert not opens({**query, "sig": signature(KEY, "\n".join(lines))})


def test_the_headers_that_an_address_asks_for_are_signed_in_their_order() -> None:
    asked = {"cache_control": "no-cache", "content_disposition": "inline", "content_type": "text/plain"}
    query = file_sas(**asked, content_encoding="gzip", content_language="de")
    assert opens(query)
    for name in ("rscc", "rscd", "rsce", "rscl", "rsct"):
        assert not opens({**query, name: "other"})


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("2018-03-28", ()),
        ("2018-11-09", ("b", "")),
        ("2020-10-02", ("b", "")),
        ("2020-12-06", ("b", "", "")),
        ("2026-02-06", ("b", "", "")),
    ],
)
def test_what_is_signed_of_a_blob_is_as_its_version_has_it(version: str, lines: tuple[str, ...]) -> None:
    assert opens(blob_sas(version, "b", "box/in/log.txt", *lines), BLOB)
    assert not opens(blob_sas(version, "b", "box/in/log.txt", *lines, "x"), BLOB)


def test_an_address_of_a_container_opens_what_is_inside_and_one_of_a_blob_nothing_else() -> None:
    whole, part = (
        blob_sas("2018-11-09", kind, place, kind, "") for kind, place in (("c", "box"), ("b", "box"))
    )
    assert opens(whole, BLOB)
    assert not opens(part, BLOB)
    assert not opens(whole, StorageResource("acct", "blob", "other", "in/log.txt"))


@pytest.mark.parametrize(
    ("version", "more"), [("2020-10-02", []), ("2020-12-06", [""]), ("2021-06-08", [""])]
)
def test_an_accounts_signature_has_a_scope_from_one_version_on(version: str, more: list[str]) -> None:
    lines = ["acct", "r", "f", "o", "", ENDS, "", "", version, *more, ""]
    query = {"sp": "r", "ss": "f", "srt": "o", "se": ENDS, "sv": version}
    assert opens({**query, "sig": signature(KEY, "\n".join(lines))})
    assert not opens({**query, "sig": signature(KEY, "\n".join([*lines, ""]))})


DATE, LONG_AGO = "Sun, 22 Nov 2026 12:00:00 GMT", "Sun, 22 Nov 2020 12:00:00 GMT"
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


def test_x_ms_date_takes_precedence_over_date() -> None:
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
