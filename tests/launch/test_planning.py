"""What each toolkit starts, where, and with which variables; no process is started here."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from batchai_magics.launch.batch_variables import batch_variables
from batchai_magics.launch.nodes import JobSite, NodeShare
from batchai_magics.launch.own_logs import is_own
from batchai_magics.launch.plan import Directory, Image, Launcher, LogFile, Need, Output, Plan, Role
from batchai_magics.launch.planning import expand, plan, preparation
from batchai_magics.launch.threads import THREADS, words
from batchai_magics.launch.toolkits import block_placement, port_count, process_count
from batchai_magics.models.job import JobSpec

SCRIPT = {"pythonScriptFilePath": "$AZ_BATCHAI_INPUT_SCRIPT/my train.py", "commandLineArgs": "--lr 0.1"}

SCRIPT_ALONE = {"pythonScriptFilePath": "t.py"}


def spec(nodes: int = 2, **fields: object) -> JobSpec:
    properties = {
        "cluster": {"id": "c"},
        "nodeCount": nodes,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/x",
    }
    return JobSpec.from_wire({"properties": {**properties, **fields}})


def shares(count: int = 2, gpus: int = 0) -> list[NodeShare]:
    return [
        NodeShare(f"n{i}", gpus, "/mnt", "/jobmnt", f"/tmp/n{i}", address="127.0.0.1") for i in range(count)
    ]


def site() -> JobSite:
    return JobSite(
        "/out/stdouterr",
        "/shared",
        "/hosts",
        "sub/job",
        "/py",
        "/wrap.py",
        ports=(5001, 5002, 5003, 5004),
        exits="/exits",
        preparation_exits="/prep-exits",
        records=Output(*(LogFile("", f"/rec/{name}.spans", f"/rec/{name}.times") for name in ("out", "err"))),
    )


def test_horovod_runs_its_script_under_mpi_so_that_an_error_ends_the_rank() -> None:
    made = plan(spec(horovodSettings={**SCRIPT, "processCount": 4}), shares(), site())
    assert made.launcher is Launcher.MPI
    assert [p.node for p in made.processes] == [0, 0, 1, 1]
    expected = 'exec "/py" "/wrap.py" "$AZ_BATCHAI_INPUT_SCRIPT/my train.py" --lr 0.1'
    assert {p.command for p in made.processes} == {expected}


def test_an_interpreter_of_the_job_is_used() -> None:
    settings = {**SCRIPT, "pythonInterpreterPath": "/conda/bin/python"}
    made = plan(spec(1, chainerSettings=settings), shares(1), site())
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
    assert len(plan(spec(**fields), shares(2, gpus), site()).processes) == expected


def test_ranks_fill_a_node_before_the_next() -> None:
    assert block_placement(5, 2) == [0, 0, 0, 1, 1]


def test_a_custom_job_is_one_command_on_the_first_node() -> None:
    made = plan(spec(customToolkitSettings={"commandLine": "mpirun -n 2 hostname"}), shares(), site())
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
    made = plan(spec(1, cntkSettings=settings), shares(1), site())
    assert (made.launcher, made.processes[0].command) == (Launcher.DIRECT, command)


def test_distributed_cntk_trains_in_parallel() -> None:
    settings = {"languageType": "BrainScript", "configFilePath": "a.cntk", "commandLineArgs": "x=1"}
    made = plan(spec(cntkSettings=settings), shares(), site())
    assert made.launcher is Launcher.MPI
    assert made.processes[0].command == 'cntk configFile="a.cntk" parallelTrain=true x=1'


def test_caffe_takes_a_solver_or_a_script() -> None:
    made = plan(spec(1, caffeSettings={"configFilePath": "s.prototxt"}), shares(1), site())
    assert made.processes[0].command == 'caffe train --solver="s.prototxt"'
    made = plan(spec(2, caffeSettings={**SCRIPT, "processCount": 2}), shares(), site())
    assert (made.launcher, made.processes[0].command.split()[1]) == (Launcher.MPI, '"/py"')


def test_pytorch_ranks_meet_at_one_address() -> None:
    settings = {**SCRIPT, "processCount": 4, "communicationBackend": "gloo"}
    made = plan(spec(pyTorchSettings=settings), shares(), site())
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
    assert plan(spec(pyTorchSettings=settings), shares(), site()).launcher is Launcher.MPI


def test_tensorflow_on_one_node_is_a_master_alone() -> None:
    settings = {"pythonScriptFilePath": "t.py", "masterCommandLineArgs": "--steps 5"}
    made = plan(spec(1, tensorFlowSettings=settings), shares(1), site())
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
    made = plan(spec(tensorFlowSettings=settings), shares(), site())
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
    made = plan(spec(caffe2Settings=SCRIPT), shares(), site())
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
        site(),
    )
    env = made.nodes[0].env
    assert env["AZ_BATCHAI_INPUT_DATA"] == "/mnt/afs/data"
    assert env["AZ_BATCHAI_OUTPUT_MODEL"] == "/mnt/afs/sub/job/outputs/m"
    assert env["D"] == "/mnt/afs/data/x"


def test_a_longer_name_is_not_mistaken_for_a_shorter_one() -> None:
    assert expand("$A $AB ${A}B $C", {"A": "1", "AB": "2"}) == "1 2 1B $C"


def test_a_path_with_quotes_stays_one_word() -> None:
    made = plan(spec(1, horovodSettings={"pythonScriptFilePath": 'a "b`c.py'}), shares(1), site())
    assert made.processes[0].command.endswith('"a \\"b\\`c.py"')


def test_a_node_tells_each_process_of_its_folders_and_its_gpus() -> None:
    node = NodeShare("n0", 2, "/mnt", "/jobmnt", "/tmp/n0", devices=(3, 5))
    made = plan(spec(1, customToolkitSettings={"commandLine": "x"}), [node], site())
    assert made.nodes[0].env == {
        "AZ_BATCHAI_MOUNT_ROOT": "/mnt",
        "AZ_BATCHAI_JOB_MOUNT_ROOT": "/jobmnt",
        "AZ_BATCHAI_STDOUTERR_DIR": "/out/stdouterr",
        "AZ_BATCHAI_JOB_TEMP": "/tmp/n0",
        "AZ_BATCHAI_JOB_TEMP_DIR": "/tmp/n0",
        "AZ_BATCHAI_SHARED_JOB_TEMP": "/shared",
        "AZ_BATCHAI_MPI_HOST_FILE": "/hosts",
        "AZ_BATCHAI_NUM_GPUS": "2",
        "CUDA_VISIBLE_DEVICES": "3,5",
        **dict.fromkeys(THREADS, "1"),
        **batch_variables(node, [node], site()),
    }


def test_a_node_tells_of_the_jobs_nodes_as_azure_batch_did() -> None:
    nodes = [NodeShare(f"n{i}", 2, "/mnt", "/jobmnt", f"/tmp/n{i}", address=f"10.0.0.{i}") for i in (4, 5)]
    variable = [{"name": "HOSTS", "value": "$AZ_BATCH_HOST_LIST"}]
    made = plan(spec(2, caffe2Settings=SCRIPT, environmentVariables=variable), nodes, site())
    second = made.nodes[1].env
    assert second["HOSTS"] == second["AZ_BATCH_HOST_LIST"] == "10.0.0.4,10.0.0.5"
    assert second["AZ_BATCH_NODE_LIST"] == "10.0.0.4;10.0.0.5"
    assert second["CCP_NODES"] == "2 10.0.0.4 1 10.0.0.5 1"
    assert second["AZ_BATCH_MASTER_NODE"] == "10.0.0.4:6000"
    assert second["AZ_BATCHAI_JOB_MASTER_NODE_IP"] == "10.0.0.4"
    assert [node.env["AZ_BATCH_IS_CURRENT_NODE_MASTER"] for node in made.nodes] == ["true", "false"]
    assert second["AZ_BATCH_TASK_WORKING_DIR"] == "/tmp/n5"
    assert second["AZ_BATCHAI_NUM_GPUS_PER_NODE"] == "2"


@pytest.mark.parametrize(("asked", "told"), [("Gloo", "gloo"), (None, "gloo"), ("tcp", "tcp")])
def test_pytorch_is_told_its_backend(asked: str | None, told: str) -> None:
    settings = {**SCRIPT, "communicationBackend": asked}
    made = plan(spec(pyTorchSettings=settings), shares(), site())
    assert made.processes[1].env["AZ_BATCHAI_PYTORCH_BACKEND"] == told


def test_a_relative_directory_is_below_the_folder_that_the_processes_start_in() -> None:
    made = plan(
        spec(
            1,
            customToolkitSettings={"commandLine": "x"},
            inputDirectories=[{"id": "IN", "path": "data"}],
            outputDirectories=[{"id": "OUT", "pathPrefix": "models"}],
        ),
        shares(1),
        site(),
    )
    env = made.nodes[0].env
    assert env["AZ_BATCHAI_INPUT_IN"] == "/tmp/n0/data"
    assert env["AZ_BATCHAI_OUTPUT_OUT"] == "/tmp/n0/models/sub/job/outputs"


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
def test_ports_are_asked_for_where_processes_meet_over_them(settings, count) -> None:
    assert port_count(spec(2, **settings)) == count


def test_a_tensorflow_cluster_names_each_task_its_own_address() -> None:
    settings = {"pythonScriptFilePath": "t.py", "workerCount": 2, "parameterServerCount": 2}
    made = plan(spec(tensorFlowSettings=settings), shares(), site())
    found = [json.loads(process.env["TF_CONFIG"]) for process in made.processes]
    assert all(
        config["cluster"]
        == {
            "master": ["127.0.0.1:5001"],
            "worker": ["127.0.0.1:5002"],
            "ps": ["127.0.0.1:5003", "127.0.0.1:5004"],
        }
        for config in found
    )
    assert [(config["task"]["type"], config["task"]["index"]) for config in found] == [
        ("master", 0),
        ("worker", 0),
        ("ps", 0),
        ("ps", 1),
    ]


def test_a_tensorflow_job_on_one_node_is_distributed_when_it_asks_for_servers() -> None:
    settings = {"pythonScriptFilePath": "t.py", "parameterServerCount": 1}
    made = plan(spec(1, tensorFlowSettings=settings), shares(1), site())
    assert [process.role for process in made.processes] == [Role.MASTER, Role.PARAMETER_SERVER]


@pytest.mark.parametrize(
    ("create_new", "need"), [(None, Need.NOTHING), (True, Need.MAKE), (False, Need.FIND)]
)
def test_an_input_directory_needs_what_was_asked_for(create_new: bool | None, need: Need) -> None:
    directory = {"id": "IN", "path": "/in", **({} if create_new is None else {"createNew": create_new})}
    made = plan(
        spec(1, customToolkitSettings={"commandLine": "x"}, inputDirectories=[directory]),
        shares(1),
        site(),
    )
    assert made.nodes[0].directories == (Directory("AZ_BATCHAI_INPUT_IN", "/in", need),)


@pytest.mark.parametrize(
    ("create_new", "path", "need"),
    [
        (None, "/p/sub/job/outputs/m", Need.MAKE),
        (True, "/p/sub/job/outputs/m", Need.MAKE),
        (False, "/p/m", Need.FIND),
    ],
)
def test_an_output_directory_is_the_jobs_own_unless_it_is_not_to_be_made(create_new, path, need) -> None:
    directory = {"id": "OUT", "pathPrefix": "/p/", "pathSuffix": "m"}
    directory |= {} if create_new is None else {"createNew": create_new}
    made = plan(
        spec(1, customToolkitSettings={"commandLine": "x"}, outputDirectories=[directory]),
        shares(1),
        site(),
    )
    assert made.nodes[0].directories == (Directory("AZ_BATCHAI_OUTPUT_OUT", path, need),)


def test_the_preparation_runs_once_on_every_node_with_logs_of_its_own() -> None:
    given = {"customToolkitSettings": {"commandLine": "x"}}
    assert preparation(spec(1, **given), plan(spec(1, **given), shares(1), site()), site()) is None
    prepared = spec(2, **given, jobPreparation={"commandLine": "prep"})
    made = preparation(prepared, plan(prepared, shares(), site()), site())
    assert made
    assert [(process.node, process.command) for process in made.processes] == [(0, "prep"), (1, "prep")]
    assert made.exits == "/prep-exits"
    assert [made.output_of(process).stdout for process in made.processes] == [
        LogFile(f"/out/stdouterr/stdout-job_prep-n{node}.txt") for node in (0, 1)
    ]


def test_one_node_has_the_recorded_names_of_logs() -> None:
    prepared = spec(1, customToolkitSettings={"commandLine": "x"}, jobPreparation={"commandLine": "prep"})
    made = plan(prepared, shares(1), site())
    assert made.execution_logs == ("/out/stdouterr/execution.log",)
    first = preparation(prepared, made, site())
    assert first
    assert first.output_of(first.processes[0]).stderr.path == "/out/stdouterr/stderr-job_prep.txt"
    assert plan(spec(2, **{"caffe2Settings": SCRIPT}), shares(), site()).execution_logs == (
        "/out/stdouterr/execution-n0.log",
        "/out/stdouterr/execution-n1.log",
    )


def test_only_what_several_ranks_write_has_a_record_of_who_wrote_it() -> None:
    lone = plan(spec(1, customToolkitSettings={"commandLine": "x"}), shares(1), site())
    assert lone.output.stdout == LogFile("/out/stdouterr/stdout.txt", "", "/rec/out.times")
    several = plan(spec(2, caffe2Settings=SCRIPT), shares(), site())
    assert several.output.stderr == LogFile("/out/stdouterr/stderr.txt", "/rec/err.spans", "/rec/err.times")


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
    made = plan(spec(nodes, **fields), shares(nodes), site())
    assert own_logs(made) == names
    assert made.output.stdout.path == "/out/stdouterr/stdout.txt"


def test_the_secrets_in_a_log_of_ones_own_are_noted_as_those_of_the_jobs() -> None:
    asked = spec(2, caffe2Settings=SCRIPT, secrets=[{"name": "TOKEN", "value": "x"}])
    made = plan(asked, shares(), replace(site(), hidden="/hidden"))
    own = made.processes[1].own
    assert own
    assert own.stderr == LogFile("/out/stdouterr/stderr-1.txt", hidden="/hidden/stderr-1.txt")


@pytest.mark.parametrize("name", ["stdout-wk-0.txt", "stderr-ps-11.txt", "stdout-0.txt", "stderr-3.txt"])
def test_the_name_of_a_processs_own_log_is_known(name: str) -> None:
    assert is_own(name)


@pytest.mark.parametrize(
    "name", ["stdout.txt", "stdout-job_prep.txt", "stdout-tvm-1.txt", "stdout-wk-.txt", "xstdout-0.txt"]
)
def test_other_logs_are_nobodys_own(name: str) -> None:
    assert not is_own(name)


def test_processes_meet_at_the_address_of_the_node_that_they_are_on() -> None:
    nodes = [NodeShare(f"n{i}", 0, "/mnt", "/jobmnt", "/tmp", address=f"10.0.0.{i}") for i in (1, 2)]
    torch = plan(spec(pyTorchSettings=SCRIPT), nodes, site())
    assert torch.processes[1].env["MASTER_ADDR"] == "10.0.0.1"
    settings = {"pythonScriptFilePath": "t.py", "workerCount": 2, "parameterServerCount": 2}
    cluster = json.loads(plan(spec(tensorFlowSettings=settings), nodes, site()).processes[0].env["TF_CONFIG"])
    assert cluster["cluster"] == {
        "master": ["10.0.0.1:5001"],
        "worker": ["10.0.0.2:5002"],
        "ps": ["10.0.0.1:5003", "10.0.0.2:5004"],
    }


@pytest.mark.parametrize(
    ("processes", "cores", "given", "expected"),
    [(2, 8, "", "8"), (4, 8, "", "4"), (3, 8, "", "4"), (64, 8, "", "1"), (2, 8, "3", "3")],
)
def test_threads_are_a_processs_share_of_its_node(processes, cores, given, expected) -> None:
    nodes = [replace(share, core_count=cores) for share in shares()]
    settings = {**SCRIPT, "processCount": processes}
    said = {"OMP_NUM_THREADS": given} if given else {}
    made = plan(spec(horovodSettings=settings), nodes, replace(site(), threads=said))
    assert {node.env[name] for node in made.nodes for name in THREADS} == {expected}


def test_a_job_that_says_how_many_threads_it_wants_gets_them() -> None:
    variables = [{"name": "OMP_NUM_THREADS", "value": "7,2"}, {"name": "MKL_NUM_THREADS", "value": "5"}]
    given = spec(1, customToolkitSettings={"commandLine": "x"}, environmentVariables=variables)
    made = plan(given, shares(1), replace(site(), threads={"OMP_NUM_THREADS": "3"}))
    env = made.nodes[0].env
    assert [env[name] for name in THREADS] == ["7,2", "5", "7", "7", "7"]


def test_a_dry_run_says_how_many_threads_a_process_has() -> None:
    assert "its node's cores, shared by 4 processes (OMP_NUM_THREADS" in words({}, 4)
    assert words({"MKL_NUM_THREADS": "2"}, 4) == "threads of a process: MKL_NUM_THREADS=2, as the job says"


def test_a_distributed_script_is_wrapped_and_a_lone_one_is_not() -> None:
    for toolkit, extra in (("cntkSettings", {"languageType": "Python"}), ("caffeSettings", {})):
        for count, wrapped in ((1, False), (2, True)):
            settings = {**SCRIPT, **extra, "processCount": count}
            made = plan(spec(1, **{toolkit: settings}), shares(1), site())
            assert ('"/wrap.py"' in made.processes[0].command) is wrapped
            assert (made.launcher is Launcher.MPI) is wrapped


def test_a_backslash_in_a_path_stays_one() -> None:
    made = plan(spec(1, horovodSettings={"pythonScriptFilePath": 'a\\b"c.py'}), shares(1), site())
    assert made.processes[0].command.endswith(r'"a\\b\"c.py"')


def test_a_custom_job_without_a_command_does_nothing() -> None:
    made = plan(spec(1, customToolkitSettings={}), shares(1), site())
    assert made.processes[0].command == "true"


def test_a_master_alone_names_no_empty_group() -> None:
    made = plan(spec(1, tensorFlowSettings={"pythonScriptFilePath": "t.py"}), shares(1), site())
    assert json.loads(made.processes[0].env["TF_CONFIG"])["cluster"] == {"master": ["127.0.0.1:5001"]}


def test_a_worker_count_on_one_node_asks_for_a_parameter_server() -> None:
    settings = {"pythonScriptFilePath": "t.py", "workerCount": 1}
    made = plan(spec(1, tensorFlowSettings=settings), shares(1), site())
    assert [process.role for process in made.processes] == [Role.MASTER, Role.PARAMETER_SERVER]


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
    made = plan(given, shares(1), site())
    assert made.containers.image == Image("tf:1", "me.azurecr.io", "u", "1g")
    assert (made.containers.engine, made.secrets) == ((), ("TOKEN",))
    assert "hush" not in made.to_json()
