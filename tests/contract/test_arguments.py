"""Arguments and variables of a job reach its processes as they were written, whatever they look like."""

from __future__ import annotations

import json

import pytest

from batchai_magics.models.states import ExecutionState
from tests.contract.place import Place

SHOW = """
import json, os, sys
port = os.environ["AZ_BATCHAI_PYTORCH_INIT_METHOD"].rpartition(":")[2]
print(json.dumps([sys.argv[1:], os.environ["LIKE"], port == os.environ["MASTER_PORT"]]), flush=True)
"""
ARGUMENTS = ["--seed", "7700000000", "--n", "77000000001", "node-0.of-x", '{"subject":"port","number":0}']
LIKE = '["", {"subject": "node", "number": 0}] <port 0> 7700000000'


@pytest.mark.slow
def test_text_that_looks_like_a_node_or_a_port_stays_as_it_is(place: Place) -> None:
    toolkit = {
        "pythonScriptFilePath": place.put("show.py", SHOW),
        "commandLineArgs": " ".join(f"'{word}'" for word in ARGUMENTS),
        "processCount": 2,
    }
    variables = [{"name": "LIKE", "value": LIKE}]
    fields = {"customToolkitSettings": None, "pyTorchSettings": toolkit, "environmentVariables": variables}
    job = place.run(nodeCount=2, **fields)
    assert job.state is ExecutionState.SUCCEEDED, place.log(job.id, "stderr.txt")
    lines = [json.loads(line) for line in place.log(job.id).splitlines()]
    assert lines == [[ARGUMENTS, LIKE, True]] * 2
