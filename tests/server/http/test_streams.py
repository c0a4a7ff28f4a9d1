"""Commands on nodes that write nothing for long keep nobody else waiting."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from batchai_magics.backends.base import CommandEnd
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.server.batchai import extensions
from batchai_magics.server.http.request_limits import ServerLimits
from tests.server.running import WORKSPACE, connected, serving
from tests.world import until

pytestmark = pytest.mark.slow
CLUSTER = ResourceId.parse(WORKSPACE).child(Kind.CLUSTER, "default")


def test_silent_commands_take_no_turn_from_others(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(extensions, "_HEARTBEAT_S", 0.0)  # none of them lets go of its thread for a moment
    go = tmp_path / "go"
    with serving(tmp_path / "home", limits=ServerLimits(threads=2)) as server:
        until(lambda: server.world.backend.nodes(CLUSTER))
        node = server.world.backend.nodes(CLUSTER)[0].id
        with contextlib.closing(connected(server.url)) as backend:
            command = f"echo up; until [ -e {go} ]; do sleep 0.05; done"
            outputs = [backend.node_commands.execute(CLUSTER, node, command) for _ in range(4)]
            assert [next(output).data for output in outputs] == [b"up\n"] * 4
            assert server.ask("GET", str(CLUSTER)).ok
            go.touch()
            assert [list(output) for output in outputs] == [[CommandEnd(0)]] * 4
