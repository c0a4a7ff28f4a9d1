"""Addresses of files of a server's own account."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from urllib.parse import quote

from batchai_magics.server.storage.sas import Grant, sign
from tests.server.running import Running


def signed_path(server: Running, share: str, path: str, permissions: str = "r") -> str:
    """The path and query with which a file is read."""
    later = datetime.now(timezone.utc) + timedelta(minutes=5)
    grant = Grant("local", f"{share}/{path}", permissions, later, "2018-11-09")
    return f"/local/{share}/{quote(path)}?{sign(grant, server.service.keys.of('local')[0])}"
