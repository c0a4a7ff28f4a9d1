"""What `-o json` prints of real jobs is what docs/json-output.md says."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster")]

PAGE = (Path(__file__).parents[2] / "docs/json-output.md").read_text(encoding="utf-8")
BLOCKS = map(json.loads, re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
SCHEMAS = {schema["$id"]: schema for schema in BLOCKS}


def check(name, data):
    jsonschema.validate(json.loads(json.dumps(data)), SCHEMAS[name])


@pytest.mark.parametrize("command", ["echo done", "exit 3"])
def test_a_job_that_has_ended_is_as_documented(do, job_file, command):
    do(f"job create -n it -f {job_file(command)}").value.wait(PATIENCE_S)
    shown, (listed,) = do("job show -n it").data, do("job list").data
    check("job", shown)
    check("job", listed)
    assert shown["executionInfo"]["exitCode"] == (3 if "exit" in command else 0)


def test_a_job_that_runs_and_its_stacks_are_as_documented(do, job_file):
    command = "python3 -c 'import time; print(1, flush=True); time.sleep(1000)'"
    job = do(f"job create -n it -f {job_file(command)}").value
    until(lambda: job.log() == "1\n")
    (listed,) = do("ps").data
    check("job", listed)
    stacks = do("stacks it").data
    check("stacks", stacks)
    assert stacks["ranks"][0]["frames"]
    job.cancel()
    job.wait(PATIENCE_S)
