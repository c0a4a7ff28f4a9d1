"""The nine toolkits of jobs and their settings."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

from pydantic import model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import Self

from batchai_magics.models.field_types import CommunicationBackend, LanguageType, Positive, Text
from batchai_magics.models.wire_model import WireModel


class CntkSettings(WireModel):
    """Microsoft Cognitive Toolkit: a BrainScript configuration or a Python script."""

    language_type: LanguageType | None = None
    config_file_path: Text | None = None
    python_script_file_path: Text | None = None
    python_interpreter_path: Text | None = None
    command_line_args: str | None = None
    process_count: Positive | None = None

    @property
    def is_brain_script(self) -> bool:
        """Whether it runs a BrainScript configuration; without `languageType`, inferred from the fields."""
        return (self.language_type or "").lower() == "brainscript" or not (
            self.language_type or self.python_script_file_path
        )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.is_brain_script:
            _check_pair(
                "configFilePath", self.config_file_path, "pythonScriptFilePath", self.python_script_file_path
            )
        else:
            _check_pair(
                "pythonScriptFilePath", self.python_script_file_path, "configFilePath", self.config_file_path
            )
        return self


class PythonScript(WireModel):
    """What toolkits with one Python script have in common."""

    python_script_file_path: Text
    python_interpreter_path: Text | None = None
    command_line_args: str | None = None


class PyTorchSettings(PythonScript):
    """PyTorch: one script, started `processCount` times."""

    process_count: Positive | None = None
    communication_backend: CommunicationBackend | None = None


class TensorFlowSettings(WireModel):
    """TensorFlow: one script, started as master, workers and parameter servers."""

    python_script_file_path: Text
    python_interpreter_path: Text | None = None
    master_command_line_args: str | None = None
    worker_command_line_args: str | None = None
    parameter_server_command_line_args: str | None = None
    worker_count: Positive | None = None
    parameter_server_count: Positive | None = None


class CaffeSettings(WireModel):
    """Caffe: a solver configuration or a Python script."""

    config_file_path: Text | None = None
    python_script_file_path: Text | None = None
    python_interpreter_path: Text | None = None
    command_line_args: str | None = None
    process_count: Positive | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if bool(self.config_file_path) == bool(self.python_script_file_path):
            raise ValueError("give one of configFilePath and pythonScriptFilePath")
        return self


class Caffe2Settings(PythonScript):
    """Caffe2: one script on every node, with a shared folder for rendezvous."""


class ChainerSettings(PythonScript):
    """Chainer: one script under MPI."""

    process_count: Positive | None = None


class CustomToolkitSettings(WireModel):
    """Custom: a shell command line on the first node, or as several processes over all nodes."""

    command_line: Text | None = None
    batchai_process_count: Positive | None = None  # ours: the service started one process


class CustomMpiSettings(WireModel):
    """Custom MPI: a command line started by mpirun."""

    command_line: Text
    process_count: Positive | None = None


class HorovodSettings(PythonScript):
    """Horovod: one Python script under MPI."""

    process_count: Positive | None = None


Settings = (
    CntkSettings
    | PyTorchSettings
    | TensorFlowSettings
    | CaffeSettings
    | Caffe2Settings
    | ChainerSettings
    | CustomToolkitSettings
    | CustomMpiSettings
    | HorovodSettings
)


def _check_pair(needed: str, needed_value: str | None, barred: str, barred_value: str | None) -> None:
    if not needed_value:
        raise ValueError(f"{needed} is required for this languageType")
    if barred_value:
        raise ValueError(f"{barred} does not belong to this languageType")


class Toolkit(enum.Enum):
    """The nine toolkits, by the short names of `--toolkit`."""

    CNTK = "cntk"
    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    CAFFE = "caffe"
    CAFFE2 = "caffe2"
    CHAINER = "chainer"
    CUSTOM = "custom"
    MPI = "mpi"
    HOROVOD = "horovod"

    @property
    def field(self) -> str:
        """The name of the settings in JobSpec: `horovod_settings`."""
        return FIELDS[self]

    @property
    def label(self) -> str:
        """Its name in lists: the settings of Horovod start any Python script, and do so by default."""
        return "python" if self is Toolkit.HOROVOD else self.value

    @property
    def tool_type(self) -> str:
        """The service's name for it (`toolType`)."""
        return "custommpi" if self is Toolkit.MPI else self.value

    @property
    def wire_key(self) -> str:
        """The key of the settings in job.json: `horovodSettings`."""
        return _WIRE_KEYS[self]


_SETTINGS: dict[Toolkit, type[WireModel]] = {
    Toolkit.CNTK: CntkSettings,
    Toolkit.PYTORCH: PyTorchSettings,
    Toolkit.TENSORFLOW: TensorFlowSettings,
    Toolkit.CAFFE: CaffeSettings,
    Toolkit.CAFFE2: Caffe2Settings,
    Toolkit.CHAINER: ChainerSettings,
    Toolkit.CUSTOM: CustomToolkitSettings,
    Toolkit.MPI: CustomMpiSettings,
    Toolkit.HOROVOD: HorovodSettings,
}
# horovod_settings of HorovodSettings
FIELDS = {
    kind: re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", model.__name__).lower() for kind, model in _SETTINGS.items()
}
_WIRE_KEYS = {kind: to_camel(field) for kind, field in FIELDS.items()}


def toolkit_in(fields: Mapping[str, Any]) -> Toolkit:
    """The toolkit whose settings are among a job's fields in the service's JSON."""
    return next(kind for kind, key in _WIRE_KEYS.items() if fields.get(key) is not None)
