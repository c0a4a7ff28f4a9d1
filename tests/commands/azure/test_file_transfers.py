"""Files on their way up to a share and down from it: interrupted, killed, damaged, changed."""

import os
import subprocess
import sys
from argparse import Namespace

import pytest

from batchai_magics.backends.base import Copy, Storage
from batchai_magics.backends.base.storage import BLOCK_BYTES
from batchai_magics.commands.azure import storage_bucket
from batchai_magics.commands.azure.storage_bucket import Bucket
from batchai_magics.errors import StorageError
from tests.patience import PATIENCE_S

UNIT = BLOCK_BYTES // 4


def big(text):
    """Content of which each letter stands for a quarter of a block."""
    return b"".join(bytes([letter]) * UNIT for letter in text)


BIG, SHORT = big(b"0123456789"), big(b"012345")


class RemoteStorage(Storage):
    """A storage whose files are reached by its verbs alone."""

    def __init__(self, storage):
        for verb in ("show", "upload", "download", "read", "digest", "begin", "write", "finish"):
            setattr(self, verb, getattr(storage, verb))


@pytest.fixture
def bucket(context):
    context.backend.storage.make("data")
    return Bucket(RemoteStorage(context.backend.storage), "data")


@pytest.fixture
def stored(bucket):
    """A share that has the file."""
    bucket.storage.upload("data", {"big": BIG})
    return bucket


@pytest.fixture
def target(tmp_path):
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder/got"


def steps_of(way, bucket, copies):
    """The steps of a transfer: `upload` or `download`."""
    return getattr(bucket, way)(copies, Namespace(no_progress=True)).steps


def begin_download(bucket, target):
    """Downloads a piece and stops; gives the file that is left for the next time."""
    steps = steps_of("download", bucket, [Copy(target, "big", 10 * UNIT)])
    next(steps)
    steps.close()
    (part,) = target.parent.iterdir()
    return part


def test_an_upload_goes_on_where_it_stopped(bucket, target):
    target.write_bytes(BIG)
    first = steps_of("upload", bucket, [Copy(target, "big", 10 * UNIT)])
    assert next(first) == 4 * UNIT
    first.close()
    assert bucket.find("big") is None
    assert bucket.storage.begin(bucket.name, "big", 10 * UNIT) == 4 * UNIT
    assert sum(steps_of("upload", bucket, [Copy(target, "big", 10 * UNIT)])) == 10 * UNIT
    assert bucket.storage.download(bucket.name, "big") == BIG


def test_what_was_begun_for_another_file_is_thrown_away(bucket, target):
    bucket.storage.begin(bucket.name, "big", 10 * UNIT)
    bucket.storage.write(bucket.name, "big", 0, big(b"xxxx"))
    target.write_bytes(BIG)
    list(steps_of("upload", bucket, [Copy(target, "big", 10 * UNIT)]))
    assert bucket.storage.download(bucket.name, "big") == BIG


def test_a_download_goes_on_where_it_stopped(stored, target):
    part = begin_download(stored, target)
    assert part.read_bytes() == BIG[: 4 * UNIT]
    asked = []
    read = stored.storage.read
    stored.storage.read = lambda *at: asked.append(at[2]) or read(*at)
    assert list(steps_of("download", stored, [Copy(target, "big", 10 * UNIT)])) == [
        4 * UNIT,
        4 * UNIT,
        2 * UNIT,
    ]
    assert asked == [4 * UNIT, 8 * UNIT, 10 * UNIT]
    assert [path.name for path in target.parent.iterdir()] == ["got"]
    assert target.read_bytes() == BIG


@pytest.mark.parametrize("damage", [b"", b"01", b"xxxx", b"0123456789xx", b"xxxxxxxxxx"])
def test_a_damaged_part_of_a_download_is_fetched_again(stored, target, damage):
    begin_download(stored, target).write_bytes(big(damage))
    assert sum(steps_of("download", stored, [Copy(target, "big", 10 * UNIT)])) == 10 * UNIT
    assert target.read_bytes() == BIG


def test_a_download_that_is_damaged_on_its_way_never_appears(stored, target):
    stored.storage.digest = lambda share, path: "of something else"
    with pytest.raises(StorageError, match="was corrupted in transit"):
        list(steps_of("download", stored, [Copy(target, "big", 10 * UNIT)]))
    assert list(target.parent.iterdir()) == []


def test_a_byte_that_is_changed_on_its_way_is_noticed(stored, target):
    read = stored.storage.read
    stored.storage.read = lambda *at: read(*at).replace(b"5", b"6", 1)
    with pytest.raises(StorageError, match="was corrupted in transit"):
        list(steps_of("download", stored, [Copy(target, "big", 10 * UNIT)]))
    assert list(target.parent.iterdir()) == []


def test_file_with_a_wrong_digest_is_fetched_once_and_refused(stored, target):
    asked = []
    read = stored.storage.read
    stored.storage.read = lambda *at: asked.append(at[2]) or read(*at)
    stored.storage.digest = lambda share, path: "of something else"
    with pytest.raises(StorageError, match="was corrupted in transit"):
        list(steps_of("download", stored, [Copy(target, "big", 10 * UNIT)]))
    assert asked == [0, 4 * UNIT, 8 * UNIT, 10 * UNIT]


