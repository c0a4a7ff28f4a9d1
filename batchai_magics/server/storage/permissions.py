"""What a shared access signature must have for each operation: permission, resource type and target. Pure.

After the tables of learn.microsoft.com/rest/api/storageservices, "Create an account SAS" and "Create a
service SAS". A rename needs what the creation of its target and the deletion of its source need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from batchai_magics.server.storage.errors import StorageRefusal, failed

# The values of `sr`: of a signature for one file or blob, and of one for a share or container.
_ONE, _ALL = "one", "all"
_SCOPES: Mapping[tuple[str, str], str] = {
    ("file", "f"): _ONE,
    ("file", "s"): _ALL,
    ("blob", "b"): _ONE,
    ("blob", "c"): _ALL,
}


@dataclass(frozen=True)
class Rule:
    """What authorizes an operation.

    Attributes:
        any_of: Permissions, of which one is enough.
        resource_type: What the `srt` of an account's signature must have: s, c or o.
        scopes: Which signatures of a service are enough, besides an account's.
        to_replace: The permissions that are all needed where a file is there already, that would be lost.
    """

    any_of: str
    resource_type: str
    scopes: tuple[str, ...] = ()
    to_replace: str = ""


_IN_SHARE, _OF_FILE = (_ALL,), (_ONE, _ALL)

LIST_SHARES = Rule("l", "s")
CREATE_SHARE = Rule("cw", "c")
READ_SHARE = Rule("r", "c")
CHANGE_SHARE = Rule("w", "c")
DELETE_SHARE = Rule("d", "c")
LIST_FILES = Rule("l", "c", _IN_SHARE)
CREATE_FOLDER = Rule("cw", "o", _IN_SHARE)
READ_FOLDER = Rule("r", "o", _IN_SHARE)
CHANGE_FOLDER = Rule("w", "o", _IN_SHARE)
DELETE_FOLDER = Rule("d", "o", _IN_SHARE)
RENAME_FOLDER = Rule("cw", "o", _IN_SHARE)
CREATE_FILE = Rule("cw", "o", _OF_FILE, to_replace="w")
READ_FILE = Rule("r", "o", _OF_FILE)
CHANGE_FILE = Rule("w", "o", _OF_FILE)
DELETE_FILE = Rule("d", "o", _OF_FILE)
RENAME_FILE = Rule("cw", "o", _OF_FILE, to_replace="wd")


def check(query: Mapping[str, str], service: str, rule: Rule) -> None:
    """Raises StorageRefusal (403) unless a signature, which is genuine, authorizes an operation."""
    if "ss" in query:
        if rule.resource_type not in query.get("srt", ""):
            raise _wrong_type()
    else:
        scope = _SCOPES.get((service, query.get("sr", "")))
        if scope is None:
            raise failed(f"Signatures with sr={query.get('sr', '')!r} are not supported.")
        if scope not in rule.scopes:
            raise _wrong_type()
    if not set(rule.any_of) & set(query.get("sp", "")):
        raise not_permitted()


def may_replace(query: Mapping[str, str], rule: Rule) -> bool:
    """Whether a request may put a file where one is; one without a signature has the account's key."""
    return "sig" not in query or set(rule.to_replace) <= set(query.get("sp", ""))


def not_permitted() -> StorageRefusal:
    """The error for a signature that lacks a permission."""
    message = "This request is not authorized to perform this operation using this permission."
    return StorageRefusal(403, "AuthorizationPermissionMismatch", message)


def _wrong_type() -> StorageRefusal:
    message = "This request is not authorized to perform this operation using this resource type."
    return StorageRefusal(403, "AuthorizationResourceTypeMismatch", message)
