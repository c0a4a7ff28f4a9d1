"""Shares and blob containers: what goes in comes out whole, in pieces too, and nothing leaves its place."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.base import Copy, Storage
from batchai_magics.errors import ConflictError, NotFoundError, SpecError, StorageError
from batchai_magics.models.job_execution import FileKind
from batchai_magics.models.resource_ids import Kind
from tests.contract.place import HOLD, Place

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service"), pytest.mark.needs("storage")]
DATA = bytes(range(256)) * 100
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(params=["storage", "containers"])
def storage(place: Place, request: pytest.FixtureRequest) -> Storage:
    """A storage with an empty share."""
    found: Storage = getattr(place.backend, request.param)
    found.make("data")
    return found


def names(storage: Storage, path: str = "") -> list[str]:
    return [file.path for file in storage.list("data", path)]


def test_a_share_keeps_files_and_lists_them(storage: Storage) -> None:
    storage.make("data")  # once more: nothing is lost
    storage.upload("data", {"b/inner.txt": b"1", "a.txt": b"22"})
    found = [(file.path, file.is_directory, file.size_bytes) for file in storage.list("data")]
    assert found == [("a.txt", False, 2), ("b", True, 0)]
    assert names(storage, "b") == ["b/inner.txt"]
    assert [storage.show("data", path).path for path in ("b", "b/inner.txt")] == ["b", "b/inner.txt"]
    assert storage.show("data", "a.txt") == storage.list("data")[0]
    assert storage.download("data", "b/inner.txt") == b"1"
    assert storage.digest("data", "a.txt") in ("", hashlib.sha256(b"22").hexdigest())
    storage.delete("data", "b")
    assert names(storage) == ["a.txt"]
    assert ("data" in storage.shares(), storage.has("data")) == (True, True)
    storage.remove("data")
    assert ("data" in storage.shares(), storage.has("data")) == (False, False)
    assert not storage.has("no valid name")


def test_a_share_that_a_job_uses_is_not_deleted_under_it(place: Place) -> None:
    other = place.backend.storage
    other.make("unused")
    job = place.start(HOLD)
    with pytest.raises(ConflictError, match=f"Jobs use the share {place.share}") as caught:
        other.remove(place.share)
    assert (caught.value.code, job.name in caught.value.hint) == ("ShareInUse", True)
    other.remove("unused")
    place.backend.terminate(job)
    place.wait(job)
    other.remove(place.share)
    place.backend.show(job)
    place.backend.list(place.experiment, Kind.JOB)
    assert place.share not in other.shares()


def test_shares_and_containers_of_one_name_are_two_things(place: Place) -> None:
    place.backend.accounts.create("acc1", "g", "eastus")
    for storage, content in ((place.backend.storage, b"1"), (place.backend.containers, b"2")):
        storage.make("acc1/data")
        storage.upload("acc1/data", {"x": content})
    assert place.backend.storage.download("acc1/data", "x") == b"1"
    place.backend.storage.remove("acc1/data")
    assert place.backend.containers.download("acc1/data", "x") == b"2"


def test_an_upload_goes_on_where_it_stopped_and_appears_when_whole(storage: Storage) -> None:
    assert storage.begin("data", "a/b", len(DATA)) == 0
    storage.write("data", "a/b", 0, DATA[:10_000])
    assert "a/b" not in names(storage, "a")
    with pytest.raises(NotFoundError):
        storage.show("data", "a/b")
    assert storage.begin("data", "a/b", len(DATA)) == 10_000
    storage.write("data", "a/b", 10_000, DATA[10_000:])
    storage.finish("data", "a/b", DIGEST)
    assert storage.download("data", "a/b") == DATA
    assert storage.digest("data", "a/b") == DIGEST
    assert storage.read("data", "a/b", 255, 3) == b"\xff\x00\x01"
    assert storage.read("data", "a/b", len(DATA), 3) == b""


def test_an_upload_replaces_a_file_only_when_it_is_whole_and_as_it_was_meant(storage: Storage) -> None:
    storage.begin("data", "again", 6)
    storage.write("data", "again", 0, b"0123xxxx")  # more than was meant: it broke off, and begins again at 4
    storage.write("data", "again", 4, b"45")
    storage.finish("data", "again", hashlib.sha256(b"012345").hexdigest())
    assert storage.download("data", "again") == b"012345"
    storage.upload("data", {"a": b"old"})
    storage.begin("data", "a", 6)
    storage.write("data", "a", 0, b"larger")
    assert storage.begin("data", "a", 3) == 0  # shorter than what came before it: anew
    storage.write("data", "a", 0, b"new")
    assert storage.begin("data", "a", 3) == 3  # all has come: only its end is missing
    assert storage.download("data", "a") == b"old"
    storage.finish("data", "a", hashlib.sha256(b"new").hexdigest())
    assert storage.download("data", "a") == b"new"
    storage.begin("data", "damaged", 3)
    storage.write("data", "damaged", 0, b"bad")
    with pytest.raises(StorageError, match="corrupted"):
        storage.finish("data", "damaged", hashlib.sha256(b"sad").hexdigest())
    assert names(storage) == ["a", "again"]
    assert storage.begin("data", "damaged", 3) == 0


def test_files_and_folders_are_changed_in_their_place_and_renamed(storage: Storage) -> None:
    storage.resize("data", "a.bin", 6)
    assert storage.download("data", "a.bin") == bytes(6)
    storage.change("data", "a.bin", 2, b"xy")
    assert storage.download("data", "a.bin") == b"\0\0xy\0\0"
    storage.resize("data", "a.bin", 3)
    assert storage.download("data", "a.bin") == b"\0\0x"
    storage.make_folder("data", "a")
    storage.make_folder("data", "a/b")
    assert storage.show("data", "a/b").is_directory
    for path in ("x/y", "x/y/z.bin"):
        with pytest.raises(NotFoundError):
            storage.make_folder("data", path)
        with pytest.raises(NotFoundError):
            storage.resize("data", path, 1)
    storage.upload("data", {"old": b"old", "new": b"new"})
    storage.rename("data", "new", "old")
    assert storage.download("data", "old") == b"new"
    with pytest.raises(NotFoundError):
        storage.rename("data", "new", "other")
    for leads_out in ("../x", "a/../../x"):
        with pytest.raises(StorageError):
            storage.rename("data", "old", leads_out)
    for path in ("", ".", "/"):  # a share is not deleted as if it were a file
        with pytest.raises(NotFoundError):
            storage.delete("data", path)
    assert names(storage) == ["a", "a.bin", "old"]


def test_files_of_this_machine_go_up_and_come_down(storage: Storage, tmp_path: Path) -> None:
    big, small = tmp_path / "big", tmp_path / "small"
    big.write_bytes(DATA * 20)
    small.write_bytes(b"1")
    copies = [Copy(big, "in/big", len(DATA) * 20), Copy(small, ".part-small", 1)]
    assert sum(storage.send("data", copies)) == len(DATA) * 20 + 1
    assert names(storage) == [".part-small", "in"]
    back = [replace(copy, local_path=tmp_path / "back" / copy.path) for copy in copies]
    assert sum(storage.fetch("data", back)) == len(DATA) * 20 + 1
    assert [copy.local_path.read_bytes() for copy in back] == [DATA * 20, b"1"]
    assert len([path for path in tmp_path.joinpath("back").rglob("*") if path.is_file()]) == 2


def test_no_path_leads_out_of_a_share_and_what_is_missing_or_ill_formed_is_said_to_be(
    storage: Storage,
) -> None:
    for path in ("../x", "a/../../x"):
        verbs = {
            "upload": ({path: b""},),
            **dict.fromkeys(("list", "show", "download", "delete", "digest"), (path,)),
            "read": (path, 0, 1),
            "begin": (path, 1),
            "write": (path, 0, b"x"),
            "finish": (path, DIGEST),
        }
        for verb, arguments in verbs.items():
            with pytest.raises(StorageError):
                getattr(storage, verb)("data", *arguments)
    for name in ("../data", "acc1/../data", "Data", "x", "a/b/data"):
        for verb in (storage.make, storage.list, storage.remove):
            with pytest.raises(SpecError, match="not a valid share name"):
                verb(name)
    for word, arguments in (("list", ()), ("remove", ()), ("begin", ("x", 1)), ("digest", ("x",))):
        with pytest.raises(NotFoundError) as caught:
            getattr(storage, word)("nothere", *arguments)
        assert caught.value.code in ("ShareNotFound", "ContainerNotFound")
    for word, arguments in (("show", ()), ("download", ()), ("delete", ()), ("read", (0, 1)), ("digest", ())):
        with pytest.raises(NotFoundError) as caught:
            getattr(storage, word)("data", "x", *arguments)
        assert caught.value.code == "ResourceNotFound"


def test_what_a_job_makes_is_listed_as_what_it_is_and_no_link_leads_out_of_a_share(place: Place) -> None:
    storage, share = place.backend.storage, place.share
    links = "ln -s /etc etc; ln -s /etc/passwd passwd; ln -s a b; ln -s d e; ln -s me me"
    place.run(f"cd $AZ_BATCHAI_MOUNT_ROOT/autoafs; echo aa > a; mkdir d; mkfifo pipe; {links}")
    kinds = {file.path: file.kind.value for file in storage.list(share) if not file.is_directory}
    assert kinds == {"a": "file", "b": "file", "etc": "link", "me": "link", "passwd": "link", "pipe": "pipe"}
    assert storage.show(share, "b").path == "b"
    assert storage.show(share, "pipe").kind is FileKind.PIPE
    for path in ("me", "pipe"):
        for verb, arguments in (("download", ()), ("read", (0, 1)), ("digest", ())):
            with pytest.raises(NotFoundError, match="not a file"):
                getattr(storage, verb)(share, path, *arguments)
    for path in ("passwd", "etc/passwd"):
        with pytest.raises(StorageError):
            storage.download(share, path)
    with pytest.raises(StorageError):
        storage.upload(share, {"etc/x": b""})
    for path in ("b", "e", "etc", "me", "passwd", "pipe"):  # and not what they lead to
        storage.delete(share, path)
    listed = {file.path for file in storage.list(share)}
    assert {"a", "d"} <= listed
    assert not {"b", "e", "etc", "me", "passwd", "pipe"} & listed


def test_what_is_cleared_is_zeros_wherever_it_begins_and_ends(place: Place) -> None:
    storage, data = place.backend.storage, bytes(range(1, 251)) * 12
    storage.upload(place.share, {"data": data})
    for offset, size in ((0, 10), (100, 700), (1024, 512), (2990, 10)):
        storage.clear(place.share, "data", offset, size)
        data = data[:offset] + bytes(size) + data[offset + size :]
        assert storage.download(place.share, "data") == data
