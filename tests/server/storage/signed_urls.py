"""Addresses of files of a server's own account."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from urllib.parse import quote

from batchai_magics.server.storage.sas import SasGrant, sign_sas, signature
from tests.server.running import Running


def signed_path(server: Running, share: str, path: str, permissions: str = "r") -> str:
    """The path and query with which a file is read."""
    return signed_with(server.context.keys.of("local")[0], share, path, permissions)


def signed_with(key: str, share: str, path: str, permissions: str) -> str:
    """The path and query of a file, signed with a key of the server's own account."""
    later = datetime.now(timezone.utc) + timedelta(minutes=5)
    grant = SasGrant("local", f"{share}/{path}", permissions, later, "2018-11-09")
    return f"/local/{share}/{quote(path)}?{sign_sas(grant, key)}"


def account_sas(server: Running) -> dict[str, str]:
    """A signature for everything in the server's own account."""
    expiry = (datetime.now(timezone.utc) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"sp": "rwdlc", "ss": "bf", "srt": "sco", "se": expiry, "sv": "2019-12-12"}
    lines = ["local", said["sp"], said["ss"], said["srt"], "", expiry, "", "", said["sv"], ""]
    return {**said, "sig": signature(server.context.keys.of("local")[0], "\n".join(lines))}
