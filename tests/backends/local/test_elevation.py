"""`runElevated` of a setup task: what it asks for is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.node import requirements
from tests.backends.local.namespace import AS_SOMEBODY, scene, tell
from tests.world import World, until

SHARE = "$AZ_BATCHAI_MOUNT_ROOT/autoafs"


def test_a_task_runs_as_root_where_this_user_may(monkeypatch) -> None:
    monkeypatch.setattr(requirements, "is_root", lambda: True)
    assert requirements.elevated_command("id -u; true") == ("id -u; true", "")
    monkeypatch.setattr(requirements, "is_root", lambda: False)
    monkeypatch.setattr(requirements, "has_sudo", lambda: True)
    assert requirements.elevated_command("id -u; true") == (
        "exec sudo -n -E -- /bin/bash -c 'id -u; true'",
        "",
    )
    assert requirements.elevated(["umount", "/x"]) == ["sudo", "-n", "-E", "--", "umount", "/x"]


@pytest.mark.slow
def test_where_this_user_may_not_the_setup_log_says_so(tmp_path: Path) -> None:
    (told,) = scene(a_setup_task_of_somebody, tmp_path, who=AS_SOMEBODY)
    user, warning = told
    assert user == "1000\n"
    assert warning.startswith("warning: runElevated: ")
    assert warning.endswith("has no sudo without a password; the task runs without being root\n")


def a_setup_task_of_somebody(folder: Path) -> None:
    world = World(folder / "home")
    task = {"commandLine": "id -u", "runElevated": True, "stdOutErrPathPrefix": SHARE}
    cluster = world.make_cluster(nodeSetup={"setupTask": task}).id
    until(lambda: world.backend.show(cluster).node_states.idle_node_count == 1)
    logs = [next(world.home.rglob(f"{name}-tvm-*.txt")) for name in ("stdout", "stderr")]
    tell([log.read_text() for log in logs])
    world.close()
