"""Files and lines by way of a server, against cp and the local backend."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from azure.storage.fileshare import ShareClient, ShareServiceClient

from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.base import Backend, Copy
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.follow import LogBytes
from batchai_magics.jobs.submit import submit
from batchai_magics.server.server_home import ServerHome
from batchai_magics.server.storage.sas import AccountKeys
from benchmarks.row import Row
from benchmarks.server.discarding import discarding
from benchmarks.server.running import Server

LARGE, SMALL, SMALL_BYTES = 1 << 29, 2000, 4 << 10


def transfers(server: Server, folder: Path) -> Iterator[Row]:
    """One large file and many small ones, up and down by Azure's own library, against cp."""
    large, small = folder / "large.bin", folder / "small"
    with large.open("wb") as file:
        for _ in range(LARGE >> 20):
            file.write(os.urandom(1 << 20))
    small.mkdir()
    for number in range(SMALL):
        (small / f"{number}.bin").write_bytes(os.urandom(SMALL_BYTES))
    key = AccountKeys(ServerHome(server.home / "server").keys, open_backend(Settings())).of("local")[0]
    account = {"account_name": "local", "account_key": key}
    service = ShareServiceClient(f"http://127.0.0.1:{server.port}/local", credential=account)
    share = service.create_share("measured")
    upload(share, large)  # the first takes memory that the machine may not have yet, as a first cp does
    shutil.copy(large, folder / "copy.bin")
    copied = seconds(lambda: shutil.copy(large, folder / "copy.bin"))
    uploaded = seconds(lambda: upload(share, large))
    yield Row("serve: upload 512 MiB", uploaded, "cp", copied, "s")
    with discarding() as port:
        nowhere = ShareServiceClient(f"http://127.0.0.1:{port}/local", credential=account)
        discarded = seconds(lambda: upload(nowhere.get_share_client("measured"), large))
    yield Row("serve: upload 512 MiB", uploaded, "a server that discards it", discarded, "s")
    yield Row("serve: download 512 MiB", seconds(lambda: download(share, large.name)), "cp", copied, "s")
    copied = seconds(lambda: shutil.copytree(small, folder / "copies"))
    files = sorted(small.iterdir())
    up = seconds(lambda: [upload(share, file) for file in files])
    yield Row(f"serve: upload {SMALL:,} small files", up, "cp -r", copied, "s")
    down = seconds(lambda: [download(share, file.name) for file in files])
    yield Row(f"serve: download {SMALL:,} small files", down, "cp -r", copied, "s")


def ours(server: Server, folder: Path) -> Iterator[Row]:
    """The backend `arm`: the same files, and how soon a line is with who follows a job."""
    own = ArmSettings(endpoint=f"http://127.0.0.1:{server.port}", token=server.token)
    there = open_backend(Settings(backend="arm", sections={"arm": own}))
    here = open_backend(Settings(sections={"local": LocalSettings(home=server.home)}))
    files = sorted((folder / "small").iterdir())
    there.storage.make("ours")
    here.storage.make("theirs")
    for name, paths in (("512 MiB", [folder / "large.bin"]), (f"{SMALL:,} small files", files)):
        copies = [Copy(path, path.name, path.stat().st_size) for path in paths]
        sent, moved = (
            seconds(lambda share=share, to=to, copies=copies: sum(to.storage.send(share, copies)))
            for share, to in (("ours", there), ("theirs", here))
        )
        yield Row(f"arm: upload {name}", sent, "local", moved, "s")
    yield Row("arm: from a line's writing to who follows", lag_ms(there), "local", lag_ms(here), "ms")
    there.close()
    here.close()


def lag_ms(backend: Backend) -> float:
    """The median time from the writing of a line to its arrival in the events of its job."""
    settings = Settings()
    script = "import time\nfor _ in range(100): print(time.time(), flush=True); time.sleep(0.05)"
    request = parse(f"lag-{backend.capabilities.name}", script, settings=settings)
    lags: list[float] = []
    for event in submit(backend, request, settings).job.events():
        if isinstance(event, LogBytes) and event.file.path == "stdout.txt":
            now = time.time()
            lags += [(now - float(line)) * 1000 for line in event.chunk.data.decode().split()]
    return statistics.median(lags)


def upload(share: ShareClient, file: Path) -> None:
    """Sends a file."""
    with file.open("rb") as stream:
        share.get_file_client(file.name).upload_file(stream)


def download(share: ShareClient, name: str) -> None:
    """Fetches a file, and lets it fall."""
    for _ in share.get_file_client(name).download_file().chunks():
        pass


def seconds(work: Callable[[], object]) -> float:
    """How long something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
