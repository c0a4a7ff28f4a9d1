"""Several files at once: all are counted, the first failure ends the others, and nobody waits for ever."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from batchai_magics.backends.arm.extended_storage import ExtendedStorage
from batchai_magics.backends.arm.published_storage import run_parallel
from batchai_magics.backends.azure import bounded_transport
from batchai_magics.backends.base import Copy
from batchai_magics.backends.service.extension_bodies import PackedFile
from batchai_magics.backends.service.extension_wire import DIGEST, UPLOAD, UploadStep
from batchai_magics.errors import ServiceError, StorageError
from tests.server.running import Running, connected


def counting(name: str, steps: int) -> Generator[int, None, str]:
    for _ in range(steps):
        yield 1
    return name


def yields_and_result(tasks) -> tuple[int, list]:
    return drained(run_parallel(tasks))


def drained(steps: Generator[int, None, list]) -> tuple[int, list]:
    """How much was counted, and what all gave."""
    total = 0
    while True:
        try:
            total += next(steps)
        except StopIteration as end:
            return total, end.value


def test_what_all_give_is_given_in_their_order() -> None:
    tasks = [lambda number=number: counting(f"f{number}", number) for number in range(20)]
    assert yields_and_result(tasks) == (sum(range(20)), [f"f{number}" for number in range(20)])
    assert yields_and_result([]) == (0, [])


def test_the_first_failure_is_told_and_ends_the_others() -> None:
    def failing() -> Generator[int, None, str]:
        yield 1
        raise StorageError("full")

    def endless() -> Generator[int, None, str]:
        while True:
            yield 1

    with pytest.raises(StorageError, match="full"):
        yields_and_result([failing, endless, endless])


def test_who_wants_no_more_ends_all() -> None:
    ended = threading.Event()

    def endless() -> Generator[int, None, str]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    steps = run_parallel([endless])
    next(steps)
    steps.close()
    assert ended.is_set()


class Damaging(ExtendedStorage):
    """Storage behind a line that changes every byte."""

    DIGEST = hashlib.sha256(b"sent").hexdigest()

    def __init__(self) -> None:
        pass

    def fetch_pack(self, share: str, paths: Sequence[str]) -> dict[str, PackedFile]:
        return {path: PackedFile(path, b"came", is_intact=False) for path in paths}

    def download_with_digest(self, share: str, path: str) -> tuple[bytes, str]:
        return b"came", self.DIGEST


@pytest.mark.parametrize("names", [["packed", "together"], ["alone"]])
def test_a_file_that_was_damaged_on_its_way_here_is_not_kept(names: list[str], tmp_path: Path) -> None:
    copies = [Copy(tmp_path / name, name, 4) for name in names]
    with pytest.raises(StorageError, match="was corrupted in transit"):
        drained(Damaging().fetch("share", copies))
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_digest_is_kept_as_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Damaging, "DIGEST", "")
    drained(Damaging().fetch("share", [Copy(tmp_path / "a", "a", 4)]))
    assert (tmp_path / "a").read_bytes() == b"came"


@pytest.mark.slow
def test_a_file_that_was_damaged_on_its_way_is_on_no_share(server: Running) -> None:
    server.world.backend.storage.make("damaged")
    headers = {UPLOAD: UploadStep.WHOLE.value, DIGEST: hashlib.sha256(b"text").hexdigest()}
    with (
        contextlib.closing(connected(server.url)) as backend,
        pytest.raises(StorageError, match="damaged"),
        backend.storage.file("damaged", "a") as client,
    ):
        client.upload_range(b"tex_", 0, 4, headers=headers)
    assert server.world.backend.storage.list("damaged") == []


@pytest.mark.slow
def test_a_file_over_the_limit_of_a_response_is_not_returned_as_one_value(
    server: Running, monkeypatch
) -> None:
    with contextlib.closing(connected(server.url)) as backend:
        backend.storage.make("data")
        backend.storage.upload("data", {"large": bytes(3000), "small": bytes(1000)})
        monkeypatch.setattr(bounded_transport, "MAX_RESPONSE_BYTES", 2000)
        assert backend.storage.download("data", "small") == bytes(1000)
        with pytest.raises(ServiceError, match="sends more than"):
            backend.storage.download("data", "large")
