"""What each toolkit starts, where, with which variables, threads and logs; no process is started here."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from batchai_magics.launch.plan import LaunchMode, LogPaths, Mount, Plan, Role
from batchai_magics.launch.planning import THREADS, plan, with_preparation
from batchai_magics.launch.toolkits import port_count, process_count
from batchai_magics.models.job_execution import is_process_log
from tests.launch.descriptions import SCRIPT, SCRIPT_ALONE, plan_nodes, plan_of, site, spec

OF_MPI = LaunchMode.MPI
ALONE = LaunchMode.DIRECT
TRAIN = '"$AZ_BATCHAI_INPUT_SCRIPT/my train.py" --lr 0.1'
WRAPPED = f'exec "/py" "/wrap.py" {TRAIN}'  # so that an error in one rank ends the others
CONDA = {"pythonInterpreterPath": "/conda/python"}
BRAIN = {"languageType": "BrainScript", "configFilePath": "a.cntk"}
CNTK = {"languageType": "Python", **SCRIPT}
SOLVER = {"configFilePath": "s.prototxt"}


@pytest.mark.parametrize(
    ("nodes", "fields", "launcher", "command"),
    [
        (2, {"horovodSettings": {**SCRIPT, "processCount": 4}}, OF_MPI, WRAPPED),
        (1, {"chainerSettings": {**SCRIPT, **CONDA}}, OF_MPI, f'exec "/conda/python" "/wrap.py" {TRAIN}'),
        (2, {"pyTorchSettings": {**SCRIPT, "communicationBackend": "MPI"}}, OF_MPI, WRAPPED),
        (1, {"cntkSettings": BRAIN}, ALONE, 'cntk configFile="a.cntk"'),
        (
            2,
            {"cntkSettings": {**BRAIN, "commandLineArgs": "x=1"}},
            OF_MPI,
            'cntk configFile="a.cntk" parallelTrain=true x=1',
        ),
        (1, {"cntkSettings": CNTK}, ALONE, f'exec "/py" {TRAIN}'),
        (1, {"cntkSettings": {**CNTK, "processCount": 2}}, OF_MPI, WRAPPED),
        (1, {"caffeSettings": SOLVER}, ALONE, 'caffe train --solver="s.prototxt"'),
        (1, {"caffeSettings": {**SCRIPT, "processCount": 1}}, ALONE, f'exec "/py" {TRAIN}'),
        (1, {"caffeSettings": {**SCRIPT, "processCount": 2}}, OF_MPI, WRAPPED),
        (2, {"caffeSettings": {**SCRIPT, "processCount": 2}}, OF_MPI, WRAPPED),
        (2, {"customToolkitSettings": {"commandLine": "mpirun -n 2 x"}}, ALONE, "mpirun -n 2 x"),
        (1, {"customToolkitSettings": {}}, ALONE, "true"),
    ],
)
def test_a_toolkit_starts_its_command_alone_or_as_ranks_of_mpi(nodes, fields, launcher, command) -> None:
    made = plan_of(nodes, **fields)
    assert made.launcher is launcher
    assert {process.command for process in made.processes} == {command}


def test_ranks_fill_one_node_after_the_other_and_a_custom_command_is_on_the_first() -> None:
    ranks = plan_of(horovodSettings={**SCRIPT, "processCount": 4}).processes
    assert [process.node for process in ranks] == [0, 0, 1, 1]
    custom = plan_of(customToolkitSettings={"commandLine": "true"}).processes
    assert [process.node for process in custom] == [0]


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
    assert len(plan(spec(**fields), plan_nodes(2), site(2, gpus)).processes) == expected


def test_pytorch_ranks_meet_at_one_address() -> None:
    settings = {**SCRIPT, "processCount": 4, "communicationBackend": "gloo"}
    made = plan_of(pyTorchSettings=settings)
    assert made.launcher is LaunchMode.DIRECT
    assert {p.env["AZ_BATCHAI_PYTORCH_INIT_METHOD"] for p in made.processes} == {"tcp://127.0.0.1:5001"}
    assert [(p.env["RANK"], p.env["LOCAL_RANK"], p.env["WORLD_SIZE"]) for p in made.processes] == [
        ("0", "0", "4"),
        ("1", "1", "4"),
        ("2", "0", "4"),
        ("3", "1", "4"),
    ]


def test_pytorch_processes_find_all_that_torchrun_sets() -> None:
    settings = {**SCRIPT, "processCount": 3}
    made = plan(spec(pyTorchSettings=settings), plan_nodes(), replace(site(), guid="g"))
    env = [process.env for process in made.processes]
    assert [each["LOCAL_WORLD_SIZE"] for each in env] == ["2", "2", "1"]
    assert [each["GROUP_RANK"] for each in env] == ["0", "0", "1"]
    assert [each["ROLE_RANK"] for each in env] == ["0", "1", "2"]
    told = ("GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_RUN_ID")
    assert [env[0][name] for name in told] == ["2", "3", "default", "g"]
    assert len({each["TORCHELASTIC_ERROR_FILE"] for each in env}) == 3


def test_tensorflow_on_one_node_is_a_master_alone() -> None:
    settings = {"pythonScriptFilePath": "t.py", "masterCommandLineArgs": "--steps 5"}
    made = plan_of(1, tensorFlowSettings=settings)
    assert [(p.role, p.command) for p in made.processes] == [(Role.MASTER, 'exec "/py" "t.py" --steps 5')]
    config = json.loads(made.processes[0].env["TF_CONFIG"])
    assert (config["task"], config["cluster"]) == (
        {"type": "master", "index": 0},
        {"master": ["127.0.0.1:5001"]},
    )


def test_distributed_tensorflow_has_master_workers_and_servers() -> None:
    settings = {
        "pythonScriptFilePath": "t.py",
        "masterCommandLineArgs": "m",
        "workerCommandLineArgs": "w",
        "parameterServerCommandLineArgs": "p",
        "workerCount": 3,
    }
    made = plan_of(tensorFlowSettings=settings)
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
    made = plan_of(caffe2Settings=SCRIPT)
    assert [(p.node, p.env["AZ_BATCHAI_TASK_INDEX"]) for p in made.processes] == [(0, "0"), (1, "1")]


@pytest.mark.parametrize(("asked", "told"), [("Gloo", "gloo"), (None, "gloo"), ("tcp", "tcp")])
def test_pytorch_gets_its_backend(asked: str | None, told: str) -> None:
    settings = {**SCRIPT, "communicationBackend": asked}
    made = plan_of(pyTorchSettings=settings)
    assert made.processes[1].env["AZ_BATCHAI_PYTORCH_BACKEND"] == told


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"tensorFlowSettings": {"pythonScriptFilePath": "t"}}, 3),
        (
            {
                "tensorFlowSettings": {
                    "pythonScriptFilePath": "t",
                    "workerCount": 4,
                    "parameterServerCount": 2,
                }
            },
            6,
        ),
        ({"pyTorchSettings": SCRIPT}, 1),
        ({"horovodSettings": SCRIPT}, 0),
    ],
)
def test_plan_needs_ports_only_for_toolkits_that_use_them(settings, count) -> None:
    assert port_count(spec(2, **settings)) == count


@pytest.mark.parametrize("count", ["parameterServerCount", "workerCount"])
def test_a_tensorflow_job_on_one_node_is_distributed_when_it_asks_for_a_count(count: str) -> None:
    settings = {"pythonScriptFilePath": "t.py", count: 1}
    made = plan_of(1, tensorFlowSettings=settings)
    assert [process.role for process in made.processes] == [Role.MASTER, Role.PARAMETER_SERVER]


def test_processes_meet_at_the_address_of_the_node_that_they_are_on() -> None:
    where = replace(site(), addresses=("10.0.0.1", "10.0.0.2"))
    torch = plan(spec(pyTorchSettings=SCRIPT), plan_nodes(), where)
    assert torch.processes[1].env["MASTER_ADDR"] == "10.0.0.1"
    settings = {"pythonScriptFilePath": "t.py", "workerCount": 2, "parameterServerCount": 2}
    made = plan(spec(tensorFlowSettings=settings), plan_nodes(), where)
    configs = [json.loads(process.env["TF_CONFIG"]) for process in made.processes]
    cluster = {
        "master": ["10.0.0.1:5001"],
        "worker": ["10.0.0.2:5002"],
        "ps": ["10.0.0.1:5003", "10.0.0.2:5004"],
    }
    assert [config["cluster"] for config in configs] == [cluster] * 4
    tasks = [(config["task"]["type"], config["task"]["index"]) for config in configs]
    assert tasks == [("master", 0), ("worker", 0), ("ps", 0), ("ps", 1)]


def test_plan_has_mount_commands_and_time_limit_of_the_job() -> None:
    volumes = {"unmanagedFileSystems": [{"mountCommand": "m", "relativeMountPath": "p"}]}
    asked = spec(
        customToolkitSettings={"commandLine": "x"},
        mountVolumes=volumes,
        constraints={"maxWallClockTime": "PT5M"},
    )
    made = plan(asked, plan_nodes(), site())
    assert made.mounts == (Mount("m", "p"),)
    assert (made.limits.wall, made.limits.wall_s) == ("PT5M", 300.0)
    bare = plan_of(customToolkitSettings={"commandLine": "x"})
    assert (bare.containers.image, bare.mounts, bare.limits.wall) == (None, (), "P7D")


@pytest.mark.parametrize(
    ("processes", "cores", "expected"),
    [(2, 8, "8"), (4, 8, "4"), (3, 8, "4"), (64, 8, "1")],
)
def test_thread_count_is_the_processs_share_of_its_node(processes, cores, expected) -> None:
    settings = {**SCRIPT, "processCount": processes}
    made = plan(spec(horovodSettings=settings), plan_nodes(), replace(site(), core_count=cores))
    assert {node.env[name] for node in made.nodes for name in THREADS} == {expected}


def test_a_job_that_says_how_many_threads_it_wants_gets_them() -> None:
    variables = [{"name": "OMP_NUM_THREADS", "value": "7,2"}, {"name": "MKL_NUM_THREADS", "value": "5"}]
    given = spec(1, customToolkitSettings={"commandLine": "x"}, environmentVariables=variables)
    made = plan(given, plan_nodes(1), site(1))
    env = made.nodes[0].env
    assert [env[name] for name in THREADS] == ["7,2", "5", "7", "7", "7"]


def test_variables_and_secrets_of_the_job_override_its_processes() -> None:
    variables = [{"name": "ROLE_NAME", "value": "mine"}]
    given = spec(pyTorchSettings=SCRIPT, environmentVariables=variables, secrets=[{"name": "MASTER_PORT"}])
    made = plan(given, plan_nodes(), site())
    assert {node.env["ROLE_NAME"] for node in made.nodes} == {"mine"}
    assert not [process for process in made.processes if {"ROLE_NAME", "MASTER_PORT"} & process.env.keys()]
    assert not [node for node in made.nodes if "MASTER_PORT" in node.env]
    assert made.secrets == ("MASTER_PORT",)


def test_the_preparation_runs_once_on_every_node_with_logs_of_its_own() -> None:
    given = {"customToolkitSettings": {"commandLine": "x"}}
    without = plan_of(2, **given)
    assert without.preparation is None
    made = with_preparation("prep", without, site()).preparation
    assert made
    assert [(process.node, process.command) for process in made.processes] == [(0, "prep"), (1, "prep")]
    assert made.exits == "/prep-exits"
    assert [made.output_of(process).stdout for process in made.processes] == [
        LogPaths(f"/out/stdouterr/stdout-job_prep-n{node}.txt") for node in (0, 1)
    ]


def test_one_node_has_the_recorded_names_of_logs() -> None:
    made = plan(spec(1, customToolkitSettings={"commandLine": "x"}), plan_nodes(1), site(1))
    assert made.execution_logs == ("/out/stdouterr/execution.log",)
    first = with_preparation("prep", made, site()).preparation
    assert first
    assert first.output_of(first.processes[0]).stderr.path == "/out/stdouterr/stderr-job_prep.txt"
    assert plan_of(2, **{"caffe2Settings": SCRIPT}).execution_logs == (
        "/out/stdouterr/execution-n0.log",
        "/out/stdouterr/execution-n1.log",
    )


def test_only_logs_of_several_ranks_have_a_record_of_writers() -> None:
    lone = plan_of(1, customToolkitSettings={"commandLine": "x"})
    assert lone.output.stdout == LogPaths("/out/stdouterr/stdout.txt", "", "/rec/out.times")
    several = plan_of(2, caffe2Settings=SCRIPT)
    assert several.output.stderr == LogPaths("/out/stdouterr/stderr.txt", "/rec/err.spans", "/rec/err.times")


def own_logs(made: Plan) -> list[str]:
    return [process.own.stdout.path.rpartition("/")[2] if process.own else "" for process in made.processes]


@pytest.mark.parametrize(
    ("nodes", "fields", "names"),
    [
        (1, {"tensorFlowSettings": SCRIPT_ALONE}, ["stdout-wk-0.txt"]),
        (
            2,
            {"tensorFlowSettings": {**SCRIPT_ALONE, "workerCount": 2, "parameterServerCount": 2}},
            ["stdout-wk-0.txt", "stdout-wk-1.txt", "stdout-ps-0.txt", "stdout-ps-1.txt"],
        ),
        (2, {"pyTorchSettings": SCRIPT}, ["stdout-0.txt", "stdout-1.txt"]),
        (2, {"caffe2Settings": SCRIPT}, ["stdout-0.txt", "stdout-1.txt"]),
        (2, {"pyTorchSettings": {**SCRIPT, "communicationBackend": "mpi"}}, ["", ""]),
        (2, {"horovodSettings": SCRIPT}, ["", ""]),
        (1, {"customToolkitSettings": {"commandLine": "x"}}, [""]),
    ],
)
def test_processes_of_their_own_have_logs_as_the_service_called_them(nodes, fields, names) -> None:
    made = plan_of(nodes, **fields)
    assert own_logs(made) == names
    assert made.output.stdout.path == "/out/stdouterr/stdout.txt"


def test_hidden_spans_of_a_process_log_are_recorded_like_the_jobs() -> None:
    asked = spec(2, caffe2Settings=SCRIPT, secrets=[{"name": "TOKEN", "value": "x"}])
    made = plan(asked, plan_nodes(), replace(site(), hidden="/hidden"))
    own = made.processes[1].own
    assert own
    assert own.stderr == LogPaths("/out/stdouterr/stderr-1.txt", hidden="/hidden/stderr-1.txt")


@pytest.mark.parametrize("name", ["stdout-wk-0.txt", "stderr-ps-11.txt", "stdout-0.txt", "stderr-3.txt"])
def test_the_name_of_a_processs_own_log_is_known(name: str) -> None:
    assert is_process_log(name)


@pytest.mark.parametrize(
    "name", ["stdout.txt", "stdout-job_prep.txt", "stdout-tvm-1.txt", "stdout-wk-.txt", "xstdout-0.txt"]
)
def test_other_logs_are_not_process_logs(name: str) -> None:
    assert not is_process_log(name)
