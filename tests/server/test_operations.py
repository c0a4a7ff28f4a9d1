"""Long-running operations outlive the server that began them."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import ExperimentSpec
from batchai_magics.server.operations import DELETE, RETENTION_S, Operations
from tests.world import World, until

pytestmark = pytest.mark.slow
NO_RESOURCE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Other/things/x"


def left_behind(folder: Path, target: str, **more: object) -> str:
    """The file of an operation that a server had under way when it was killed."""
    name = str(uuid.uuid4())
    said = {
        "name": name,
        "kind": DELETE,
        "target": target,
        "started": 1.0,
        "ended": None,
        "error": None,
        **more,
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(said))
    return name


def test_a_deletion_goes_on_with_the_next_server(world: World, tmp_path: Path) -> None:
    id = world.workspace.child(Kind.EXPERIMENT, "old")
    world.backend.create(id, ExperimentSpec())
    name = left_behind(tmp_path / "operations", str(id))
    operations = Operations(tmp_path / "operations", world.backend)
    assert operations.find(name).status == "InProgress"
    operations.resume()
    until(lambda: operations.find(name).status == "Succeeded")
    with pytest.raises(NotFoundError):
        world.backend.show(id)
    operations.close()


def test_an_operation_that_is_long_over_is_forgotten(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "operations"
    old, new = (left_behind(folder, "x", ended=ended) for ended in (5.0, 10.0))
    operations = Operations(folder, world.backend, clock=lambda: RETENTION_S + 7.0)
    operations.resume()
    assert (operations.find(old), operations.find(new).status) == (None, "Succeeded")
    operations.close()


@pytest.mark.parametrize("name", ["x", "../../secret", "7d1b0c0e-5a0f-4f43-9a43-0a2f2b1c9d11"])
def test_an_operation_that_never_was_is_not_found(world: World, tmp_path: Path, name: str) -> None:
    operations = Operations(tmp_path / "operations", world.backend)
    assert operations.find(name) is None
    operations.close()


def test_what_cannot_be_deleted_is_told_with_its_reason(world: World, tmp_path: Path) -> None:
    operations = Operations(tmp_path / "operations", world.backend)
    operation = operations.start(DELETE, NO_RESOURCE)
    until(lambda: operations.find(operation.name).status == "Failed")
    told = operations.find(operation.name).to_wire("url")
    assert set(told["error"]) >= {"code", "message"}
    operations.close()
