"""The spec of a job: the body of job.json."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, ValidationInfo, model_validator
from typing_extensions import Self

from batchai_magics.models.backend_options import option_name
from batchai_magics.models.field_types import (
    Count,
    Duration,
    IdSuffix,
    InsidePath,
    Positive,
    Text,
    duplicates,
)
from batchai_magics.models.job_execution import STDOUTERR, output_path
from batchai_magics.models.mount_volumes import (
    EnvironmentVariable,
    KeyVaultSecretReference,
    MountVolumes,
    ResourceRef,
    SecretVariable,
)
from batchai_magics.models.stop_conditions import check_condition
from batchai_magics.models.toolkit_settings import (
    FIELDS,
    Caffe2Settings,
    CaffeSettings,
    ChainerSettings,
    CntkSettings,
    CustomMpiSettings,
    CustomToolkitSettings,
    HorovodSettings,
    PyTorchSettings,
    Settings,
    TensorFlowSettings,
    Toolkit,
)
from batchai_magics.models.wire_model import STORED, WireModel


class JobPriority(enum.Enum):
    """The priority of a job in its cluster's queue."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """Its rank in the queue: 0 for high, 1 for normal and 2 for low."""
        return (JobPriority.HIGH, JobPriority.NORMAL, JobPriority.LOW).index(self)


class RegistryCredentials(WireModel):
    """The login of a private registry. The password is write-only."""

    username: Text
    password: SecretStr | None = None
    password_secret_reference: KeyVaultSecretReference | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.password and self.password_secret_reference:
            raise ValueError("give one of password and passwordSecretReference")
        return self


class ImageSourceRegistry(WireModel):
    """An image and the registry that holds it."""

    server_url: str | None = None
    image: Text
    credentials: RegistryCredentials | None = None


class ContainerSettings(WireModel):
    """The image of the container a job runs in, and its shared memory size (as docker's `--shm-size`)."""

    image_source_registry: ImageSourceRegistry
    shm_size: Text | None = None


class JobPreparation(WireModel):
    """A command run once on every node before the processes start."""

    command_line: Text


class InputDirectory(WireModel):
    """A folder the job reads, known to it as `$AZ_BATCHAI_INPUT_<id>`.

    `createNew`: true creates it before the job starts, false fails the job if it does not exist.
    """

    id: IdSuffix
    path: Text
    create_new: bool | None = None


