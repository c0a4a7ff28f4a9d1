"""The backends that must keep the promises of `backends.base`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from batchai_magics.backends.base import Backend
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.resources import Job
from tests.world import World, until


@dataclass
class Place:
    """A backend with a workspace, an experiment and a cluster of two nodes."""

    backend: Backend
    workspace: ResourceId
    experiment: ResourceId
    cluster: ResourceId

    def spec(self, command: str = "echo hello", **fields: object) -> JobSpec:
        """A job of the custom toolkit on one node."""
        properties = {
            "cluster": {"id": str(self.cluster)},
            "nodeCount": 1,
            "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
            "customToolkitSettings": {"commandLine": command},
            **fields,
        }
        return JobSpec.from_wire({"properties": properties})

    def wait(self, id: ResourceId) -> Job:
        """The job when it has ended."""
        until(lambda: self.backend.show(id).state.is_final)
        return self.backend.show(id)


@pytest.fixture(params=["local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    world = World(tmp_path / "home")
    yield Place(world.backend, world.workspace, world.experiment, world.cluster)
    world.close()
