"""Many things in one question: looks agree with `show`, tails with `read`, pages with the list."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import Backend, Bookmark, FileRef, Page
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec
from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, MOUNTED, Place
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service")]
# 12: looks


@pytest.mark.sample
@pytest.mark.needs("current_status")
def test_a_look_is_what_show_gives_one_by_one_and_reconciling_changes_nothing(place: Place) -> None:
    first = place.run(name="first")
    second = place.run("exit 3", name="second")
    place.has(place.cluster, idle=2)
    look = place.backend.status([first.id, place.cluster, second.id])
    ids = (first.id, second.id, place.cluster)
    assert dict(look.states) == {id.key: place.backend.show(id) for id in ids}
    assert Backend.status(place.backend, [*ids, place.job("nope")]) == look
    for _ in range(3):  # nothing is left to do
        place.backend.reconcile()
    assert dict(place.backend.status([first.id, place.cluster, second.id]).states) == dict(look.states)
    assert place.log(first.id) == b"hello\n"


def test_a_look_notices_by_itself_that_a_job_has_ended_and_leaves_out_what_is_not_there(place: Place) -> None:
    id = place.start(name="Resnet")
    until(lambda: place.backend.status([id]).of(id).state is ExecutionState.SUCCEEDED)
    shouted = ResourceId.parse(str(id).replace("Resnet", "RESNET"))
    assert place.backend.status([shouted]).of(shouted) == place.backend.show(id)
    missing = place.workspace.child(Kind.EXPERIMENT, "nope").child(Kind.JOB, "job")
    look = place.backend.status([place.job("nope"), place.cluster, missing])
    assert list(look.states) == [place.cluster.key]
    assert look.of(missing) is None
    assert not place.backend.status([]).states
    assert place.backend.status([place.cluster], since=look, wait_s=0.05).of(place.cluster)


# 13: tails


@pytest.mark.needs("storage")
@pytest.mark.parametrize("change", ["true", "mv log old"], ids=["in its place", "in another one's place"])
def test_a_log_written_anew_is_told_from_the_one_that_was_read(place: Place, change: str) -> None:
    waits = f"until [ -e {MOUNTED}/go ]; do sleep 0.02; done"
    id = place.start(
        f"cd $AZ_BATCHAI_STDOUTERR_DIR; echo one > log; {waits}; {change}; echo 1 and 2 > log; {HOLD}"
    )
    file = FileRef(id, "log")
    first = until(lambda: place.backend.tail(id, {}).get("log"))
    mark = Bookmark().after(first)
    assert mark.matches(place.backend.read(file, mark.offset))
    place.backend.storage.upload(place.share, {"go": b""})
    until(lambda: place.backend.read(file).data == b"1 and 2\n")
    assert not mark.matches(place.backend.tail(id, {"log": mark.offset})["log"])


@pytest.mark.sample
def test_a_tail_has_files_that_the_job_itself_writes_in_pieces_of_one_file(place: Place) -> None:
    own = "cd $AZ_BATCHAI_STDOUTERR_DIR; mkdir sub; echo in > sub/x; echo own > mine.txt"
    id = place.run(f"seq 200; printf abc >&2; {own}").id
    chunks = place.backend.tail(id, {})
    assert chunks["mine.txt"].data == b"own\n"
    assert not {"sub", "sub/x", "x"} & set(chunks)
    assert place.backend.tail(id, {path: chunk.end for path, chunk in chunks.items()}, wait_s=0.05) == {}
    logs = {"stdout.txt", "stderr.txt"} & set(chunks)
    for positions in ({}, {"stdout.txt": 4}, {"stdout.txt": chunks["stdout.txt"].end, "stderr.txt": 99}):
        plain = Backend.tail(place.backend, id, positions, 5)
        told = place.backend.tail(id, positions, 5)
        assert [plain.get(path) for path in logs] == [told.get(path) for path in logs]
    mark = Bookmark()
    while chunk := place.backend.tail(id, {"stdout.txt": mark.offset}, 70).get("stdout.txt"):
        assert mark.matches(chunk)
        mark = mark.after(chunk)
    whole, file = place.log(id), FileRef(id, "stdout.txt")
    assert mark.offset == len(whole)
    anew = place.backend.tail(id, {"stdout.txt": 10_000})["stdout.txt"]  # for a log that was cut
    assert (anew.offset, anew.data) == (0, whole)
    for piece in (place.backend.read(file, 3, 4), place.backend.read(file, 3, 4)):
        assert (piece.data, piece.offset, piece.end, piece.size) == (b"\n3\n4", 3, 7, len(whole))
    end = place.backend.read(file, len(whole))
    assert (end.data, end.is_complete) == (b"", True)
    with pytest.raises(NotFoundError) as caught:
        place.backend.tail(place.job("nope"), {})
    assert caught.value.code == "JobNotFound"


def test_tails_of_a_running_job_add_up_to_its_log_and_say_when_it_cannot_grow(place: Place) -> None:
    id = place.start(f"for i in 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 0.05; done; {HOLD}")
    data = bytearray()

    def has_all() -> bool:
        if chunk := place.backend.tail(id, {"stdout.txt": len(data)}, 7).get("stdout.txt"):
            data.extend(chunk.data)
            assert not chunk.is_complete
        return data.endswith(b"up\n")

    until(has_all)
    place.backend.terminate(id)
    place.wait(id)
    whole = place.backend.tail(id, {})["stdout.txt"]
    assert (whole.data, whole.is_complete) == (bytes(data), True)


# 14: pages


def names(place: Place, page: Page | None) -> list[list[str]]:
    """The names of all experiments, page by page."""
    found = []
    while page is not None:
        listing = place.backend.list(place.workspace, Kind.EXPERIMENT, page)
        found.append([item.id.name for item in listing])
        page = listing.next
    return found


@pytest.mark.sample
@pytest.mark.needs("experiments")
def test_pages_together_are_the_list_although_resources_come_and_go(place: Place) -> None:
    whole = place.backend.list(place.workspace, Kind.EXPERIMENT)
    assert (whole.next, [item.id for item in whole]) == (None, [place.experiment])
    for name in "cab":
        place.backend.create(place.workspace.child(Kind.EXPERIMENT, name), ExperimentSpec())
    for size in (1, 2, 3, 4, 99):
        pages = names(place, Page(size))
        assert [name for page in pages for name in page] == [place.experiment.name, "c", "a", "b"]
        assert max(map(len, pages)) <= size
        assert all(pages)
    listing = place.backend.list(place.workspace, Kind.EXPERIMENT, Page(2))
    place.backend.delete(place.workspace.child(Kind.EXPERIMENT, "c"))
    place.backend.create(place.workspace.child(Kind.EXPERIMENT, "d"), ExperimentSpec())
    rest = place.backend.list(place.workspace, Kind.EXPERIMENT, Page(99, listing.next.after))
    assert ([item.id.name for item in rest], rest.next) == (["a", "b", "d"], None)


@pytest.mark.needs("workspaces")
def test_workspaces_of_a_group_come_in_pages_too(place: Place) -> None:
    ids, group = [], place.workspace
    for name in ("x", "y"):
        id = ResourceId(group.subscription, group.group, name, Kind.WORKSPACE, name)
        place.backend.create(id, WorkspaceSpec())
        ids.append(id)
    first = place.backend.list(group, Kind.WORKSPACE, Page(2))
    assert [item.id for item in first] == [place.workspace, ids[0]]
    assert [item.id for item in place.backend.list(group, Kind.WORKSPACE, first.next)] == [ids[1]]
