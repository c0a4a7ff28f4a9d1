"""The parts of a job description that a plan depends on, read from JSON: supervisors plan without the models.

The JSON is that of a validated `JobSpec`, as stored: current spelling, no nulls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.launch.plan import Image, Limits, Mount
from batchai_magics.models.job_execution import output_path

if TYPE_CHECKING:
    from batchai_magics.models.job_spec import JobSpec


_SETTINGS = "Settings"
_NO_TOOLKIT = "containerSettings"


class ToolkitSettings(NamedTuple):
    """The settings of any toolkit; empty or zero if not specified."""

    python_script_file_path: str = ""
    python_interpreter_path: str = ""
    config_file_path: str = ""
    command_line: str = ""
    command_line_args: str = ""
    master_command_line_args: str = ""
    worker_command_line_args: str = ""
    parameter_server_command_line_args: str = ""
    communication_backend: str = ""
    process_count: int = 0
    batchai_process_count: int = 0
    worker_count: int = 0
    parameter_server_count: int = 0


class InputDirectory(NamedTuple):
    """A folder that the job reads; `is_new` says whether to create it, None to do neither."""

    id: str
    path: str
    is_new: bool | None


class OutputDirectory(NamedTuple):
    """A folder that the job writes; it must exist unless `is_own`."""

    id: str
    prefix: str
    suffix: str
    is_own: bool

    def path(self, segment: str) -> str:
        """The path of the folder; `segment` is the path of the job's run."""
        return output_path(self.prefix, segment, self.suffix, is_own=self.is_own)


class Description(NamedTuple):
    """A job as input of planning. `toolkit` is the key of its settings in job.json: `horovodSettings`."""

    node_count: int
    toolkit: str
    settings: ToolkitSettings
    logs: str  # stdOutErrPathPrefix
    max_time: str  # ISO 8601
    preparation: str  # a command line, may be empty
    image: Image | None
    mounts: tuple[Mount, ...]  # by mount commands
    inputs: tuple[InputDirectory, ...]
    results: tuple[OutputDirectory, ...]
    variables: tuple[tuple[str, str], ...]  # in order: later ones may refer to earlier ones
    secrets: tuple[str, ...]  # only the names
    stop_if: tuple[str, ...]
    patterns: Mapping[str, str]

    @classmethod
    def of(cls, spec: JobSpec) -> Description:
        """The description of a parsed spec."""
        return cls.of_fields(spec.to_wire()[spec.wrapper])

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Description:
        """The description in the JSON of a spec."""
        toolkit = next(key for key in fields if key.endswith(_SETTINGS) and key != _NO_TOOLKIT)
        return cls(
            node_count=fields["nodeCount"],
            toolkit=toolkit,
            settings=_settings(fields[toolkit]),
            logs=fields["stdOutErrPathPrefix"],
            max_time=fields.get("constraints", {}).get("maxWallClockTime", Limits().wall),
            preparation=fields.get("jobPreparation", {}).get("commandLine", ""),
            image=_image(fields["containerSettings"]) if "containerSettings" in fields else None,
            mounts=tuple(_mounts(fields.get("mountVolumes", {}))),
            inputs=tuple(map(_input, fields.get("inputDirectories", ()))),
            results=tuple(map(_result, fields.get("outputDirectories", ()))),
            variables=tuple((each["name"], each["value"]) for each in fields.get("environmentVariables", ())),
            secrets=tuple(each["name"] for each in fields.get("secrets", ())),
            stop_if=tuple(fields.get("batchaiStopIf", ())),
            patterns=fields.get("batchaiPatterns", {}),
        )


def _settings(body: Mapping[str, Any]) -> ToolkitSettings:
    own = {name: body[key] for name, key in _KEYS.items() if key in body}
    return ToolkitSettings(**own)


_KEYS = {name: re.sub("_([a-z])", lambda match: match[1].upper(), name) for name in ToolkitSettings._fields}


def _image(body: Mapping[str, Any]) -> Image:
    source = body["imageSourceRegistry"]
    username = source.get("credentials", {}).get("username", "")
    return Image(source["image"], source.get("serverUrl", ""), username, body.get("shmSize", ""))


def _mounts(volumes: Mapping[str, Any]) -> Iterator[Mount]:
    for each in volumes.get("unmanagedFileSystems", ()):
        yield Mount(each["mountCommand"], each["relativeMountPath"])


def _input(body: Mapping[str, Any]) -> InputDirectory:
    return InputDirectory(body["id"], body["path"], body.get("createNew"))


def _result(body: Mapping[str, Any]) -> OutputDirectory:
    is_own = body.get("createNew") is not False
    return OutputDirectory(body["id"], body["pathPrefix"], body.get("pathSuffix", ""), is_own)
