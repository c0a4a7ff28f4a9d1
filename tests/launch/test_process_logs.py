"""Which logs a job has, and which of them are those of single processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.launch.plan import LogPaths, Plan
from batchai_magics.launch.planning import plan, with_preparation
from batchai_magics.models.job_execution import is_process_log
from tests.launch.descriptions import SCRIPT, SCRIPT_ALONE, plan_nodes, site, spec


def test_the_preparation_runs_once_on_every_node_with_logs_of_its_own() -> None:
    given = {"customToolkitSettings": {"commandLine": "x"}}
    without = plan(spec(1, **given), plan_nodes(1), site(1))
    assert with_preparation(spec(1, **given), without, site()) == without
    prepared = spec(2, **given, jobPreparation={"commandLine": "prep"})
    made = with_preparation(prepared, plan(prepared, plan_nodes(), site()), site()).preparation
    assert made
    assert [(process.node, process.command) for process in made.processes] == [(0, "prep"), (1, "prep")]
    assert made.exits == "/prep-exits"
    assert [made.output_of(process).stdout for process in made.processes] == [
        LogPaths(f"/out/stdouterr/stdout-job_prep-n{node}.txt") for node in (0, 1)
    ]


def test_one_node_has_the_recorded_names_of_logs() -> None:
    prepared = spec(1, customToolkitSettings={"commandLine": "x"}, jobPreparation={"commandLine": "prep"})
    made = plan(prepared, plan_nodes(1), site(1))
    assert made.execution_logs == ("/out/stdouterr/execution.log",)
    first = with_preparation(prepared, made, site()).preparation
    assert first
    assert first.output_of(first.processes[0]).stderr.path == "/out/stdouterr/stderr-job_prep.txt"
    assert plan(spec(2, **{"caffe2Settings": SCRIPT}), plan_nodes(), site()).execution_logs == (
        "/out/stdouterr/execution-n0.log",
        "/out/stdouterr/execution-n1.log",
    )


def test_only_what_several_ranks_write_has_a_record_of_who_wrote_it() -> None:
    lone = plan(spec(1, customToolkitSettings={"commandLine": "x"}), plan_nodes(1), site(1))
    assert lone.output.stdout == LogPaths("/out/stdouterr/stdout.txt", "", "/rec/out.times")
    several = plan(spec(2, caffe2Settings=SCRIPT), plan_nodes(), site())
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
    made = plan(spec(nodes, **fields), plan_nodes(nodes), site(nodes))
    assert own_logs(made) == names
    assert made.output.stdout.path == "/out/stdouterr/stdout.txt"


def test_the_secrets_in_a_log_of_ones_own_are_noted_as_those_of_the_jobs() -> None:
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
def test_other_logs_are_nobodys_own(name: str) -> None:
    assert not is_process_log(name)
