"""Arguments and variables of a job reach its processes as they were written, whatever they look like."""

from __future__ import annotations

import json

import pytest

from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from tests.contract.place import Place

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]
SHOW = """
import json, os, sys
port = os.environ["AZ_BATCHAI_PYTORCH_INIT_METHOD"].rpartition(":")[2]
is_first = os.environ["PYTHONPATH"].startswith("/mine:/yours:")
print(json.dumps([sys.argv[1:], os.environ["LIKE"], is_first, port == os.environ["MASTER_PORT"]]), flush=True)
"""
ARGUMENTS = ["--seed", "7700000000", "--n", "77000000001", "node-0.of-x", '{"subject":"port","number":0}']
LIKE = '["", {"subject": "node", "number": 0}] <port 0> 7700000000'


def test_text_like_a_node_or_a_port_stays_as_it_is_and_the_jobs_module_path_comes_first(place: Place) -> None:
    toolkit = {
        "pythonScriptFilePath": place.put("show.py", SHOW),
        "commandLineArgs": " ".join(f"'{word}'" for word in ARGUMENTS),
        "processCount": 2,
    }
    values = {"LIKE": LIKE, "PYTHONPATH": "/mine:/yours"}
    variables = [{"name": name, "value": value} for name, value in values.items()]
    fields = {"customToolkitSettings": None, "pyTorchSettings": toolkit, "environmentVariables": variables}
    job = place.run(nodeCount=2, **fields)
    assert job.state is ExecutionState.SUCCEEDED, place.log(job.id, "stderr.txt")
    lines = [json.loads(line) for line in place.log(job.id).splitlines()]
    assert lines == [[ARGUMENTS, LIKE, True, True]] * 2
    assert Job(place.backend, job.id).error is None
