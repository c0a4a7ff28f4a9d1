"""Descriptions of jobs and of their nodes, for tests of what is planned for them."""

from __future__ import annotations

from batchai_magics.launch.job_site import JobSite, NodeShare
from batchai_magics.launch.plan import LogFile, Output
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
