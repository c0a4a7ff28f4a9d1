"""Files to and from shares that lie on this machine: whole, the same, gone on with, in their places."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from batchai_magics.backends.base import Copy
from batchai_magics.backends.base.storage import STALE_S, PartialDownloads
from batchai_magics.backends.folders import copying
from batchai_magics.backends.folders.entries import resolve_inside
from batchai_magics.backends.folders.shares import FolderStorage
from batchai_magics.errors import ConflictError, NotFoundError, StorageError
from tests.calls import calls_of

BIG = b"0123456789" * (copying.BLOCK_BYTES // 4)  # two blocks and a half
UPLOADS = {
    "begin": lambda storage: storage.begin("data", "b", 1),
    "upload": lambda storage: storage.upload("data", {"c": b"3"}),
    "send": lambda storage: list(storage.send("data", [])),
}


@pytest.fixture
def storage(tmp_path):
    made = FolderStorage(tmp_path / "shares", tmp_path / "unfinished")
    made.make("data")
    return made


@pytest.fixture
def local_folder(tmp_path):
    path = tmp_path / "here"
    path.mkdir()
    (path / "big").write_bytes(BIG)
    return path


def up(storage, *paths):
    return storage.send("data", [Copy(path, path.name, path.stat().st_size) for path in paths])


def sent(steps):
    """What a generator comes to."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_file_may_have_any_name_on_a_share(storage, local_folder):
    for name in (".part-x", ".big.0123456789ab.part", "x.part"):
        (local_folder / name).write_text("mine")
    sent(up(storage, *sorted(local_folder.iterdir())))
    assert [file.path for file in storage.list("data")] == sorted(
        path.name for path in local_folder.iterdir()
    )
    storage.upload("data", {".part-y": b"mine"})
    assert storage.show("data", ".part-y").size_bytes == 4


def test_complete_files_are_published_even_if_another_fails(storage, local_folder):
    os.mkfifo(local_folder / "pipe")
    with pytest.raises(StorageError, match="pipe cannot be read: it is not a regular file"):
        sent(up(storage, local_folder / "big", local_folder / "pipe"))
    assert [file.path for file in storage.list("data")] == ["big"]


def test_downloaded_files_are_added_to_existing_ones(storage, local_folder):
    storage.upload("data", {"a": b"1", "in/b": b"22"})
    (local_folder / "a.part").write_text("mine")
    copies = [Copy(local_folder / path, path, 1) for path in ("a", "in/b")]
    assert sum(storage.fetch("data", copies)) == 3
    assert (local_folder / "in/b").read_bytes() == b"22"
    assert sorted(path.name for path in local_folder.iterdir()) == ["a", "a.part", "big", "in"]


def test_two_downloads_to_one_place_never_mix(storage, local_folder):
    storage.upload("data", {"a": b"aaaa", "b": b"bb"})
    one, other = (storage.fetch("data", [Copy(local_folder / "it", path, 4)]) for path in "ab")
    next(one), next(other)  # both have written all, and neither is in its place
    assert list(one) == []
    assert (local_folder / "it").read_bytes() == b"aaaa"


def test_a_file_that_the_share_has_already_is_not_written_again(storage, tmp_path):
    file = tmp_path / "shares/local/data/a"
    storage.upload("data", {"a": b"1"})
    first = file.stat().st_ino
    storage.upload("data", {"a": b"1", "b": b"2"})
    assert file.stat().st_ino == first
    file.write_bytes(b"3")  # by a job
    storage.upload("data", {"a": b"1"})
    assert storage.download("data", "a") == b"1"


def test_an_upload_that_fails_halfway_leaves_no_temporary_files(storage, tmp_path):
    storage.make_folder("data", "b")
    with pytest.raises(ConflictError):
        storage.upload("data", {"a": b"1", "b": b"2", "c": b"3"})
    assert storage.download("data", "a") == b"1"
    assert files_in(tmp_path / "unfinished") == []


def test_the_error_of_an_upload_through_a_link_out_of_the_share_has_the_whole_path(storage, tmp_path):
    (tmp_path / "shares/local/data/out").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="'out/in/a' is outside data"):
        storage.upload("data", {"out/in/a": b"1"})


def test_a_pipe_without_a_reader_is_not_resized(storage, tmp_path):
    os.mkfifo(tmp_path / "shares/local/data/pipe")
    with pytest.raises(StorageError, match="cannot be written"):
        storage.resize("data", "pipe", 3)


def test_uploaded_file_replaces_a_pipe(storage, tmp_path):
    os.mkfifo(tmp_path / "shares/local/data/pipe")
    storage.upload("data", {"pipe": b""})
    assert storage.download("data", "pipe") == b""


def test_upload_of_a_smaller_file_discards_the_part_of_a_larger_one(storage, local_folder):
    storage.upload("data", {"a": b"1"})
    PartialDownloads.name(local_folder / "a", "a larger one").write_bytes(BIG)
    assert sum(storage.fetch("data", [Copy(local_folder / "a", "a", 1)])) == 1
    assert (local_folder / "a").read_bytes() == b"1"
    assert sorted(path.name for path in local_folder.iterdir()) == ["a", "big"]


