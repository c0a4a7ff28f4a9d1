"""What who makes something should know arrives, also from a server."""

from __future__ import annotations

import contextlib

import pytest

from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.server.running import WORKSPACE, Running, connected

pytestmark = pytest.mark.slow
PROPERTIES = {
    "vmSize": "STANDARD_NC6",
    "userAccountSettings": {"adminUserName": "me"},
    "scaleSettings": {"manual": {"targetNodeCount": 2}},
}


def test_what_a_new_cluster_lacks_is_told_to_who_makes_it_and_to_nobody_later(server: Running) -> None:
    spec = ClusterSpec.from_wire({"properties": PROPERTIES})
    there, here = (ResourceId.parse(WORKSPACE).child(Kind.CLUSTER, name) for name in ("there", "here"))
    with contextlib.closing(connected(server.url)) as backend:
        made = backend.create(there, spec)
        assert made.notes == server.world.backend.create(here, spec).notes
        assert backend.show(there).notes == ()
    assert made.notes
    assert "notes" not in str(made.to_wire()).lower()
