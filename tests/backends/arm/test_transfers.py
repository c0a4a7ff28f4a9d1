"""Several files at once, whose first failure ends the others; and files in pieces, with plain Azure Files."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest

from batchai_magics.backends.arm.published_storage import PublishedStorage, is_part, run_parallel
from batchai_magics.backends.arm.server_extensions import ExtendedStorage
from batchai_magics.backends.base import Copy, Storage
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.service.extension_bodies import PackedFile
from batchai_magics.errors import StorageError


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


def test_the_first_failure_is_told_and_ends_the_others() -> None:
    def failing() -> Generator[int, None, str]:
        yield 1
        raise StorageError("full")

    def endless() -> Generator[int, None, str]:
        while True:
            yield 1

    with pytest.raises(StorageError, match="full"):
        yields_and_result([failing, endless, endless])


def test_closing_parallel_transfers_ends_all_of_them() -> None:
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


class WithoutDigest(Damaging):
    """A server that tells no digest of a file, as the published API need not."""

    DIGEST = ""


def test_a_file_without_a_digest_is_kept_as_it_came(tmp_path: Path) -> None:
    drained(WithoutDigest().fetch("share", [Copy(tmp_path / "a", "a", 4)]))
    assert (tmp_path / "a").read_bytes() == b"came"


# -- files in pieces


DATA = bytes(range(10))


class Shares(PublishedStorage):
    """The verbs of Azure Files, on shares of this machine."""

    def __init__(self, storage: Storage) -> None:
        verbs = ("list", "show", "upload", "download", "delete")
        for verb in (*verbs, "read", "make_folder", "resize", "change", "rename"):
            setattr(self, verb, getattr(storage, verb))


@pytest.fixture
def shares(tmp_path: Path) -> Iterator[Shares]:
    backend = LocalBackend(LocalSettings(home=tmp_path / "home"))
    backend.storage.make("data")
    yield Shares(backend.storage)
    backend.close()


def names(shares: Shares, folder: str = "") -> list[str]:
    return [file.path for file in shares.list("data", folder)]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_goes_on_where_it_stopped_and_is_put_in_its_place_when_it_is_whole(
    shares: Shares,
) -> None:
    assert shares.begin("data", "in/er/a", 10) == 0
    shares.write("data", "in/er/a", 0, DATA[:7])
    assert shares.begin("data", "in/er/a", 10) == 7
    shares.write("data", "in/er/a", 4, DATA[4:])  # over what came of this piece before
    assert shares.begin("data", "in/er/a", 10) == 10
    assert all(map(is_part, names(shares, "in/er")))
    shares.finish("data", "in/er/a", digest(DATA))
    assert (names(shares, "in/er"), shares.download("data", "in/er/a")) == (["in/er/a"], DATA)


def test_what_came_of_a_longer_file_is_cut_off(shares: Shares) -> None:
    shares.begin("data", "a", 10)
    shares.write("data", "a", 0, DATA)
    assert shares.begin("data", "a", 9) == 0
    assert [file.size_bytes for file in shares.list("data")] == [0]
    shares.write("data", "a", 0, DATA)
    shares.write("data", "a", 4, b"end")
    shares.finish("data", "a", digest(DATA[:4] + b"end"))
    assert shares.download("data", "a") == DATA[:4] + b"end"


@pytest.mark.parametrize("wrong", [b"bad", DATA[:8], DATA[:9] + b"x"])
def test_a_damaged_file_is_deleted_and_the_one_in_its_place_stays(shares: Shares, wrong: bytes) -> None:
    shares.upload("data", {"a": b"old"})
    shares.begin("data", "a", len(wrong))
    shares.write("data", "a", 0, wrong)
    with pytest.raises(StorageError, match="corrupted"):
        shares.finish("data", "a", digest(DATA))
    assert (names(shares), shares.download("data", "a")) == (["a"], b"old")


def test_two_files_of_one_folder_do_not_mix(shares: Shares) -> None:
    for path in ("in/a.bin", "in/b.bin"):
        assert shares.begin("data", path, 1) == 0
        shares.write("data", path, 0, path[3].encode())
    for path in ("in/a.bin", "in/b.bin"):
        shares.finish("data", path, digest(path[3].encode()))
        assert shares.download("data", path) == path[3].encode()


def test_a_file_of_one_piece_is_told_as_it_lies_there(shares: Shares) -> None:
    for data in (b"first", b"", b"2nd"):
        assert shares.upload_small("data", "in/a", data) == shares.show("data", "in/a")
        assert shares.download("data", "in/a") == data
    assert names(shares, "in") == ["in/a"]


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        (".batchai-part-" + "0" * 16, True),
        ("in/.batchai-part-" + "0" * 16, True),
        (".batchai-part-" + "0" * 17, False),
        (".batchai-part-" + "0" * 15, False),
        ("x.batchai-part-" + "0" * 16, False),
        (".batchai-part-" + "0" * 16 + "/a", False),
    ],
)
def test_only_what_is_named_as_a_part_is_one(path: str, is_one: bool) -> None:
    assert is_part(path) is is_one