def test_chunked_upload_resumes_where_it_stopped(storage, local_folder, tmp_path):
    steps = up(storage, local_folder / "big")
    assert next(steps) == copying.BLOCK_BYTES
    steps.close()
    assert storage.list("data") == []
    (part,) = files_in(tmp_path / "unfinished")
    before = part.stat().st_ino
    sent(up(storage, local_folder / "big"))
    assert storage.download("data", "big") == BIG
    assert (tmp_path / "shares/local/data/big").stat().st_ino == before
    assert files_in(tmp_path / "unfinished") == []


@pytest.mark.parametrize("upload", UPLOADS)
def test_next_upload_deletes_uploads_idle_for_a_day(storage, tmp_path, upload):
    storage.make("other")
    storage.begin("other", "big", 9)
    storage.write("other", "big", 0, BIG[:4])
    (part,) = files_in(tmp_path / "unfinished")
    for age_s, is_left in ((STALE_S - 3600, True), (STALE_S + 3600, False)):
        os.utime(part, (time.time() - age_s,) * 2)
        UPLOADS[upload](FolderStorage(tmp_path / "shares", tmp_path / "unfinished"))
        assert part.exists() is is_left


@pytest.mark.parametrize("damage", [b"", b"xxxx", BIG + b"xx"])
def test_part_of_a_different_file_is_discarded(storage, local_folder, tmp_path, damage):
    steps = up(storage, local_folder / "big")
    next(steps)
    steps.close()
    files_in(tmp_path / "unfinished")[0].write_bytes(damage)
    sent(up(storage, local_folder / "big"))
    assert storage.download("data", "big") == BIG


@pytest.mark.parametrize("data", [BIG[:10], BIG])
def test_corrupted_byte_is_detected(storage, local_folder, tmp_path, monkeypatch, data):
    (local_folder / "big").write_bytes(data)
    pwrite = os.pwrite
    monkeypatch.setattr(
        os, "pwrite", lambda file, data, at: pwrite(file, bytes(data).replace(b"5", b"6"), at)
    )
    with pytest.raises(StorageError, match="big was corrupted in transit"):
        sent(up(storage, local_folder / "big"))
    assert storage.list("data") == []
    assert files_in(tmp_path / "unfinished") == []


def test_file_that_changes_while_it_is_read_is_an_error(storage, local_folder):
    steps = up(storage, local_folder / "big")
    next(steps)
    (local_folder / "big").write_bytes(BIG[::-1])
    os.utime(local_folder / "big", (1, 1))  # a clock may be coarse
    with pytest.raises(StorageError, match="big changed while it was read"):
        sent(steps)
    assert storage.list("data") == []


def test_link_on_a_share_is_written_to_its_target_and_never_outside(storage, local_folder, tmp_path):
    share = tmp_path / "shares/local/data"
    storage.upload("data", {"real": b"old"})
    (share / "link").symlink_to("real")
    (share / "out").symlink_to(tmp_path)
    sent(storage.send("data", [Copy(local_folder / "big", "link", len(BIG))]))
    assert storage.download("data", "real") == BIG
    with pytest.raises(StorageError, match="is outside"):
        sent(storage.send("data", [Copy(local_folder / "big", "out/new", len(BIG))]))
    assert not (tmp_path / "new").exists()


def test_groups_are_few_and_small():
    most, most_bytes = copying.GROUP_FILES, copying.GROUP_BYTES
    expected = [[1] * most, [1, most_bytes - 1], [10 * most_bytes], [1]]
    copies = [Copy(None, str(size), size) for group in expected for size in group]
    assert [[copy.size_bytes for copy in group] for group in copying.groups(copies)] == expected


def test_only_regular_files_of_a_share_are_downloaded(storage, local_folder, tmp_path):
    os.mkfifo(tmp_path / "shares/local/data/pipe")
    with pytest.raises(StorageError, match="it is not a regular file"):
        list(storage.fetch("data", [Copy(local_folder / "pipe", "pipe", 0)]))
    with pytest.raises(NotFoundError, match="gone"):
        list(storage.fetch("data", [Copy(local_folder / "gone", "gone", 1)]))
    assert [path.name for path in local_folder.iterdir()] == ["big"]


def test_file_is_moved_to_another_file_system(tmp_path):
    shared_memory = Path("/dev/shm")
    if not shared_memory.is_dir() or shared_memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    with tempfile.TemporaryDirectory(dir=shared_memory) as disk:
        part, target = Path(disk, "part"), tmp_path / "target"
        part.write_bytes(BIG)
        copying.move(str(part), str(target))
        assert not list(Path(disk).iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert target.read_bytes() == BIG


def test_a_path_without_links_is_resolved_once_for_the_status_of_its_file(storage):
    paths = [f"in/{number}" for number in range(20)]
    storage.upload("data", dict.fromkeys(paths, b"1"))
    with calls_of(resolve_inside) as resolved:
        assert [storage.show("data", path).path for path in paths] == paths
    assert resolved.count == len(paths)