def test_what_was_fetched_of_a_file_before_it_changed_is_thrown_away(stored, target):
    begin_download(stored, target)
    (target.parent / ".got.notes.part").touch()  # of somebody else
    stored.storage.upload(stored.name, {"big": SHORT})
    list(steps_of("download", stored, [Copy(target, "big", 6 * UNIT)]))
    assert sorted(path.name for path in target.parent.iterdir()) == [".got.notes.part", "got"]


def test_download_without_a_digest_is_not_checked(stored, target):
    stored.storage.digest = lambda share, path: ""
    list(steps_of("download", stored, [Copy(target, "big", 10 * UNIT)]))
    assert target.read_bytes() == BIG


def test_without_a_digest_nothing_is_taken_from_another_file_of_the_same_size(context, stored, target):
    stored.storage.digest = lambda share, path: ""
    stored.storage.upload("data", {"other": BIG[::-1]})
    for name in ("big", "other"):
        os.utime(context.backend.layout.home / "shares/local/data" / name, (1, 1))
    begin_download(stored, target)
    list(steps_of("download", stored, [Copy(target, "other", 10 * UNIT)]))
    assert target.read_bytes() == BIG[::-1]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (None, "got"),
        ("", "got"),
        (".", "got"),
        ("in/", "in/got"),
        ("folder", "folder/got"),
        ("in/name", "in/name"),
    ],
)
def test_a_path_that_is_a_folder_gets_the_name_of_the_file(context, path, named):
    context.backend.storage.make("data")
    context.backend.storage.upload("data", {"folder/file": b""})
    bucket = Bucket(context.backend.storage, "data")
    assert storage_bucket.upload_path(bucket, path, "/some/where/got") == named


@pytest.mark.parametrize("path", ["../x", "a/../../x", "a/../x"])
def test_no_name_on_a_share_leads_out_of_the_folder(tmp_path, path):
    with pytest.raises(StorageError, match="is outside"):
        storage_bucket.check_inside(tmp_path, ["x", path])


def test_without_a_digest_what_is_too_short_is_still_noticed(stored, target):
    stored.storage.digest = lambda share, path: ""
    read = stored.storage.read
    stored.storage.read = lambda *at: read(*at) if at[2] < 8 * UNIT else b""
    with pytest.raises(StorageError, match="was corrupted in transit"):
        list(steps_of("download", stored, [Copy(target, "big", 10 * UNIT)]))
    assert list(target.parent.iterdir()) == []


def test_without_a_digest_a_file_of_the_same_size_that_changed_is_still_noticed(context, stored, target):
    stored.storage.digest = lambda share, path: ""
    steps = steps_of("download", stored, [Copy(target, "big", 10 * UNIT)])
    next(steps)
    stored.storage.upload(stored.name, {"big": BIG[::-1]})
    os.utime(context.backend.layout.home / "shares/local/data/big", (1, 1))  # a clock may be coarse
    with pytest.raises(StorageError, match="changed while it was read"):
        list(steps)
    assert list(target.parent.iterdir()) == []


def test_a_file_that_changes_while_it_is_read_is_told(stored, target):
    steps = steps_of("download", stored, [Copy(target, "big", 10 * UNIT)])
    next(steps)
    stored.storage.upload(stored.name, {"big": SHORT})
    with pytest.raises(StorageError, match="changed while it was read"):
        list(steps)
    assert list(target.parent.iterdir()) == []


KILLED = """
import os, signal, sys
from argparse import Namespace
from pathlib import Path
from batchai_magics.backends.base import Copy, storage as base_storage
from batchai_magics.backends.folders import copying
from batchai_magics.backends.folders.shares import FolderStorage
from batchai_magics.commands.azure.storage_bucket import Bucket
base_storage.BLOCK_BYTES = copying.BLOCK_BYTES = 4096
copying.SMALL_BYTES = 0
kind, way, root, here = sys.argv[1:]
class Elsewhere(base_storage.Storage):
    def __init__(self, storage):
        for verb in ("show", "read", "digest", "begin", "write", "finish"):
            setattr(self, verb, getattr(storage, verb))
storage = FolderStorage(Path(root) / "shares", Path(root) / "unfinished/shares")
bucket = Bucket(Elsewhere(storage) if kind == "plain" else storage, "data")
steps = getattr(bucket, way)([Copy(Path(here), "big", 40_000)], Namespace(no_progress=True)).steps
for _ in range(3):
    next(steps)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["upload", "download"])
@pytest.mark.parametrize("kind", ["plain", "local"])
def test_a_transfer_that_was_killed_goes_on(bucket, target, context, kind, way):
    storage = context.backend.storage
    bucket = bucket if kind == "plain" else Bucket(storage, "data")
    data = os.urandom(40_000)
    if way == "upload":
        target.write_bytes(data)
    else:
        storage.upload("data", {"big": data})
    argv = [sys.executable, "-c", KILLED, kind, way, context.backend.layout.home, target]
    assert subprocess.run(argv, timeout=PATIENCE_S).returncode == -9
    assert target.exists() is (way == "upload")
    assert (bucket.find("big") is None) is (way == "upload")
    list(steps_of(way, bucket, [Copy(target, "big", 40_000)]))
    assert storage.download("data", "big") == target.read_bytes() == data
    assert [file.path for file in storage.list("data")] == ["big"]
    assert [path.name for path in target.parent.iterdir()] == ["got"]
