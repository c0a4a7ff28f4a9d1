"""The rows of resources: found, listed, written, forgotten, and the words for those that are missing."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import Page
from batchai_magics.backends.local.state import resource_table
from batchai_magics.backends.local.state.resource_table import ResourceRow
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.service.repository import Record
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.backends.local.still import Still

NOW = 1_767_323_045.0


def put(still: Still, id: ResourceId, spec: str = "{}") -> ResourceRow:
    """Records a resource; gives it as it must be read."""
    record = Record(str(id), f"guid of {id}", spec, f"print of {id.name}", NOW)
    SqliteRepository(still.store).insert(id, record)
    (row,) = still.rows("SELECT max(seq) AS seq FROM resource")
    return ResourceRow(id, spec, f"print of {id.name}", NOW, row["seq"])


def job(still: Still, name: str) -> ResourceId:
    return still.experiment.child(Kind.JOB, name)


def test_a_workspace_is_in_its_group_whatever_both_are_called(still: Still) -> None:
    id = ResourceId("s", "workspaces", "workspaces", Kind.WORKSPACE, "workspaces")
    put(still, id)
    (listed,) = SqliteRepository(still.store).children(id, Kind.WORKSPACE, Page()).records
    assert listed.resource_id == id
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
        "guid": f"guid of {id}",
        "more": "{}",
    }
    with still.store.read() as db:
        found = resource_table.find(db, ResourceId.parse(str(id).replace("Mixed", "mIXED")))
        assert found == resource_table.get(db, id) == resource_table.by_key(db, id.key) == row
        assert str(found.id) == str(id)  # in the case that it was given in
        assert resource_table.find(db, still.workspace.child(Kind.EXPERIMENT, "nope")) is None
        assert resource_table.by_guid(db, f"guid of {id}") == row


def test_what_a_resource_is_listed_under(still: Still) -> None:
    group = "/subscriptions/s/resourcegroups/g/providers/microsoft.batchai"
    assert resource_table.parent_key(still.workspace) == group
    assert resource_table.parent_key(still.experiment) == f"{group}/workspaces/w"
    odd = ResourceId.parse(str(still.workspace).replace("/w", "/W"))
    assert resource_table.parent_key(odd) == group


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