class OutputDirectory(WireModel):
    """A folder the job writes, created for it and known to it as `$AZ_BATCHAI_OUTPUT_<id>`.

    With `createNew` false it is the existing folder at prefix and suffix.
    """

    id: IdSuffix
    path_prefix: Text
    path_suffix: InsidePath | None = None
    create_new: bool | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is created for the job, instead of being an existing folder."""
        return self.create_new is not False

    def path_below(self, prefix: str, segment: str) -> str:
        """Its path where its prefix resolves to `prefix`; `segment` is the path of the run below prefixes."""
        return output_path(prefix, segment, self.path_suffix or "", is_own=self.is_own)


class PreflightMode(enum.Enum):
    """What happens if a preflight finds bad or slow nodes."""

    STOP = "stop"  # the job fails before its first rank
    EXCLUDE = "exclude"  # it runs without them


class JobConstraints(WireModel):
    """Limits on the job."""

    max_wall_clock_time: Duration = "P7D"


_PROCESS_COUNTS = ("process_count", "batchai_process_count", "worker_count", "parameter_server_count")


class JobSpec(WireModel):
    """The content of job.json (JobCreateParameters of the 2018-05-01 API).

    Exactly one of the nine `…Settings` is set; see `toolkit` and `settings`. Keys that `option_name` knows
    are native options of the engine; see `backend_options`.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str] = Field(init=False)

    what: ClassVar[str] = "the job description"
    wrapper: ClassVar[str] = "properties"
    kind: ClassVar[str] = "job"

    scheduling_priority: JobPriority = JobPriority.NORMAL
    cluster: ResourceRef
    mount_volumes: MountVolumes | None = None
    node_count: Positive
    container_settings: ContainerSettings | None = None
    cntk_settings: CntkSettings | None = None
    py_torch_settings: PyTorchSettings | None = None
    tensor_flow_settings: TensorFlowSettings | None = None
    caffe_settings: CaffeSettings | None = None
    caffe2_settings: Caffe2Settings | None = None
    chainer_settings: ChainerSettings | None = None
    custom_toolkit_settings: CustomToolkitSettings | None = None
    custom_mpi_settings: CustomMpiSettings | None = None
    horovod_settings: HorovodSettings | None = None
    job_preparation: JobPreparation | None = None
    std_out_err_path_prefix: Text
    input_directories: tuple[InputDirectory, ...] | None = None
    output_directories: tuple[OutputDirectory, ...] | None = None
    environment_variables: tuple[EnvironmentVariable, ...] | None = None
    secrets: tuple[SecretVariable, ...] | None = None
    constraints: JobConstraints = Field(default_factory=JobConstraints)
    batchai_stop_if: tuple[Annotated[str, AfterValidator(check_condition)], ...] | None = (
        None  # ours: its stop conditions
    )
    batchai_patterns: dict[str, str] | None = None  # ours: expressions of the metrics in stop conditions
    batchai_max_restarts: Count | None = None  # ours: how often it continues after losing nodes or time
    batchai_signal_before: Duration | None = None  # ours: how long before such an end it is warned
    batchai_grace: Duration | None = None  # ours: how long its processes may take to save at their end
    batchai_gpus: Positive | None = None  # ours: GPUs it uses on each node; other jobs may use the rest
    batchai_after: tuple[Text, ...] | None = None  # ours: ids of jobs that must succeed before it starts
    batchai_after_any: tuple[Text, ...] | None = None  # ours: ids of jobs that must end before it starts
    batchai_needs_image: bool | None = None  # ours: true forbids to run it on the host, without its image
    batchai_preflight: PreflightMode | None = None  # ours: checks its nodes before its first rank

    @classmethod
    def conflicts(cls, body: Mapping[str, Any]) -> list[str]:
        """Conflicts between wire fields: several toolkits, duplicate ids, reserved variables, counts."""
        return [*_toolkit_conflicts(body), *_name_conflicts(body)]

    @model_validator(mode="after")
    def _check_conflicts(self, info: ValidationInfo) -> Self:
        if info.context is STORED:
            return self
        conflicts = self.conflicts(self.model_dump(mode="json", by_alias=True, exclude_none=True))
        unknown = [key for key in self.__pydantic_extra__ or () if not option_name(key)]
        if conflicts or unknown:
            raise ValueError("; ".join([*conflicts, *(f"unknown key {key}" for key in unknown)]))
        return self

    @property
    def backend_options(self) -> dict[str, str]:
        """The texts of native options of the engine, by name: `{"slurm": "--qos=long"}`."""
        return {option_name(key): text for key, text in (self.__pydantic_extra__ or {}).items()}

    @property
    def predecessors(self) -> tuple[str, ...]:
        """The ids of the jobs that it starts after; until it is submitted, also names of jobs and sweeps."""
        return (*(self.batchai_after or ()), *(self.batchai_after_any or ()))

    @property
    def secret_names(self) -> tuple[str, ...]:
        """The names of its secret variables."""
        return tuple(item.name for item in self.secrets or ())

    @property
    def variable_names(self) -> tuple[str, ...]:
        """The names of all its variables, the secret ones last."""
        return (*(item.name for item in self.environment_variables or ()), *self.secret_names)

    @property
    def secret_values(self) -> dict[str, str]:
        """The values of its secret variables by name, without variables that have none."""
        return {item.name: item.value.get_secret_value() for item in self.secrets or () if item.value}

    def on_nodes(self, count: int) -> Self:
        """The same job on fewer nodes, with as many processes per node."""
        fields: dict[str, Any] = {
            name: max(1, processes * count // self.node_count)
            for name in _PROCESS_COUNTS
            if (processes := getattr(self.settings, name, None))
        }
        settings = self.settings.model_copy(update=fields)
        return self.model_copy(update={"node_count": count, self.toolkit.field: settings})

    @property
    def cluster_name(self) -> str:
        """The name of the cluster that it runs on."""
        return self.cluster.id.rstrip("/").rpartition("/")[2]

    @property
    def toolkit(self) -> Toolkit:
        """The toolkit of the job."""
        return next(kind for kind, field in FIELDS.items() if getattr(self, field) is not None)

    @property
    def settings(self) -> Settings:
        """The settings of the job's toolkit."""
        settings: Settings = getattr(self, self.toolkit.field)
        return settings


def _toolkit_conflicts(body: Mapping[str, Any]) -> Iterator[str]:
    keys = [kind.wire_key for kind in Toolkit if kind.wire_key in body]
    if not keys:
        yield f"no toolkit is given: add one of {', '.join(kind.wire_key for kind in Toolkit)}"
    if len(keys) > 1:
        yield f"more than one toolkit is given ({', '.join(keys)}): keep one"
    settings, nodes = body.get(Toolkit.TENSORFLOW.wire_key), body.get("nodeCount")
    servers = settings.get("parameterServerCount") if isinstance(settings, Mapping) else None
    if isinstance(servers, int) and isinstance(nodes, int) and servers > nodes:
        yield f"tensorFlowSettings.parameterServerCount is greater than nodeCount: {servers} > {nodes}"


def _name_conflicts(body: Mapping[str, Any]) -> Iterator[str]:
    for key in ("inputDirectories", "outputDirectories"):
        for name in duplicates(_texts(body, key, "id")):
            yield f"{key}: the id {name} is there twice"
    if STDOUTERR in _texts(body, "outputDirectories", "id"):
        yield f"outputDirectories: the id {STDOUTERR} is taken by the job's own output"
    names = _texts(body, "environmentVariables", "name") + _texts(body, "secrets", "name")
    for name in duplicates(names):
        yield f"environmentVariables and secrets: {name} is there twice"
    toolkit_patterns = (pattern for key, pattern in _RESERVED_BY_TOOLKIT.items() if body.get(key))
    patterns = [_RESERVED_VARIABLES, *toolkit_patterns]
    for key in ("environmentVariables", "secrets"):
        for name in _texts(body, key, "name"):
            if any(pattern.fullmatch(name) for pattern in patterns):
                yield f"{key}: {name} is set for each process of the job: leave it out"


# Variables that are set for each process: its rank, its peers, its job.
_RESERVED_VARIABLES = re.compile(
    r"AZ_BATCH(?:AI)?_\w+|CCP_NODES|BATCHAI_(?:JOB_GUID|ATTEMPT|STOPPING_FILE|SECRET_NAMES)"
    r"|PMI_\w+|PMIX_(?:RANK|NAMESPACE|SERVER_\w+)|OMPI_(?:COMM|UNIVERSE|APP)_\w+|MPI_LOCAL(?:RANKID|NRANKS)"
)
_RESERVED_BY_TOOLKIT = {
    Toolkit.PYTORCH.wire_key: re.compile(
        r"(?:LOCAL_|NODE_|GROUP_|ROLE_|CROSS_)?RANK|(?:LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|(?:LOCAL|CROSS)_SIZE"
        r"|TORCHELASTIC_(?:RESTART_COUNT|MAX_RESTARTS|USE_AGENT_STORE)"
    ),
    Toolkit.TENSORFLOW.wire_key: re.compile("TF_CONFIG"),
}


def _texts(body: Mapping[str, Any], key: str, field: str) -> list[str]:
    items = body.get(key)
    texts = []
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and isinstance(text := item.get(field), str):
            texts.append(text)
    return texts
