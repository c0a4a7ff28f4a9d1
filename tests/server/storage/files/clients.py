"""The library of Azure Files for tests: its clients, names on a share, times that come soon."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from azure.storage.fileshare import ShareClient, ShareServiceClient

from tests.server.running import Running

SOON = timedelta(minutes=5)


def client(server: Running, name: str, credential: object) -> ShareServiceClient:
    return ShareServiceClient(f"{server.url}/{name}", credential=credential, retry_total=0)


def names(share: ShareClient, folder: str = "", **more: object) -> list[str]:
    return [item["name"] for item in share.list_directories_and_files(folder, **more)]


def time_after(delta: timedelta = SOON) -> datetime:
    return datetime.now(timezone.utc) + delta
