"""What one node mounts and runs before it takes jobs; nothing is started here."""

from __future__ import annotations

from batchai_magics.backends.node import requirements
from batchai_magics.launch.plan import LogPaths, Mount, Plan, PlanNode
from batchai_magics.launch.planning import setup
from batchai_magics.models.cluster_spec import NodeSetup

NODE = PlanNode("n0", "/node", "/node/tmp")


def planned(**asked: object) -> Plan:
    setting = NodeSetup.from_wire(asked)
    return setup(setting, NODE, mount_root="/mnt", python="/py", exits="/exits", logs="/logs")


def task(**fields: object) -> dict[str, object]:
    return {"commandLine": "install", "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/x", **fields}


def test_a_setup_task_runs_in_its_nodes_folder_with_the_mount_root() -> None:
    variables = [{"name": "DATA", "value": "$AZ_BATCHAI_MOUNT_ROOT/data"}]
    made = planned(setupTask=task(environmentVariables=variables))
    (process,), (node,) = made.processes, made.nodes
    assert (process.command, made.guid, made.python, made.exits) == ("install", "n0", "/py", "/exits")
    assert (node.folder, node.tmpdir) == ("/node", "/node/tmp")
    assert node.env == {"AZ_BATCHAI_MOUNT_ROOT": "/mnt", "DATA": "/mnt/data"}
    assert made.output == (LogPaths("/logs/stdout-n0.txt"), LogPaths("/logs/stderr-n0.txt"))


def test_mount_commands_need_no_task() -> None:
    systems = [{"mountCommand": "mount x", "relativeMountPath": "own"}]
    made = planned(mountVolumes={"unmanagedFileSystems": systems})
    assert (made.mounts, made.processes) == ((Mount("mount x", "own"),), ())


def test_a_task_that_cannot_be_root_is_run_with_a_note(monkeypatch) -> None:
    monkeypatch.setattr(requirements, "elevated_command", lambda command: (command, "not root"))
    made = requirements.run_elevated(planned(setupTask=task(runElevated=True)))
    assert (made.processes[0].command, made.notes) == ("install", ("not root",))


def test_a_task_that_can_be_root_is_run_so_without_a_word(monkeypatch) -> None:
    monkeypatch.setattr(requirements, "elevated_command", lambda command: (f"sudo {command}", ""))
    made = requirements.run_elevated(planned(setupTask=task(runElevated=True)))
    assert (made.processes[0].command, made.notes) == ("sudo install", ())


def test_a_task_that_need_not_be_root_is_not(monkeypatch) -> None:
    monkeypatch.setattr(requirements, "elevated_command", lambda command: (f"sudo {command}", ""))
    made = planned(setupTask=task())
    assert requirements.run_elevated(made) == made
