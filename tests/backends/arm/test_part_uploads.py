"""Uploads in pieces with plain Azure Files: a part file beside the target until it is complete."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from batchai_magics.backends.arm import published_storage
from batchai_magics.backends.arm.published_storage import PartUploads, is_part
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.errors import NotFoundError, StorageError

DATA = bytes(range(10))


class Shares:
    """The verbs of Azure Files, on shares of this machine."""

    def __init__(self, storage: object) -> None:
        self._storage = storage

    def __getattr__(self, verb: str) -> object:
        return getattr(self._storage, verb)

    def make_parents(self, share: str, path: str) -> None:
        for parent in reversed(PurePosixPath(path).parents[:-1]):
            try:
                self._storage.show(share, str(parent))
            except NotFoundError:
                self._storage.make_folder(share, str(parent))


@pytest.fixture
def shares(tmp_path: Path) -> Iterator[Shares]:
    backend = LocalBackend(LocalSettings(home=tmp_path / "home"))
    backend.storage.make("data")
    yield Shares(backend.storage)
    backend.close()


@pytest.fixture
def part_uploads(shares: Shares, monkeypatch: pytest.MonkeyPatch) -> PartUploads:
    monkeypatch.setattr(published_storage, "BLOCK_BYTES", 4)
    return PartUploads(shares)


def names(shares: Shares, folder: str = "") -> list[str]:
    return [file.path for file in shares.list("data", folder)]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_goes_on_where_it_stopped_and_is_put_in_its_place_when_it_is_whole(
    part_uploads: PartUploads, shares: Shares
) -> None:
    assert part_uploads.begin("data", "in/er/a", 10) == 0
    part_uploads.write("data", "in/er/a", 0, DATA[:7])
    assert part_uploads.begin("data", "in/er/a", 10) == 7
    part_uploads.write("data", "in/er/a", 4, DATA[4:])  # over what came of this piece before
    assert part_uploads.begin("data", "in/er/a", 10) == 10
    assert all(map(is_part, names(shares, "in/er")))
    part_uploads.finish("data", "in/er/a", digest(DATA))
    assert (names(shares, "in/er"), shares.download("data", "in/er/a")) == (["in/er/a"], DATA)


def test_what_came_of_a_longer_file_is_cut_off(part_uploads: PartUploads, shares: Shares) -> None:
    part_uploads.begin("data", "a", 10)
    part_uploads.write("data", "a", 0, DATA)
    assert part_uploads.begin("data", "a", 9) == 0
    assert [file.size_bytes for file in shares.list("data")] == [0]
    part_uploads.write("data", "a", 0, DATA)
    part_uploads.write("data", "a", 4, b"end")
    part_uploads.finish("data", "a", digest(DATA[:4] + b"end"))
    assert shares.download("data", "a") == DATA[:4] + b"end"


@pytest.mark.parametrize("wrong", [b"bad", DATA[:8], DATA[:9] + b"x"])
def test_a_damaged_file_is_deleted_and_the_one_in_its_place_stays(
    part_uploads: PartUploads, shares: Shares, wrong: bytes
) -> None:
    shares.upload("data", {"a": b"old"})
    part_uploads.begin("data", "a", len(wrong))
    part_uploads.write("data", "a", 0, wrong)
    with pytest.raises(StorageError, match="corrupted"):
        part_uploads.finish("data", "a", digest(DATA))
    assert (names(shares), shares.download("data", "a")) == (["a"], b"old")


def test_two_files_of_one_folder_do_not_mix(part_uploads: PartUploads, shares: Shares) -> None:
    for path in ("in/a.bin", "in/b.bin"):
        assert part_uploads.begin("data", path, 1) == 0
        part_uploads.write("data", path, 0, path[3].encode())
    for path in ("in/a.bin", "in/b.bin"):
        part_uploads.finish("data", path, digest(path[3].encode()))
        assert shares.download("data", path) == path[3].encode()


def test_a_file_of_one_piece_is_told_as_it_lies_there(part_uploads: PartUploads, shares: Shares) -> None:
    for data in (b"first", b"", b"2nd"):
        assert part_uploads.upload("data", "in/a", data) == shares.show("data", "in/a")
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
