"""The rows of resources: where they are listed, and the words for those that are missing."""

from __future__ import annotations

import pytest

from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.service.repository import Record
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.backends.local.still import Still
from tests.backends.service.records.homes import record


def put(still: Still, id: ResourceId) -> Record:
    """Writes a resource down."""
    made = record(id, guid=f"guid of {id.name}")
    SqliteRepository(still.store).insert(id, made)
    return made


def job(still: Still, name: str) -> ResourceId:
    return still.experiment.child(Kind.JOB, name)


def refused(still: Still, id: ResourceId) -> tuple[str, str, str]:
    with pytest.raises(NotFoundError) as caught:
        SqliteRepository(still.store).get(id)
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
