"""The rows of resources: found, listed, written, forgotten, and the words for those that are missing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from batchai_magics.backends.base import Page
from batchai_magics.backends.local.state import resource_table
from batchai_magics.backends.local.state.resource_table import ResourceRow
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.backends.local.still import Still

NOW = 1_767_323_045.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_table, "time", SimpleNamespace(time=lambda: NOW))


def put(still: Still, id: ResourceId, spec: str = "{}") -> ResourceRow:
    """Writes a resource down; gives it as it must be read."""
    with still.store.write() as db:
        resource_table.insert(db, id, spec=spec, fingerprint=f"print of {id.name}")
    (row,) = still.rows("SELECT max(seq) AS seq FROM resource")
    return ResourceRow(id, spec, f"print of {id.name}", NOW, row["seq"])


def job(still: Still, name: str) -> ResourceId:
    return still.experiment.child(Kind.JOB, name)


def test_a_workspace_is_in_its_group_whatever_both_are_called(still: Still) -> None:
    id = ResourceId("s", "workspaces", "workspaces", Kind.WORKSPACE, "workspaces")
    row = put(still, id)
    with still.store.read() as db:
        assert resource_table.children(db, id, Kind.WORKSPACE, Page()) == [row]
    assert (
        resource_table.parent_key(id)
        == "/subscriptions/s/resourcegroups/workspaces/providers/microsoft.batchai"
    )


def test_a_resource_is_read_as_it_was_written(still: Still) -> None:
    id = still.workspace.child(Kind.EXPERIMENT, "Mixed")
    row = put(still, id, '{"a": 1}')
    (raw,) = still.rows("SELECT * FROM resource WHERE seq = ?", row.seq)
    assert dict(raw) == {
        "seq": row.seq,
        "key": str(id).lower(),
        "id": str(id),
        "kind": Kind.EXPERIMENT.value,
        "parent": str(still.workspace).lower(),
        "spec": '{"a": 1}',
        "fingerprint": "print of Mixed",
        "created": NOW,
        "owner": "",
        "guid": "",
        "more": "{}",
    }
    with still.store.read() as db:
        found = resource_table.find(db, ResourceId.parse(str(id).replace("Mixed", "mIXED")))
        assert found == resource_table.get(db, id) == resource_table.by_key(db, id.key) == row
        assert str(found.id) == str(id)  # in the case that it was given in
        assert resource_table.find(db, still.workspace.child(Kind.EXPERIMENT, "nope")) is None
        assert resource_table.find_many(db, [id, job(still, "nope")]) == [row]


def test_pages_are_in_the_order_of_making_and_one_longer_than_asked(still: Still) -> None:
    rows = [put(still, job(still, name)) for name in ("d", "c", "b", "a")]
    put(still, still.workspace.child(Kind.EXPERIMENT, "f"))
    put(still, still.workspace.child(Kind.EXPERIMENT, "f").child(Kind.JOB, "elsewhere"))

    def told(page: Page) -> list[ResourceRow]:
        with still.store.read() as db:
            return resource_table.children(db, still.experiment, Kind.JOB, page)

    assert told(Page()) == rows
    assert told(Page(size=2)) == rows[:3]
    assert told(Page(size=4)) == rows
    assert told(Page(size=0)) == rows[:1]
    assert told(Page(after=str(rows[0].seq))) == rows[1:]
    assert told(Page(size=1, after=str(rows[1].seq))) == rows[2:]
    assert told(Page(after=str(rows[3].seq))) == []


def test_a_page_of_one_kind_holds_no_other(still: Still) -> None:
    server = put(still, still.workspace.child(Kind.FILE_SERVER, "nfs"))
    with still.store.read() as db:
        assert resource_table.children(db, still.workspace, Kind.FILE_SERVER, Page()) == [server]
        (experiment,) = resource_table.children(db, still.workspace, Kind.EXPERIMENT, Page())
    assert experiment.id == still.experiment


def test_workspaces_are_listed_in_their_group_and_all_together(still: Still) -> None:
    beside = put(still, ResourceId.parse(f"{still.workspace}0"))
    away = put(still, ResourceId.parse(str(still.workspace).replace("/g/", "/h/")))
    with still.store.read() as db:
        first = resource_table.get(db, still.workspace)
        assert resource_table.workspaces(db) == [first, beside, away]
        for inside in (still.workspace, still.experiment):
            assert resource_table.children(db, inside, Kind.WORKSPACE, Page()) == [first, beside]
        assert resource_table.children(db, away.id, Kind.WORKSPACE, Page()) == [away]


def test_what_a_resource_is_listed_under(still: Still) -> None:
    group = "/subscriptions/s/resourcegroups/g/providers/microsoft.batchai"
    assert resource_table.parent_key(still.workspace) == group
    assert resource_table.parent_key(still.experiment) == f"{group}/workspaces/w"
    odd = ResourceId.parse(str(still.workspace).replace("/w", "/W"))
    assert resource_table.parent_key(odd) == group


def test_what_is_inside_is_told_innermost_first(still: Still) -> None:
    a = put(still, job(still, "a"))
    put(still, ResourceId.parse(f"{still.workspace}0"))
    put(still, still.workspace.child(Kind.EXPERIMENT, "e0"))
    with still.store.read() as db:
        assert resource_table.subtree(db, still.experiment) == [a.id, still.experiment]
        assert resource_table.subtree(db, a.id) == [a.id]
        assert resource_table.subtree(db, job(still, "nope")) == []


def test_a_description_changes_alone(still: Still) -> None:
    a, b = put(still, job(still, "a")), put(still, job(still, "b"))
    with still.store.write() as db:
        resource_table.change_spec(db, a.id, "new")
        assert resource_table.find_many(db, [a.id, b.id]) == [a._replace(spec="new"), b]
        resource_table.delete(db, a.id.key)
        assert resource_table.find_many(db, [a.id, b.id]) == [b]


def refused(still: Still, id: ResourceId) -> tuple[str, str, str]:
    with pytest.raises(NotFoundError) as caught, still.store.read() as db:
        resource_table.get(db, id)
    return caught.value.code, caught.value.message, caught.value.hint


def test_what_is_missing_is_told_with_the_newest_names_that_are_there(still: Still) -> None:
    for number in range(9):
        put(still, job(still, f"j{number}"))
    put(still, still.workspace.child(Kind.EXPERIMENT, "f"))
    put(still, still.workspace.child(Kind.EXPERIMENT, "f").child(Kind.JOB, "elsewhere"))
    code, message, hint = refused(still, job(still, "nope"))
    assert (code, message) == ("JobNotFound", "The specified job nope is not found")
    names = [f"j{number}" for number in range(8, 0, -1)]
    assert [hint.find(name) for name in names] == sorted(hint.find(name) for name in names)
    assert all(name in hint for name in names)
    assert "j0" not in hint
    assert "elsewhere" not in hint


def test_the_outermost_that_is_missing_is_told(still: Still) -> None:
    nowhere = ResourceId.parse(f"{still.workspace}9")
    inside = nowhere.child(Kind.EXPERIMENT, "x")
    for id in (nowhere, inside, inside.child(Kind.JOB, "j")):
        code, message, hint = refused(still, id)
        assert (code, message) == ("WorkspaceNotFound", "The specified workspace w9 is not found")
        assert "w" in hint
    code, message, hint = refused(still, still.workspace.child(Kind.EXPERIMENT, "x").child(Kind.JOB, "j"))
    assert (code, message) == ("ExperimentNotFound", "The specified experiment x is not found")
    assert "e" in hint
