"""Names that are checked beside those of Batch AI's own resources: groups, storage accounts, shares."""

from __future__ import annotations

import re

from batchai_magics.errors import Problem, SpecError

_GROUP = re.compile(r"[-\w.()]{1,90}", re.ASCII)
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_SHARE = re.compile(r"(?:[a-z0-9]{3,24}/)?[a-z0-9](?:-?[a-z0-9]){2,62}")


def check_group_name(name: str) -> str:
    """The name itself if a resource group can have it; raises SpecError otherwise."""
    if _GROUP.fullmatch(name):
        return name
    fix = "use 1 to 90 letters, digits and -_.()"
    raise SpecError([Problem("name", f"{name!r} is no resource group name", fix)], what="the group")


def check_account_name(name: str) -> str:
    """The name itself if a storage account can have it; raises SpecError otherwise."""
    if _ACCOUNT.fullmatch(name):
        return name
    fix = "use 3 to 24 small letters and digits"
    raise SpecError([Problem("name", f"{name!r} is no storage account name", fix)], what="the account")


def check_share_name(share: str) -> str:
    """`NAME` or `ACCOUNT/NAME` itself if a share or container can have it; raises SpecError otherwise."""
    if _SHARE.fullmatch(share):
        return share
    fix = "use 3 to 63 small letters, digits and single '-'"
    raise SpecError([Problem("share", f"{share!r} is no valid share name", fix)], what="the share")
