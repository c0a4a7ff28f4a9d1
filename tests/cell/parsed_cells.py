"""Cells that are parsed with settings of the tests, and job files for them."""

import pytest

from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.cell import Notebook, parse
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError

SCRIPT = "print('hello {name}')\n"
SETTINGS = Settings(
    subscription="s", resource_group="g", sections={"arm": ArmSettings(), "slurm": SlurmSettings()}
)
CLUSTER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/{}/clusters/{}"
JOB_JSON = """
properties:
  nodeCount: 1
  stdOutErrPathPrefix: $AZ_BATCHAI_MOUNT_ROOT/afs
  chainerSettings: {pythonScriptFilePath: train.py, processCount: 2}
  environmentVariables:
  - {name: A, value: "1"}
  - {name: B, value: "2"}
"""


def cell(line, body=SCRIPT, **options):
    return parse(line, body, settings=SETTINGS, notebook=Notebook(**options))


def fields(line, body=SCRIPT, **options):
    return cell(line, body, **options).spec.to_wire(secrets=True)["properties"]


def refused(line, body=SCRIPT, kind=UsageError, **options):
    with pytest.raises(kind) as caught:
        cell(line, body, **options)
    return str(caught.value)
