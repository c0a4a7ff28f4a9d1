"""A disk without a free byte is named to whoever uploads, and nothing is left of what was begun."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import ShareClient

from batchai_magics.backends.base import Copy
from batchai_magics.errors import BatchAIError
from tests.backends.local.namespace import scene, tell
from tests.server.running import Running, connected, serving
from tests.server.storage.signed_urls import account_sas
from tests.small_disk import SmallDisk

pytestmark = pytest.mark.slow
SMALL, LARGE = 9, 5 << 20
FREE_SPACE = "Free some space there and upload again; what was on it is as it was."


def refused(work: Callable[[], object]) -> list[object]:
    """What an upload was refused with."""
    try:
        work()
    except BatchAIError as error:
        return [type(error).__name__, error.code, error.message, error.hint]
    except HttpResponseError as error:
        return [error.status_code, error.error_code]
    return ["no error"]


def sources(folder: Path) -> list[Copy]:
    made = []
    for name, size in (("small", SMALL), ("large", LARGE)):
        (folder / name).write_bytes(b"x" * size)
        made.append(Copy(folder / name, name, size))
    return made


def share_of(server: Running, name: str) -> ShareClient:
    """Azure's own client, without the minute and a half for which it tries what begins with 5 again."""
    key = {"account_name": "local", "account_key": server.context.keys.of("local")[0]}
    return ShareClient(f"{server.url}/local", name, credential=key, retry_total=0)


def put_blob(server: Running, spools: Path) -> list[object]:
    """How a blob is refused whose way leads over a full disk."""
    server.world.backend.containers.make("box")
    tempfile.tempdir = str(spools)
    query, headers = urlencode(account_sas(server)), {"x-ms-blob-type": "BlockBlob"}
    answer = requests.put(f"{server.url}/local/box/blob?{query}", data=b"x" * LARGE, headers=headers)
    return [answer.status_code, answer.headers["x-ms-error-code"]]


def uploads_to_a_full_disk(folder: Path) -> None:
    disk = SmallDisk(folder / "disk")
    small, large = sources(folder)
    with serving(disk.folder / "home") as server:
        there, azure = connected(server.url), share_of(server, "data")
        there.storage.make("data")
        azure.get_file_client("begun").create_file(LARGE)
        disk.fill()
        for place, copy in itertools.product((there, server.world.backend), (small, large)):
            tell(refused(lambda to=place.storage, copy=copy: sum(to.send("data", [copy]))))
        tell(refused(lambda: azure.get_file_client("begun").upload_range(b"x" * 99, 0, 99)))
        tell(refused(lambda: azure.get_file_client("theirs").upload_file(b"x" * LARGE)))
        tell(put_blob(server, disk.folder))
        disk.free()
        sum(there.storage.send("data", [small, large]))
        azure.get_file_client("theirs").upload_file(b"text")
        tell([file.path for file in there.storage.list("data")])
        there.close()


def test_a_full_disk_is_named_to_our_own_client_and_to_azures(tmp_path: Path) -> None:
    *ours, begun, theirs, blob, listed = scene(uploads_to_a_full_disk, tmp_path)
    text = "share 'data' cannot be written: its disk is full"
    assert ours == [["StorageError", "DiskFull", text, FREE_SPACE]] * 4
    assert begun == theirs == blob == [413, "ShareSizeLimitReached"]
    assert listed == ["large", "small", "theirs"]
