"""A job that is too large is refused before anything of it is planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.errors import SpecError
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.launch.planning import plan
from batchai_magics.launch.references import ReferenceKind, expand, references
from batchai_magics.models.cluster_spec import ClusterSpec
from tests.launch.descriptions import SCRIPT_ALONE, plan_nodes, site, spec

BOUNDS = JobBounds(nodes=10, processes=40, environment_kib=4)
DOUBLING = [
    {"name": f"A{number}", "value": f"$A{number - 1}${{A{number - 1}}}" if number else "xx"}
    for number in range(60)
]


def problems(gpus: int = 0, **fields: object) -> str:
    with pytest.raises(SpecError) as caught:
        BOUNDS.check(spec(**fields), gpus_per_node=gpus)
    return "\n".join(map(str, caught.value.problems))


@pytest.mark.parametrize(
    ("fields", "field", "setting"),
    [
        ({"nodes": 2**31 - 1, "caffe2Settings": SCRIPT_ALONE}, "nodeCount", "max_nodes"),
        (
            {"horovodSettings": {**SCRIPT_ALONE, "processCount": 2**31 - 1}},
            "horovodSettings.processCount",
            "max_processes",
        ),
        (
            {"customToolkitSettings": {"commandLine": "true", "batchaiProcessCount": 41}},
            "customToolkitSettings.batchaiProcessCount",
            "max_processes",
        ),
        (
            {"tensorFlowSettings": {**SCRIPT_ALONE, "workerCount": 40}},
            "tensorFlowSettings.workerCount",
            "max_processes",
        ),
        (
            {"customMpiSettings": {"commandLine": "true"}, "batchaiGpus": 2**31 - 1, "gpus": 2**31 - 1},
            "batchaiGpus",
            "max_processes",
        ),
        (
            {"caffe2Settings": SCRIPT_ALONE, "environmentVariables": DOUBLING},
            "environmentVariables",
            "max_environment_kib",
        ),
        (
            {
                "nodes": 10,
                "caffe2Settings": SCRIPT_ALONE,
                "environmentVariables": [{"name": "A", "value": "$AZ_BATCH_HOST_LIST" * 100}],
            },
            "environmentVariables",
            "max_environment_kib",
        ),
    ],
    ids=["nodes", "processes", "custom processes", "tasks", "GPUs", "doubling variables", "host lists"],
)
def test_a_refusal_names_the_field_and_the_setting(
    fields: dict[str, object], field: str, setting: str
) -> None:
    text = problems(**fields)
    assert f"properties.{field}: " in text
    assert setting in text


def test_a_job_at_the_bounds_is_planned() -> None:
    job = spec(nodes=10, horovodSettings={**SCRIPT_ALONE, "processCount": 40})
    BOUNDS.check(job, gpus_per_node=0)
    assert len(plan(job, plan_nodes(10), site(10)).processes) == 40


def test_variables_of_a_setup_task_are_bounded() -> None:
    task = {"commandLine": "true", "stdOutErrPathPrefix": "/x", "environmentVariables": DOUBLING}
    body = {"vmSize": "Standard_D2", "nodeSetup": {"setupTask": task}, "userAccountSettings": {}}
    body["userAccountSettings"] = {"adminUserName": "me", "adminUserPassword": "hush"}
    with pytest.raises(SpecError, match=r"setupTask\.environmentVariables"):
        BOUNDS.check_cluster(ClusterSpec.from_wire({"properties": body}))


def test_the_size_of_a_plan_grows_with_its_nodes_alone() -> None:
    def size(nodes: int) -> int:
        where = replace(site(), addresses=references(ReferenceKind.ADDRESS, nodes))
        workers = {**SCRIPT_ALONE, "workerCount": nodes}
        return len(plan(spec(nodes=nodes, tensorFlowSettings=workers), plan_nodes(nodes), where).to_json())

    assert size(80) < 2.5 * size(40)


def test_a_name_in_braces_is_the_whole_name_and_a_bare_one_the_longest_that_fits() -> None:
    variables = {"A": "1", "AB": "2", "ABCD": "3"}
    assert expand("$ABC ${ABC} ${AB}C $ABCDE $$A $ $1", variables) == "2C ${ABC} 2C 3E $1 $ $1"


def test_a_single_worker_without_parameter_servers_is_one_process() -> None:
    JobBounds(processes=1).check(spec(1, tensorFlowSettings=SCRIPT_ALONE), gpus_per_node=0)
