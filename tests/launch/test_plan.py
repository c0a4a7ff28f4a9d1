"""Plans and outcomes as JSON: what is written is read again, and what is none is refused."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.launch import plan, references
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import (
    VERSION,
    Containers,
    Directory,
    Image,
    LaunchMode,
    Limits,
    LogPaths,
    Mount,
    Output,
    Plan,
    PlanError,
    PlanNode,
    Process,
    ProcessExit,
    Rendezvous,
    Requirement,
    Role,
)
from batchai_magics.launch.references import Bindings, Reference, ReferenceKind, Template, reference

REFERENCE = st.builds(Reference, st.sampled_from(ReferenceKind), st.integers(0, 3))
TEMPLATE = st.lists(st.text(max_size=3) | REFERENCE, min_size=1, max_size=3).map(Template)
TEXT = st.text(max_size=5) | TEMPLATE
TEXTS = st.lists(TEXT, max_size=2).map(tuple)
ENV = st.dictionaries(TEXT, TEXT, max_size=2)
SECONDS = st.floats(0, 1e9)
OUTPUT = st.builds(Output, *[st.builds(LogPaths, TEXT, TEXT, TEXT)] * 2)
DIRECTORIES = st.lists(st.builds(Directory, TEXT, TEXT, st.sampled_from(Requirement)), max_size=2).map(tuple)
NODES = st.lists(st.builds(PlanNode, TEXT, TEXT, TEXT, ENV, DIRECTORIES), max_size=2).map(tuple)
PROCESS = st.builds(
    Process, st.integers(0), st.integers(0), TEXT, st.sampled_from(Role), ENV, st.none() | OUTPUT
)
CONTAINERS = st.builds(
    Containers, st.none() | st.builds(Image, *[TEXT] * 4), TEXTS, st.lists(TEXTS, max_size=2).map(tuple)
)
PLANS = st.builds(
    Plan,
    guid=TEXT,
    nodes=NODES,
    processes=st.lists(PROCESS, max_size=2).map(tuple),
    output=OUTPUT,
    exits=TEXT,
    python=TEXT,
    launcher=st.sampled_from(LaunchMode),
    rendezvous=st.sampled_from(Rendezvous),
    limits=st.builds(Limits, TEXT, SECONDS, SECONDS, warn_s=SECONDS, grace_s=SECONDS),
    mounts=st.lists(st.builds(Mount, TEXT, TEXT), max_size=2).map(tuple),
    containers=CONTAINERS,
    secrets=TEXTS,
    notes=TEXTS,
    execution_logs=TEXTS,
    port_count=st.integers(0, 9),
    is_elevated=st.booleans(),
    preparation=st.none(),
)


def small() -> Plan:
    return Plan(
        guid="g",
        nodes=(PlanNode("n", "/folder", "/tmp", {}),),
        processes=(Process(0, 0, "true"),),
        output=Output(LogPaths("/out"), LogPaths("/err")),
        exits="/exits",
        python="/python",
    )


@given(PLANS)
def test_plan_survives_a_round_trip(plan: Plan) -> None:
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert repr(again) == repr(plan)  # named tuples of one shape are equal: their types are compared too


def test_a_preparation_is_written_resolved_and_changed_with_its_plan() -> None:
    folder = PlanNode("n", reference(ReferenceKind.TEXT, 0), "", {})
    plan = small()._replace(texts=(reference(ReferenceKind.NODE, 0),))
    plan = plan._replace(preparation=small()._replace(nodes=(folder,)))
    resolved = Plan.from_json(plan.to_json()).resolved(Bindings(["n0"]))
    assert resolved.preparation
    assert resolved.preparation.nodes == (PlanNode("n", "n0", "", {}),)
    changed = resolved.changed(lambda part: part._replace(exits=f"{part.exits}-2"))
    assert changed.preparation
    assert (changed.exits, changed.preparation.exits) == ("/exits-2", "/exits-2")


@pytest.mark.parametrize("version", [VERSION + 1, 0, None, "1x"])
def test_a_plan_of_another_version_is_refused_with_both_versions(version: object) -> None:
    body = {**json.loads(small().to_json()), "version": version}
    with pytest.raises(PlanError, match=f"this batchai_magics reads version {VERSION}.*BATCHAI_HOME"):
        Plan.from_json(json.dumps(body))


def test_a_plan_that_names_no_version_is_refused() -> None:
    for text in ("{}", "[]", "null"):
        with pytest.raises(PlanError, match="no version"):
            Plan.from_json(text)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("guid",), 3, "plan.guid"),
        (("nodes",), {}, "plan.nodes"),
        (("nodes", 0, "env"), {"A": 1}, "plan.nodes.env"),
        (("processes", 0, "role"), "chief", "plan.processes.role"),
        (("processes", 0, "rank"), True, "plan.processes.rank"),
        (("processes", 0, "rank"), "0", "plan.processes.rank"),
        (("limits", "wall_s"), "1", "plan.limits.wall_s"),
        (("output", "stdout"), None, "plan.output.stdout"),
        (("output", "extra"), "x", "extra"),
        (("containers", "image"), [], "plan.containers.image"),
    ],
)
def test_value_of_the_wrong_type_is_refused_by_field_name(path, value, told) -> None:
    body = json.loads(small().to_json())
    inner = body
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(PlanError, match=told):
        Plan.from_json(json.dumps(body))


def test_a_field_that_is_missing_is_named() -> None:
    body = json.loads(small().to_json())
    del body["exits"]
    with pytest.raises(PlanError, match="exits"):
        Plan.from_json(json.dumps(body))


def test_file_that_is_not_json_is_refused() -> None:
    with pytest.raises(PlanError, match="no JSON"):
        Plan.from_json("{")


def test_plan_is_written_atomically(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    small().write(str(file))
    assert Plan.read(str(file)) == small()
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("module", [plan, references])
def test_the_plan_needs_nothing_but_the_standard_library(module: ModuleType) -> None:
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names -= {plan.__name__, references.__name__, "batchai_magics.launch"}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
    assert "dataclasses" not in names  # half a rank's start


def test_workers_are_done_only_where_servers_are_left() -> None:
    log = LogPaths("")
    roles = [Role.MASTER, Role.WORKER, Role.PARAMETER_SERVER]
    processes = tuple(Process(rank, 0, "", role) for rank, role in enumerate(roles))
    made = Plan("guid", (), processes, Output(log, log), "", "")
    assert not made.are_workers_done([])
    assert not made.are_workers_done([0, 2])
    assert made.are_workers_done([0, 1])
    assert made.are_workers_done([0, 1, 2])
    assert not made._replace(processes=processes[:2]).are_workers_done([0, 1])


FAILED = failed_with("JobFailed", "oh", failedRank=1)._replace(
    exit_code=3, ranks=(ProcessExit(1, "n1", 3, 12.5, 100), ProcessExit(0, "n0")), ended=13.0
)


def test_outcome_survives_a_json_round_trip() -> None:
    outcome = FAILED.warned("Note", "careful")
    assert Outcome.from_json(outcome.to_json()) == outcome


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", FAILED.to_json()[:-9], FAILED.to_json().replace('"version": 1', '"version": 2')],
)
def test_outcome_of_any_other_json_is_none(text: str) -> None:
    assert Outcome.from_json(text) is None


@pytest.mark.parametrize(
    "error",
    [
        '"oh"',
        '{"code": 1, "message": "oh"}',
        '{"code": "JobFailed", "message": "oh", "details": "oh"}',
        '{"code": "JobFailed", "message": "oh", "details": [{"name": "exitCode", "value": 1}]}',
    ],
)
def test_outcome_with_invalid_errors_is_none(error: str) -> None:
    text = Outcome(0).to_json()
    assert Outcome.from_json(text.replace('"errors": []', f'"errors": [{error}]')) is None


@pytest.mark.parametrize("time", ["1e300", "-1"])
def test_outcome_with_an_invalid_time_is_none(time: str) -> None:
    assert Outcome.from_json(FAILED.to_json().replace("12.5", time)) is None
