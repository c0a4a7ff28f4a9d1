"""What a signature opens: what it names, from where and how it says, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from urllib.parse import parse_qsl

import pytest
from azure.storage.fileshare import (
    AccountSasPermissions,
    FileSasPermissions,
    ResourceTypes,
    generate_account_sas,
    generate_file_sas,
)

from batchai_magics.server.storage.sas import RequestOrigin, check_sas, signature
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


def test_what_says_no_end_or_a_beginning_that_is_none_opens_nothing() -> None:
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
