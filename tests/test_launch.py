"""What each toolkit starts, where, and with which variables; no process is started here."""

from __future__ import annotations

import json

import pytest

from batchai_magics.launch import (
    JobPlace,
    Launcher,
    NodeShare,
    Role,
    block_placement,
    expand,
    plan,
    process_count,
)
from batchai_magics.models.job import JobSpec

SCRIPT = {"pythonScriptFilePath": "$AZ_BATCHAI_INPUT_SCRIPT/my train.py", "commandLineArgs": "--lr 0.1"}


def spec(nodes: int = 2, **fields: object) -> JobSpec:
    properties = {
        "cluster": {"id": "c"},
        "nodeCount": nodes,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/x",
    }
    return JobSpec.from_wire({"properties": {**properties, **fields}})


def shares(count: int = 2, gpus: int = 0) -> list[NodeShare]:
    return [NodeShare(f"n{i}", gpus, "/mnt", "/jobmnt", f"/tmp/n{i}") for i in range(count)]


def place() -> JobPlace:
    return JobPlace(
        "/out/stdouterr", "/shared", "/hosts", "sub/job", "/py", "/wrap.py", ports=(5001, 5002, 5003, 5004)
    )


def test_horovod_runs_its_script_under_mpi_so_that_an_error_ends_the_rank() -> None:
    made = plan(spec(horovodSettings={**SCRIPT, "processCount": 4}), shares(), place())
    assert made.launcher is Launcher.MPI
    assert [p.node for p in made.processes] == [0, 0, 1, 1]
    expected = 'exec "/py" "/wrap.py" "$AZ_BATCHAI_INPUT_SCRIPT/my train.py" --lr 0.1'
    assert {p.command for p in made.processes} == {expected}


def test_an_interpreter_of_the_job_is_used() -> None:
    settings = {**SCRIPT, "pythonInterpreterPath": "/conda/bin/python"}
    made = plan(spec(1, chainerSettings=settings), shares(1), place())
    assert made.processes[0].command.startswith('exec "/conda/bin/python" "/wrap.py"')


@pytest.mark.parametrize(
    ("fields", "gpus", "expected"),
    [
        ({"horovodSettings": SCRIPT}, 4, 8),  # one process a GPU
        ({"horovodSettings": SCRIPT}, 0, 2),  # one a node without GPUs
        ({"horovodSettings": {**SCRIPT, "processCount": 3}}, 4, 3),
        ({"customMpiSettings": {"commandLine": "x"}}, 2, 4),
        ({"customToolkitSettings": {"commandLine": "x"}}, 4, 1),
        ({"caffe2Settings": SCRIPT}, 4, 2),
    ],
)
def test_the_number_of_processes_follows_job_and_gpus(fields, gpus, expected) -> None:
    assert process_count(spec(**fields), gpus) == expected
    assert len(plan(spec(**fields), shares(2, gpus), place()).processes) == expected


def test_ranks_fill_a_node_before_the_next() -> None:
    assert block_placement(5, 2) == [0, 0, 0, 1, 1]


def test_a_custom_job_is_one_command_on_the_first_node() -> None:
    made = plan(spec(customToolkitSettings={"commandLine": "mpirun -n 2 hostname"}), shares(), place())
    assert made.launcher is Launcher.DIRECT
    assert [(p.node, p.command) for p in made.processes] == [(0, "mpirun -n 2 hostname")]


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ({"languageType": "BrainScript", "configFilePath": "a.cntk"}, 'cntk configFile="a.cntk"'),
        ({"languageType": "Python", **SCRIPT}, 'exec "/py" "$AZ_BATCHAI_INPUT_SCRIPT/my train.py" --lr 0.1'),
    ],
)
def test_cntk_on_one_process_runs_without_mpi(settings, command) -> None:
    made = plan(spec(1, cntkSettings=settings), shares(1), place())
    assert (made.launcher, made.processes[0].command) == (Launcher.DIRECT, command)


def test_distributed_cntk_trains_in_parallel() -> None:
    settings = {"languageType": "BrainScript", "configFilePath": "a.cntk", "commandLineArgs": "x=1"}
    made = plan(spec(cntkSettings=settings), shares(), place())
    assert made.launcher is Launcher.MPI
    assert made.processes[0].command == 'cntk configFile="a.cntk" parallelTrain=true x=1'


