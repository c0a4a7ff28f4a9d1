"""Directories and variables of a job, what its nodes tell each process, and how nodes are set up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.launch.plan import Directory, Image, LogPaths, Mount, Plan, PlanNode, Requirement
from batchai_magics.launch.planning import THREADS, batch_variables, plan, setup
from batchai_magics.models.cluster_spec import NodeSetup
from tests.launch.descriptions import SCRIPT, plan_nodes, plan_of, site, spec


def test_directories_and_variables_may_use_earlier_ones() -> None:
    made = plan_of(
        1,
        customToolkitSettings={"commandLine": "x"},
        inputDirectories=[{"id": "DATA", "path": "$AZ_BATCHAI_MOUNT_ROOT/afs/data"}],
        outputDirectories=[{"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/afs/", "pathSuffix": "m"}],
        environmentVariables=[{"name": "D", "value": "${AZ_BATCHAI_INPUT_DATA}/x"}],
    )
    env = made.nodes[0].env
    assert env["AZ_BATCHAI_INPUT_DATA"] == "/mnt/afs/data"
    assert env["AZ_BATCHAI_OUTPUT_MODEL"] == "/mnt/afs/sub/job/outputs/m"
    assert env["D"] == "/mnt/afs/data/x"


def test_a_path_with_quotes_and_a_backslash_stays_one_word() -> None:
    made = plan_of(1, horovodSettings={"pythonScriptFilePath": 'a\\b "c`d.py'})
    assert made.processes[0].command.endswith(r'"a\\b \"c\`d.py"')


def test_variables_of_processes_have_the_folders_and_gpus_of_their_node() -> None:
    (node,), where = plan_nodes(1), replace(site(1, gpus=2), devices=("3,GPU-5",))
    made = plan(spec(1, customToolkitSettings={"commandLine": "x"}), [node], where)
    assert made.nodes[0].env == {
        "AZ_BATCHAI_MOUNT_ROOT": "/mnt",
        "AZ_BATCHAI_JOB_MOUNT_ROOT": "/jobmnt",
        "AZ_BATCHAI_STDOUTERR_DIR": "/out/stdouterr",
        "AZ_BATCHAI_JOB_TEMP": "/tmp/n0",
        "AZ_BATCHAI_JOB_TEMP_DIR": "/tmp/n0",
        "AZ_BATCHAI_SHARED_JOB_TEMP": "/shared",
        "AZ_BATCHAI_MPI_HOST_FILE": "/hosts",
        "AZ_BATCHAI_NUM_GPUS": "2",
        "CUDA_VISIBLE_DEVICES": "3,GPU-5",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **dict.fromkeys(THREADS, "1"),
        **batch_variables(node, 0, where),
    }


def test_a_node_tells_of_the_jobs_nodes_as_azure_batch_did() -> None:
    where = replace(site(2, gpus=2), addresses=("10.0.0.4", "10.0.0.5"))
    variable = [{"name": "HOSTS", "value": "$AZ_BATCH_HOST_LIST"}]
    made = plan(spec(2, caffe2Settings=SCRIPT, environmentVariables=variable), plan_nodes(), where)
    second = made.nodes[1].env
    assert second["HOSTS"] == second["AZ_BATCH_HOST_LIST"] == "10.0.0.4,10.0.0.5"
    assert second["AZ_BATCH_NODE_LIST"] == "10.0.0.4;10.0.0.5"
    assert second["CCP_NODES"] == "2 10.0.0.4 1 10.0.0.5 1"
    assert second["AZ_BATCH_MASTER_NODE"] == "10.0.0.4:6000"
    assert second["AZ_BATCHAI_JOB_MASTER_NODE_IP"] == "10.0.0.4"
    assert [node.env["AZ_BATCH_IS_CURRENT_NODE_MASTER"] for node in made.nodes] == ["true", "false"]
    assert second["AZ_BATCH_TASK_WORKING_DIR"] == "/tmp/n1"
    assert second["AZ_BATCHAI_NUM_GPUS_PER_NODE"] == "2"


def test_a_relative_directory_is_below_the_folder_that_the_processes_start_in() -> None:
    made = plan_of(
        1,
        customToolkitSettings={"commandLine": "x"},
        inputDirectories=[{"id": "IN", "path": "data"}],
        outputDirectories=[{"id": "OUT", "pathPrefix": "models"}],
    )
    env = made.nodes[0].env
    assert env["AZ_BATCHAI_INPUT_IN"] == "/tmp/n0/data"
    assert env["AZ_BATCHAI_OUTPUT_OUT"] == "/tmp/n0/models/sub/job/outputs"


@pytest.mark.parametrize(
    ("create_new", "need"),
    [(None, Requirement.NOTHING), (True, Requirement.CREATE), (False, Requirement.EXIST)],
)
def test_requirement_of_an_input_directory_follows_create_new(
    create_new: bool | None, need: Requirement
) -> None:
    directory = {"id": "IN", "path": "/in", **({} if create_new is None else {"createNew": create_new})}
    made = plan_of(1, customToolkitSettings={"commandLine": "x"}, inputDirectories=[directory])
    assert made.nodes[0].directories == (Directory("AZ_BATCHAI_INPUT_IN", "/in", need),)


@pytest.mark.parametrize(
    ("create_new", "path", "need"),
    [
        (None, "/p/sub/job/outputs/m", Requirement.CREATE),
        (True, "/p/sub/job/outputs/m", Requirement.CREATE),
        (False, "/p/m", Requirement.EXIST),
    ],
)
def test_output_directory_is_the_runs_own_unless_create_new_is_false(create_new, path, need) -> None:
    directory = {"id": "OUT", "pathPrefix": "/p/", "pathSuffix": "m"}
    directory |= {} if create_new is None else {"createNew": create_new}
    made = plan_of(1, customToolkitSettings={"commandLine": "x"}, outputDirectories=[directory])
    assert made.nodes[0].directories == (Directory("AZ_BATCHAI_OUTPUT_OUT", path, need),)


def test_a_plan_names_the_image_and_the_secrets_and_no_password() -> None:
    source = {
        "image": "tf:1",
        "serverUrl": "me.azurecr.io",
        "credentials": {"username": "u", "password": "hush"},
    }
    given = spec(
        1,
        customToolkitSettings={"commandLine": "x"},
        containerSettings={"imageSourceRegistry": source, "shmSize": "1g"},
        secrets=[{"name": "TOKEN", "value": "hush"}],
    )
    made = plan(given, plan_nodes(1), site(1))
    assert made.containers.image == Image("tf:1", "me.azurecr.io", "u", "1g")
    assert (made.containers.engine, made.secrets) == ((), ("TOKEN",))
    assert "hush" not in made.to_json()


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
