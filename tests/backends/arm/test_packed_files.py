"""Many small files go in few requests, each whole or not at all."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.base import Copy
from batchai_magics.backends.base.storage import BLOCK_BYTES
from batchai_magics.backends.service import extension_bodies
from batchai_magics.errors import NotFoundError
from tests.server.running import SUBSCRIPTION, Running, connected

pytestmark = pytest.mark.slow
PROVIDER = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI"
FILES = {f"in/ä {number}'": b"x" * number for number in range(700)}


@pytest.fixture
def client(server: Running) -> Iterator[ArmBackend]:
    with contextlib.closing(connected(server.url)) as backend:
        backend.storage.make("packed")
        yield backend
        backend.storage.remove("packed")


def copies(folder: Path, files: dict[str, bytes]) -> list[Copy]:
    """Files of this machine that have these contents."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return [Copy(folder / path, path, len(data)) for path, data in files.items()]


def requests_so_far(server: Running) -> float:
    counts = re.findall(r"^batchai_requests_total\{.*\} (\S+)", server.ask("GET", "/metrics").text, re.M)
    return sum(map(float, counts))


def stored(server: Running, body: bytes, share: str = "packed") -> tuple[int, dict]:
    answer = server.ask("POST", f"{PROVIDER}/batchaiStoreFiles", data=body, params={"share": share})
    return answer.status_code, answer.json()


def test_hundreds_of_files_go_up_and_come_down_in_few_requests(
    server: Running, client: ArmBackend, tmp_path: Path
) -> None:
    before = requests_so_far(server)
    assert sum(client.storage.send("packed", copies(tmp_path / "up", FILES))) == sum(map(len, FILES.values()))
    back = [Copy(tmp_path / "down" / path, path, len(data)) for path, data in FILES.items()]
    assert sum(client.storage.fetch("packed", back)) == sum(map(len, FILES.values()))
    assert {copy.path: copy.local_path.read_bytes() for copy in back} == FILES
    assert sorted(path.name for path in (tmp_path / "down" / "in").iterdir()) == sorted(
        path.removeprefix("in/") for path in FILES
    )
    assert requests_so_far(server) - before < 20


def test_a_file_that_is_not_there_is_named_and_the_others_come(client: ArmBackend, tmp_path: Path) -> None:
    client.storage.upload("packed", {"a": b"a", "b": b"b"})
    wanted = [Copy(tmp_path / name, name, 1) for name in ("a", "b", "none")]
    with pytest.raises(NotFoundError, match="none"):
        list(client.storage.fetch("packed", wanted))
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"a", b"b"]


def test_a_file_that_has_grown_meanwhile_comes_whole(client: ArmBackend, tmp_path: Path) -> None:
    grown = b"x" * (extension_bodies.MAX_BYTES + 1)
    client.storage.upload("packed", {"a": b"a", "log": grown})
    list(client.storage.fetch("packed", [Copy(tmp_path / name, name, 1) for name in ("log", "a")]))
    assert [(tmp_path / name).read_bytes() for name in ("log", "a")] == [grown, b"a"]


def test_files_that_have_grown_since_they_were_listed_arrive_whole(
    server: Running, client: ArmBackend, tmp_path: Path
) -> None:
    grown = b"x" * (extension_bodies.MAX_BYTES + 1)
    listed = copies(tmp_path, {"log": b"x", "a": b"a"})
    (tmp_path / "log").write_bytes(grown)
    list(client.storage.send("packed", listed))
    assert server.world.backend.storage.download("packed", "log") == grown


def test_clients_that_upload_one_file_at_once_do_not_disturb_each_other(
    server: Running, client: ArmBackend
) -> None:
    contents = [bytes([number]) * BLOCK_BYTES for number in range(4)]
    with contextlib.closing(connected(server.url)) as other, ThreadPoolExecutor(4) as pool:
        storages = [client.storage, other.storage] * 2
        uploads = [
            pool.submit(storage.upload, "packed", {"one": data})
            for _ in range(3)
            for storage, data in zip(storages, contents, strict=True)
        ]
        for upload in uploads:
            upload.result()
    assert server.world.backend.storage.download("packed", "one") in contents


def test_of_a_pack_with_a_damaged_file_nothing_is_on_the_share(server: Running, client: ArmBackend) -> None:
    body = extension_bodies.pack_files({"good": b"text", "bad": b"text"})
    status, told = stored(server, body[:-4] + b"tex_")
    assert (status, "'bad' was corrupted" in told["error"]["message"]) == (400, True)
    assert client.storage.list("packed") == []


@pytest.mark.parametrize(
    "body",
    [
        b"x",
        b"\n",
        b"[" * 100_000 + b"\n",
        b'["a", 9, ""]\nshort',
        b'["a", -1, ""]\n',
    ],
)
def test_what_is_no_pack_is_refused(server: Running, client: ArmBackend, body: bytes) -> None:
    status, told = stored(server, body)
    assert (status, told["error"]["code"]) == (400, "InvalidRequestContent")