def test_caffe_takes_a_solver_or_a_script() -> None:
    made = plan(spec(1, caffeSettings={"configFilePath": "s.prototxt"}), shares(1), place())
    assert made.processes[0].command == 'caffe train --solver="s.prototxt"'
    made = plan(spec(2, caffeSettings={**SCRIPT, "processCount": 2}), shares(), place())
    assert (made.launcher, made.processes[0].command.split()[1]) == (Launcher.MPI, '"/py"')


def test_pytorch_ranks_meet_at_one_address() -> None:
    settings = {**SCRIPT, "processCount": 4, "communicationBackend": "gloo"}
    made = plan(spec(pyTorchSettings=settings), shares(), place())
    assert made.launcher is Launcher.DIRECT
    assert {p.env["AZ_BATCHAI_PYTORCH_INIT_METHOD"] for p in made.processes} == {"tcp://127.0.0.1:5001"}
    assert [(p.env["RANK"], p.env["LOCAL_RANK"], p.env["WORLD_SIZE"]) for p in made.processes] == [
        ("0", "0", "4"),
        ("1", "1", "4"),
        ("2", "0", "4"),
        ("3", "1", "4"),
    ]


def test_pytorch_over_mpi_runs_under_mpi() -> None:
    settings = {**SCRIPT, "communicationBackend": "MPI"}
    assert plan(spec(pyTorchSettings=settings), shares(), place()).launcher is Launcher.MPI


def test_tensorflow_on_one_node_is_a_master_alone() -> None:
    settings = {"pythonScriptFilePath": "t.py", "masterCommandLineArgs": "--steps 5"}
    made = plan(spec(1, tensorFlowSettings=settings), shares(1), place())
    assert [(p.role, p.command) for p in made.processes] == [(Role.MASTER, 'exec "/py" "t.py" --steps 5')]
    assert json.loads(made.processes[0].env["TF_CONFIG"])["task"] == {"type": "master", "index": 0}


def test_distributed_tensorflow_has_master_workers_and_servers() -> None:
    settings = {
        "pythonScriptFilePath": "t.py",
        "masterCommandLineArgs": "m",
        "workerCommandLineArgs": "w",
        "parameterServerCommandLineArgs": "p",
        "workerCount": 3,
    }
    made = plan(spec(tensorFlowSettings=settings), shares(), place())
    assert [
        (p.role.value, p.node, p.command[-1], p.env["AZ_BATCHAI_TASK_INDEX"]) for p in made.processes
    ] == [
        ("master", 0, "m", "0"),
        ("worker", 1, "w", "1"),
        ("worker", 0, "w", "2"),
        ("ps", 0, "p", "0"),
    ]
    worker = made.processes[2].env
    assert worker["AZ_BATCHAI_WORKER_HOSTS"] == "127.0.0.1:5001,127.0.0.1:5002,127.0.0.1:5003"
    assert worker["AZ_BATCHAI_PS_HOSTS"] == "127.0.0.1:5004"
    assert json.loads(worker["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}


def test_caffe2_runs_once_on_every_node_with_its_index() -> None:
    made = plan(spec(caffe2Settings=SCRIPT), shares(), place())
    assert [(p.node, p.env["AZ_BATCHAI_TASK_INDEX"]) for p in made.processes] == [(0, "0"), (1, "1")]


def test_directories_and_variables_may_use_earlier_ones() -> None:
    made = plan(
        spec(
            1,
            customToolkitSettings={"commandLine": "x"},
            inputDirectories=[{"id": "DATA", "path": "$AZ_BATCHAI_MOUNT_ROOT/afs/data"}],
            outputDirectories=[
                {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/afs/", "pathSuffix": "m"}
            ],
            environmentVariables=[{"name": "D", "value": "${AZ_BATCHAI_INPUT_DATA}/x"}],
        ),
        shares(1),
        place(),
    )
    env = made.node_env[0]
    assert env["AZ_BATCHAI_INPUT_DATA"] == "/mnt/afs/data"
    assert env["AZ_BATCHAI_OUTPUT_MODEL"] == "/mnt/afs/sub/job/outputs/m"
    assert env["D"] == "/mnt/afs/data/x"


def test_a_longer_name_is_not_mistaken_for_a_shorter_one() -> None:
    assert expand("$A $AB ${A}B $C", {"A": "1", "AB": "2"}) == "1 2 1B $C"


def test_a_path_with_quotes_stays_one_word() -> None:
    made = plan(spec(1, horovodSettings={"pythonScriptFilePath": 'a "b`c.py'}), shares(1), place())
    assert made.processes[0].command.endswith('"a \\"b\\`c.py"')
