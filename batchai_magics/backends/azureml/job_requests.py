"""The Plan of a job for this service, its limits, and the requests that create what it needs. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchai_magics.backends.azureml.job_names import EXPERIMENT, NAME, SEGMENTS, initial_tags, run_name
from batchai_magics.backends.azureml.node.job_variables import RUN, SPEC, packed
from batchai_magics.backends.azureml.node.node_setup import SHARE_OUTPUT
from batchai_magics.backends.azureml.settings import SPOT, AzureMLSettings
from batchai_magics.errors import Problem, SpecError
from batchai_magics.launch import planning
from batchai_magics.launch.plan import LaunchMode, Plan, PlanNode
from batchai_magics.launch.references import ReferenceKind, joined, reference, references
from batchai_magics.launch.toolkits import JobSite, port_count
from batchai_magics.models.job_spec import JobPriority, JobSpec
from batchai_magics.models.mount_volumes import AzureBlobFileSystem, AzureFileShare
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.wire_times import duration
from batchai_magics.records.record_files import CHANNELS, LABELS

LONGEST_VARIABLE = 100_000  # characters: a program cannot be started with many more
_DAY_S = 86_400
_MAX_DAYS, _MAX_SPOT_DAYS = 21, 7
_LOGS, _OUTPUTS = f"logs/{SEGMENTS}", f"outputs/{SEGMENTS}"
# In a command line the shell finds it; references there would be quoted.
_RUN_SCRIPT = "$AZ_BATCHAI_JOB_TEMP/../programs/batchai_magics/backends/node/ranks/run_script.py"


def run_plan(id: ResourceId, spec: JobSpec, *, gpus_per_node: int, segment: str = "") -> Plan:
    """The plan of a job whose nodes have that many GPUs."""
    names = references(ReferenceKind.NODE, spec.node_count)
    nodes = [PlanNode(name, _below(f"{SEGMENTS}/work")) for name in names]
    segment = segment or f"{SEGMENTS}/{run_name(id)}"
    site = JobSite(
        stdouterr=_below(f"{_LOGS}/stdouterr"),
        shared_temp=_below(f"{SEGMENTS}/shared"),
        host_file=_below(f"{SEGMENTS}/hosts"),
        output_segment=segment,
        mount_root=_below(f"{SEGMENTS}/mounts"),
        job_mount_root=_below(f"{SEGMENTS}/mounts"),
        python="python",
        python_wrapper=_RUN_SCRIPT,
        addresses=references(ReferenceKind.ADDRESS, spec.node_count),
        gpu_count=gpus_per_node,
        core_count=None,
        ports=references(ReferenceKind.PORT, port_count(spec)),
        guid=segment,
        rank_python="python",
        exits=_below(f"{SEGMENTS}/exits"),
        telemetry=_below(f"{_LOGS}/telemetry"),
        machines=_below(f"{_LOGS}/records/machines"),
        module_path=_below(f"{SEGMENTS}/modules"),
        checkpoints=_below(f"{SEGMENTS}/checkpoints"),
        artifacts=_below(f"{_OUTPUTS}/artifacts"),
    )
    plan = planning.plan(spec, nodes, site)
    plan = plan._replace(containers=type(plan.containers)())  # the service runs the image
    preparation = spec.job_preparation
    return planning.with_preparation(preparation.command_line, plan, site) if preparation else plan


def _below(path: str) -> str:
    """A path below the folder in which the service starts processes."""
    return joined([reference(ReferenceKind.SCRATCH, 0), "/", path])


def distribution(spec: JobSpec, plan: Plan) -> Mapping[str, Any]:
    """The service's settings that start the processes of a plan; empty for a single process.

    Raises:
        SpecError: The processes cannot be spread evenly over the nodes.
    """
    count = len(plan.processes)
    if count == 1 and plan.launcher is LaunchMode.DIRECT:
        return {}
    if spec.tensor_flow_settings:
        servers = sum(process.role.value == "ps" for process in plan.processes)
        return {
            "distributionType": "TensorFlow",
            "workerCount": count - servers,
            "parameterServerCount": servers,
        }
    if count % spec.node_count:
        field = f"properties.{spec.toolkit.wire_key}.processCount"
        text = f"{count} processes do not spread evenly over {spec.node_count} nodes"
        raise SpecError([Problem(field, text, "give a multiple of nodeCount")], what=spec.what)
    kind = "Mpi" if plan.launcher is LaunchMode.MPI else "PyTorch"
    return {"distributionType": kind, "processCountPerInstance": count // spec.node_count}


def is_spot(job: JobSpec) -> bool:
    """Whether a job without a cluster asks for low-priority nodes."""
    return SPOT.name in job.backend_options or job.scheduling_priority is JobPriority.LOW


def max_lifetime_s(*, is_spot: bool) -> int:
    """The maximum duration of a job, after which the service ends it; shorter on low-priority nodes."""
    return _DAY_S * (_MAX_SPOT_DAYS if is_spot else _MAX_DAYS)


def check_lifetime(job: JobSpec, *, is_spot: bool) -> None:
    """Raises a SpecError for a job that may run longer than its nodes let it."""
    limit_s = max_lifetime_s(is_spot=is_spot)
    if duration(job.constraints.max_wall_clock_time).total_seconds() > limit_s:
        nodes = "low-priority nodes" if is_spot else "this service"
        text = f"a job on {nodes} runs for at most {limit_s // _DAY_S} days"
        field = "properties.constraints.maxWallClockTime"
        raise SpecError([Problem(field, text, "give less, and save checkpoints")], what=job.what)


def check_variables(job: JobSpec) -> None:
    """Raises a SpecError that names each variable that is too long for a program to be started with."""
    plain = {item.name: len(item.value) for item in job.environment_variables or ()}
    secret = {
        item.name: len(item.value.get_secret_value() if item.value else "") for item in job.secrets or ()
    }
    problems = [
        Problem(
            f"properties.{key}",
            f"{name} has {length:,} characters, more than {LONGEST_VARIABLE:,}",
            "put long texts into files",
        )
        for key, lengths in (("environmentVariables", plain), ("secrets", secret))
        for name, length in lengths.items()
        if length > LONGEST_VARIABLE
    ]
    if problems:
        raise SpecError(problems, what=job.what)


DIGEST = "batchai_digest"  # among the properties of our jobs
START = f"{SEGMENTS}/start.py"
_SLACK_S = 120  # added to the job's own time limit, so that the job can end itself and report why
_PYTHON = '"$(command -v python3 || command -v python)"'
Body = dict[str, Any]


@dataclass(frozen=True)
class JobAssets:
    """The resources of the workspace that a job refers to."""

    code: str  # the id of its code
    environment: str  # the id of its environment
    compute: str = ""  # the id of its compute; empty for none
    size: str = ""  # the VM size of a job without a compute
    is_spot: bool = False  # whether its nodes may be preempted
    # the datastore of each mount, by its path below the mount root
    datastores: Mapping[str, str] = field(default_factory=dict)
    share: str = "autoafs"  # the path of the default share there


def job_body(
    id: ResourceId,
    spec: JobSpec,
    plan: Plan,
    assets: JobAssets,
    settings: AzureMLSettings,
    records: Mapping[str, str],
) -> Body:
    """The body that creates a job.

    Raises:
        SpecError: The description is too long for a variable, or its processes do not spread evenly.
    """
    outputs = _outputs(spec, plan.guid, assets, settings)
    inputs = {
        item.id: {"jobInputType": "uri_folder", "mode": "ReadOnlyMount", "uri": item.path}
        for item in spec.input_directories or ()
        if is_address(item.path)
    }
    own_limit_s = int(duration(spec.constraints.max_wall_clock_time).total_seconds())
    limit_s = min(own_limit_s + _SLACK_S, max_lifetime_s(is_spot=assets.is_spot))
    words = [f'"in:{name}=${{{{inputs.{name}}}}}"' for name in inputs]
    words += [f'"out:{name}=${{{{outputs.{name}}}}}"' for name in outputs]
    container = spec.container_settings
    shm = {"shmSize": container.shm_size} if container and container.shm_size else {}
    target: Body = {"computeId": assets.compute}  # else serverless compute of one of its two tiers
    if not assets.compute:
        target = {"queueSettings": {"jobTier": "Spot" if assets.is_spot else "Standard"}}
    size = {} if assets.compute else {"instanceType": assets.size}
    properties: Body = {
        "jobType": "Command",
        "command": " ".join([_PYTHON, START, *words]),
        "codeId": assets.code,
        "environmentId": assets.environment,
        "experimentName": id.experiment,
        "displayName": id.name,
        "isArchived": False,
        "resources": {"instanceCount": spec.node_count, **size, **shm},
        "environmentVariables": _variables(spec, plan, assets, records),
        "limits": {"jobLimitsType": "Command", "timeout": f"PT{limit_s}S"},
        "properties": {NAME: id.name, EXPERIMENT: id.experiment, DIGEST: digest(spec)},
        "tags": initial_tags(records),
    }
    optional: Body = {
        "distribution": distribution(spec, plan),
        "inputs": inputs,
        "outputs": outputs,
        "identity": _identity(settings.identity) if settings.identity else {},
    }
    non_empty = {name: value for name, value in optional.items() if value}
    return {"properties": {**properties, **target, **non_empty}}


def digest(spec: JobSpec) -> str:
    """The digest of a description, secrets included, by which two are compared."""
    text = json.dumps(spec.to_wire(secrets=True), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def environment_body(image: str, conda: str) -> Body:
    """The body that creates an environment of an image, with the packages of a conda file if one is given."""
    extra = {"condaFile": conda} if conda else {}
    return {"properties": {"image": image, "osType": "Linux", "isAnonymous": True, **extra}}


def environment_version(image: str, conda: str) -> str:
    """The version of an environment: the same for the same contents."""
    return hashlib.sha256(f"{image}\0{conda}".encode()).hexdigest()[:32]


def datastore_name(mount: AzureFileShare | AzureBlobFileSystem) -> str:
    """The name of the datastore of a mount: the same for the same share or container."""
    container = f"{mount.account_name}/{_container_of(mount)}"
    return f"{SEGMENTS}_{hashlib.sha256(container.encode()).hexdigest()[:16]}"


def datastore_body(mount: AzureFileShare | AzureBlobFileSystem) -> Body:
    """The body that creates the datastore of a mount; the service keeps its key in a key vault."""
    key = mount.credentials.account_key
    credentials: Body = {"credentialsType": "None"}
    if key:
        secrets = {"secretsType": "AccountKey", "key": key.get_secret_value()}
        credentials = {"credentialsType": "AccountKey", "secrets": secrets}
    is_share = isinstance(mount, AzureFileShare)
    container = {"fileShareName" if is_share else "containerName": _container_of(mount)}
    return {
        "properties": {
            "datastoreType": "AzureFile" if is_share else "AzureBlob",
            "accountName": mount.account_name,
            "endpoint": "core.windows.net",
            "protocol": "https",
            "credentials": credentials,
            **container,
        }
    }


def _container_of(mount: AzureFileShare | AzureBlobFileSystem) -> str:
    if isinstance(mount, AzureFileShare):
        return mount.azure_file_url.rstrip("/").rpartition("/")[2]
    return mount.container_name


def _variables(spec: JobSpec, plan: Plan, assets: JobAssets, records: Mapping[str, str]) -> dict[str, str]:
    """Our variables, and the secrets, if the user accepts that they are visible; others are in the plan."""
    bundle = {  # read by the nodes
        "plan": plan.to_json(),
        "stop_if": list(spec.batchai_stop_if or ()),
        "patterns": dict(spec.batchai_patterns or {}),
        "share": assets.share,
        "mounts": {path: f"mount_{number}" for number, path in enumerate(assets.datastores)},
        "records": {name: text for name, text in records.items() if name not in (CHANNELS, LABELS)},
    }
    variables = {SPEC: packed(spec.to_wire()), RUN: packed(bundle)}
    if len(variables[RUN]) > LONGEST_VARIABLE:
        variables[RUN] = packed({**bundle, "records": {}})
    if max(map(len, variables.values())) > LONGEST_VARIABLE:
        problem = Problem("properties", "it is too long for this service", "put long texts into files")
        raise SpecError([problem], what=spec.what)
    return {**spec.secret_values, **variables}


def _outputs(spec: JobSpec, segment: str, assets: JobAssets, settings: AzureMLSettings) -> dict[str, Body]:
    """The outputs of a job: its mounts, and the folder of its output directories on the default share."""
    uris = {
        f"mount_{number}": f"azureml://datastores/{store}/paths/"
        for number, store in enumerate(assets.datastores.values())
    }
    if spec.output_directories:
        uris[SHARE_OUTPUT] = f"azureml://datastores/{settings.datastore}/paths/{segment}"
    return {
        name: {"jobOutputType": "uri_folder", "mode": "ReadWriteMount", "uri": uri}
        for name, uri in uris.items()
    }


def is_address(path: str) -> bool:
    """Whether the path of an input is an address that the service mounts."""
    return path.startswith(("azureml:", "https://", "wasbs://", "abfss://"))


def _identity(text: str) -> Body:
    if text.lower() == "user":
        return {"identityType": "UserIdentity"}
    if text.lower() == "managed":
        return {"identityType": "Managed"}
    return {"identityType": "Managed", "clientId": text}
