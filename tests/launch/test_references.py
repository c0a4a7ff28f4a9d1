"""References to nodes, addresses and ports: resolved as values, whatever a user's text looks like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.launch.plan import Plan, PlanNode
from batchai_magics.launch.planning import plan, with_preparation
from batchai_magics.launch.references import (
    Bindings,
    ReferenceKind,
    expand,
    joined,
    json_text,
    reference,
    references,
    resolved,
)
from batchai_magics.launch.toolkits import JobSite
from tests.launch import descriptions
from tests.launch.descriptions import SCRIPT, SCRIPT_ALONE, spec

NODES = ["x7", "x8"]
ADDRESSES = ["10.0.0.7", "10.0.0.8"]
PORTS = [27170, 27171, 27172, 27173]
BINDINGS = Bindings(NODES, ADDRESSES, PORTS)
NODE, PORT = reference(ReferenceKind.NODE, 1), reference(ReferenceKind.PORT, 0)
# Text that once stood for something, that does now, or that JSON's own form of a reference looks like.
LOOKALIKES = (
    "--seed 7700000000 --n 77000000001",
    "node-0.of-guid address-1.of-guid",
    '{"subject": "port", "number": 0}',
    '["", {"subject": "node", "number": 0}]',
    "\\u0000port 0\\u0000 <port 0> {port} $PORT ${0}",
    repr(PORT.parts),
)


def nodes(names: Sequence[str]) -> list[PlanNode]:
    return [PlanNode(name, joined(["/tmp/", name])) for name in names]


def site(addresses: Sequence[str], ports: Sequence[int] | Sequence[str]) -> JobSite:
    return replace(descriptions.site(), guid="guid", addresses=tuple(addresses), ports=tuple(ports))


def both(**fields: object) -> tuple[Plan, Plan]:
    """The plan of a job with a preparation, made before its nodes are known and resolved; and made after."""
    job = spec(2, **fields)
    later = references(ReferenceKind.PORT, len(PORTS))
    made = []
    for names, where in (
        (references(ReferenceKind.NODE, 2), site(references(ReferenceKind.ADDRESS, 2), later)),
        (NODES, site(ADDRESSES, PORTS)),
    ):
        planned = plan(job, nodes(names), where)
        made.append(Plan.from_json(with_preparation("prepare", planned, where).to_json()).resolved(BINDINGS))
    return made[0], made[1]


@pytest.mark.parametrize(
    "toolkit",
    [
        {"pyTorchSettings": {**SCRIPT, "processCount": 4}},
        {"tensorFlowSettings": {**SCRIPT_ALONE, "workerCount": 2, "parameterServerCount": 2}},
        {"caffe2Settings": SCRIPT},
        {"horovodSettings": {**SCRIPT, "processCount": 4}},
    ],
    ids=lambda toolkit: next(iter(toolkit)),
)
def test_a_plan_made_before_its_nodes_are_known_resolves_to_the_one_made_after(toolkit) -> None:
    variables = [
        {"name": "HERE", "value": "$AZ_BATCH_NODE_ID at ${AZ_BATCH_HOST_LIST}"},
        {"name": "PYTHONPATH", "value": "$AZ_BATCHAI_JOB_TEMP/lib"},
    ]
    outputs = [{"id": "OWN", "pathPrefix": "relative/$AZ_BATCH_NODE_ID"}]
    resolved_plans, made_after = both(**toolkit, environmentVariables=variables, outputDirectories=outputs)
    assert resolved_plans == made_after
    assert made_after.nodes[1].env["HERE"] == "x8 at 10.0.0.7,10.0.0.8"


@pytest.mark.parametrize("text", LOOKALIKES)
def test_user_text_that_looks_like_a_reference_is_unchanged(text: str) -> None:
    fields = {**SCRIPT_ALONE, "processCount": 2, "commandLineArgs": text}
    made, _ = both(pyTorchSettings=fields, environmentVariables=[{"name": "A", "value": text}])
    assert [process.command for process in made.processes] == [f'exec "/py" "t.py" {text}'] * 2
    assert [node.env["A"] for node in made.nodes] == [text] * 2
    assert made.processes[0].env["MASTER_PORT"] == "27170"


@given(st.lists(st.text() | st.sampled_from([NODE, PORT]), max_size=4), st.text(max_size=2))
def test_texts_are_joined_as_their_values_are(texts: list[str], separator: str) -> None:
    values = [resolved(text, BINDINGS) for text in texts]
    assert resolved(joined(texts, separator), BINDINGS) == separator.join(values)


@given(st.dictionaries(st.text(), st.lists(st.text() | st.just(PORT))))
def test_json_with_references_is_the_json_of_their_values(value: dict[str, list[str]]) -> None:
    values = {name: [resolved(text, BINDINGS) for text in texts] for name, texts in value.items()}
    assert json.loads(resolved(json_text(value), BINDINGS)) == values


def test_unresolved_reference_cannot_be_used() -> None:
    with pytest.raises(TypeError, match="not resolved"):
        f"{PORT}"
    with pytest.raises(ValueError, match="null byte"):
        open(joined(["/tmp/", NODE]))  # noqa: PTH123, SIM115 nothing is opened


def test_a_value_that_a_variable_had_is_not_searched_for_variables_again() -> None:
    assert expand("$LONG", {"LONG": "$A", "A": "1"}) == "$A"
