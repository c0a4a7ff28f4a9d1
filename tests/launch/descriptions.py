"""Descriptions of jobs and of their nodes, for tests of what is planned for them."""

from __future__ import annotations

from batchai_magics.launch.plan import LogPaths, Output, Plan, PlanNode
from batchai_magics.launch.planning import plan
from batchai_magics.launch.toolkits import JobSite
from batchai_magics.models.job_spec import JobSpec

SCRIPT = {"pythonScriptFilePath": "$AZ_BATCHAI_INPUT_SCRIPT/my train.py", "commandLineArgs": "--lr 0.1"}

SCRIPT_ALONE = {"pythonScriptFilePath": "t.py"}


def spec(nodes: int = 2, **fields: object) -> JobSpec:
    properties = {
        "cluster": {"id": "c"},
        "nodeCount": nodes,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/x",
    }
    return JobSpec.from_wire({"properties": {**properties, **fields}})


def plan_of(nodes: int = 2, gpus: int = 0, **fields: object) -> Plan:
    """The plan of a job on so many nodes."""
    return plan(spec(nodes, **fields), plan_nodes(nodes), site(nodes, gpus))


def plan_nodes(count: int = 2) -> list[PlanNode]:
    return [PlanNode(f"n{i}", f"/tmp/n{i}") for i in range(count)]


def site(count: int = 2, gpus: int = 0) -> JobSite:
    return JobSite(
        "/out/stdouterr",
        "/shared",
        "/hosts",
        "sub/job",
        "/mnt",
        "/jobmnt",
        "/py",
        addresses=("127.0.0.1",) * count,
        gpu_count=gpus,
        python_wrapper="/wrap.py",
        ports=(5001, 5002, 5003, 5004),
        exits="/exits",
        preparation_exits="/prep-exits",
        records=Output(
            *(LogPaths("", f"/rec/{name}.spans", f"/rec/{name}.times") for name in ("out", "err"))
        ),
    )
