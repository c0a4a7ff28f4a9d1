"""What a plan is made from, read from the stored JSON of a description."""

from __future__ import annotations

import json

import pytest

from batchai_magics.backends.service.descriptions import stored_text
from batchai_magics.launch.job_description import (
    Description,
    InputDirectory,
    OutputDirectory,
    ToolkitSettings,
)
from batchai_magics.launch.plan import Image, Mount
from batchai_magics.launch.toolkits import TOPOLOGIES
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.toolkit_settings import Toolkit

BODY = {
    "cluster": {"id": "c"},
    "nodeCount": 2,
    "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/x",
}
CUSTOM = {"customToolkitSettings": {"commandLine": "x"}}


def described(**fields: object) -> Description:
    """A description as it is read back from the store."""
    text = stored_text(JobSpec.from_wire({"properties": {**BODY, **fields}}))
    return Description.of_fields(json.loads(text)["properties"])


def test_every_toolkit_has_a_topology() -> None:
    assert list(TOPOLOGIES) == [kind.wire_key for kind in Toolkit]


@pytest.mark.parametrize("kind", Toolkit)
def test_every_setting_of_a_toolkit_that_a_plan_can_need_is_there(kind: Toolkit) -> None:
    unneeded = {"language_type"}
    assert set(kind.settings.model_fields) - unneeded <= set(ToolkitSettings._fields)


def test_settings_stand_under_the_names_that_the_model_has() -> None:
    settings = {"pythonScriptFilePath": "t.py", "parameterServerCommandLineArgs": "--ps", "workerCount": 3}
    asked = described(tensorFlowSettings=settings)
    assert asked.toolkit == Toolkit.TENSORFLOW.wire_key
    assert asked.settings == ToolkitSettings(
        python_script_file_path="t.py", parameter_server_command_line_args="--ps", worker_count=3
    )


def test_what_a_description_does_not_say_is_empty() -> None:
    asked = described(**CUSTOM)
    assert (asked.node_count, asked.logs, asked.max_time) == (2, BODY["stdOutErrPathPrefix"], "P7D")
    assert asked.image is None
    assert not any(asked[asked._fields.index("mounts") :])
    assert not asked.preparation


def test_what_a_job_runs_in_and_mounts_by_itself() -> None:
    source = {"serverUrl": "r.io", "image": "tf", "credentials": {"username": "me", "password": "hush"}}
    asked = described(
        **CUSTOM,
        containerSettings={"imageSourceRegistry": source, "shmSize": "2g"},
        mountVolumes={"unmanagedFileSystems": [{"mountCommand": "m", "relativeMountPath": "p"}]},
        jobPreparation={"commandLine": "apt"},
        constraints={"maxWallClockTime": "PT5M"},
    )
    assert asked.image == Image("tf", "r.io", "me", "2g")
    assert asked.mounts == (Mount("m", "p"),)
    assert (asked.preparation, asked.max_time) == ("apt", "PT5M")


def test_directories_and_variables_keep_their_order() -> None:
    asked = described(
        **CUSTOM,
        inputDirectories=[{"id": "A", "path": "a"}, {"id": "B", "path": "b", "createNew": False}],
        outputDirectories=[
            {"id": "C", "pathPrefix": "c"},
            {"id": "D", "pathPrefix": "d", "createNew": False},
        ],
        environmentVariables=[{"name": "Z", "value": "1"}, {"name": "Y", "value": "$Z"}],
        secrets=[{"name": "TOKEN", "value": "hush"}],
    )
    assert asked.inputs == (InputDirectory("A", "a", is_new=None), InputDirectory("B", "b", is_new=False))
    assert asked.results == (
        OutputDirectory("C", "c", "", is_own=True),
        OutputDirectory("D", "d", "", is_own=False),
    )
    assert (asked.variables, asked.secrets) == ((("Z", "1"), ("Y", "$Z")), ("TOKEN",))


def test_conditions_come_with_the_patterns_of_their_metrics() -> None:
    asked = described(
        **CUSTOM, batchaiStopIf=["accuracy > 0.9"], batchaiPatterns={"accuracy": "acc (?P<value>.+)"}
    )
    assert asked.stop_if == ("accuracy > 0.9",)
    assert asked.patterns == {"accuracy": "acc (?P<value>.+)"}
