"""Where a job runs, and one topology per toolkit: its processes, their nodes, commands and variables. Pure.

The rules are in the descriptions of the toolkit settings in the 2018-05-01 specification.
"""

from __future__ import annotations

import bisect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from batchai_magics.launch.plan import LaunchMode, LogPaths, Output, Process, Role
from batchai_magics.launch.references import SharedTexts, joined, json_text

if TYPE_CHECKING:  # programs that plan the setup of nodes do without the models
    from batchai_magics.models import toolkit_settings as settings_of
    from batchai_magics.models.job_spec import JobSpec

_TORCH_BACKEND = "gloo"  # used if the description has none

Topology = tuple[LaunchMode, list[Process]]

NO_RECORDS = Output(LogPaths(""), LogPaths(""))
HOST_LISTS = ("AZ_BATCH_HOST_LIST", "AZ_BATCH_NODE_LIST", "CCP_NODES")


@dataclass(frozen=True)
class JobSite:
    """What the nodes of a job share: folders, interpreters, hardware; addresses, devices and free TCP ports.

    Those of nodes that are yet unknown are references. `records` says where ranks record spans and times of
    both streams, `hidden` is the folder for the redacted spans of each log.
    """

    stdouterr: str
    shared_temp: str
    host_file: str
    output_segment: str
    mount_root: str
    job_mount_root: str
    python: str  # runs the job's scripts
    addresses: tuple[str, ...]  # where other nodes reach the processes of each node
    gpu_count: int = 0  # of each node
    core_count: int | None = 1  # of each node; None as long as the nodes are unknown
    devices: tuple[str, ...] = ()  # of each node, as CUDA_VISIBLE_DEVICES has them; none: not ours
    python_wrapper: str = ""  # runs a script so that an error in one rank ends the job
    ports: tuple[int | str, ...] = ()
    guid: str = ""
    rank_python: str = ""  # runs the rank program
    exits: str = ""
    preparation_exits: str = ""
    records: Output = NO_RECORDS
    hidden: str = ""
    telemetry: str = ""  # folder for resource usage samples
    machines: str = ""  # folder for records of the machines
    device_order: str = "PCI_BUS_ID"  # how CUDA numbers GPUs: like the driver's tools
    disk_grace_s: float = 60.0
    module_path: str = ""  # appended to the job's own PYTHONPATH
    checkpoints: str = ""  # the folder that a run keeps between its attempts
    artifacts: str = ""  # the folder of what it saves under a name
    texts: SharedTexts = field(default_factory=SharedTexts)  # of the plan that is being made
    hosts: tuple[str, ...] = ()  # the values of HOST_LISTS, or references to them


class ScriptSettings(Protocol):
    """The settings of a toolkit that runs a Python script."""

    @property
    def python_script_file_path(self) -> str | None:
        """The path of the script."""

    @property
    def python_interpreter_path(self) -> str | None:
        """The Python that runs it; the site's by default."""


def process_count(job: JobSpec, gpus_per_node: int) -> int:
    """The number of processes: as requested, else one per GPU (per node without GPUs)."""
    return requested_processes(job) or job.node_count * max(1, gpus_per_node)


def requested_processes(job: JobSpec) -> int | None:
    """The number of processes that a job describes; None if it depends on the GPUs of its nodes."""
    if job.custom_toolkit_settings:
        return job.custom_toolkit_settings.batchai_process_count or 1
    if job.tensor_flow_settings:
        return job.tensor_flow_settings.worker_count or job.node_count
    if job.caffe2_settings:
        return job.node_count
    count: int | None = getattr(job.settings, "process_count", None)
    return count


def port_count(job: JobSpec) -> int:
    """The number of free TCP ports that the plan needs."""
    if job.tensor_flow_settings:
        return process_count(job, 0) + server_count(job)
    return 1 if job.py_torch_settings else 0


def server_count(job: JobSpec) -> int:
    """The number of parameter servers; a single node without counts has only the master."""
    settings = job.tensor_flow_settings
    if not settings or (
        job.node_count == 1 and not (settings.worker_count or settings.parameter_server_count)
    ):
        return 0
    return settings.parameter_server_count or 1


def topology(job: JobSpec, site: JobSite) -> Topology:
    """How the processes of a job are started, and each of them."""
    return TOPOLOGIES[job.toolkit.wire_key](job.settings, job, site)


def _under_mpi(command: str, job: JobSpec, site: JobSite) -> Topology:
    count = process_count(job, site.gpu_count)
    return LaunchMode.MPI, [
        Process(i, node, command) for i, node in enumerate(block_placement(count, job.node_count))
    ]


def block_placement(process_count: int, node_count: int) -> list[int]:
    """The node of each rank: ranks fill a node before the next."""
    per_node = math.ceil(process_count / node_count)
    return [rank // per_node for rank in range(process_count)]


def _horovod(
    settings: settings_of.HorovodSettings | settings_of.ChainerSettings,
    job: JobSpec,
    site: JobSite,
) -> Topology:
    return _under_mpi(_script(settings, site, settings.command_line_args, wrapped=True), job, site)


def _custom(settings: settings_of.CustomToolkitSettings, job: JobSpec, site: JobSite) -> Topology:
    """One process on the first node, as in the service, or the requested number, each with its index."""
    command = settings.command_line or "true"
    if not settings.batchai_process_count:
        return LaunchMode.DIRECT, [Process(0, 0, command)]
    placement = block_placement(process_count(job, site.gpu_count), job.node_count)
    return LaunchMode.DIRECT, [
        Process(index, node, command, env={"AZ_BATCHAI_TASK_INDEX": str(index)})
        for index, node in enumerate(placement)
    ]


def _cntk(settings: settings_of.CntkSettings, job: JobSpec, site: JobSite) -> Topology:
    is_distributed = process_count(job, site.gpu_count) > 1
    if settings.python_script_file_path:
        command = _script(settings, site, settings.command_line_args, wrapped=is_distributed)
    else:
        parallel = "parallelTrain=true" if is_distributed else ""
        command = _words("cntk", f"configFile={_quoted(settings.config_file_path or '')}", parallel)
        command = _words(command, settings.command_line_args)
    return _mpi_if(is_distributed, command, job, site)


def _caffe(settings: settings_of.CaffeSettings, job: JobSpec, site: JobSite) -> Topology:
    is_distributed = process_count(job, site.gpu_count) > 1
    if settings.python_script_file_path:
        command = _script(settings, site, settings.command_line_args, wrapped=is_distributed)
    else:
        solver = f"--solver={_quoted(settings.config_file_path or '')}"
        command = _words("caffe train", solver, settings.command_line_args)
    return _mpi_if(is_distributed, command, job, site)


def _mpi_if(is_distributed: bool, command: str, job: JobSpec, site: JobSite) -> Topology:
    return _under_mpi(command, job, site) if is_distributed else (LaunchMode.DIRECT, [Process(0, 0, command)])


def _caffe2(settings: settings_of.Caffe2Settings, job: JobSpec, site: JobSite) -> Topology:
    command = _script(settings, site, settings.command_line_args)
    return LaunchMode.DIRECT, [
        Process(i, i, command, env={"AZ_BATCHAI_TASK_INDEX": str(i)}) for i in range(job.node_count)
    ]


def _pytorch(settings: settings_of.PyTorchSettings, job: JobSpec, site: JobSite) -> Topology:
    backend = (settings.communication_backend or "").lower()
    if backend == "mpi":
        return _under_mpi(_script(settings, site, settings.command_line_args, wrapped=True), job, site)
    placement = block_placement(process_count(job, site.gpu_count), job.node_count)
    rendezvous = {
        # torch's own rendezvous, and the variable that recipes pass to init_process_group.
        "AZ_BATCHAI_PYTORCH_BACKEND": backend or _TORCH_BACKEND,
        "AZ_BATCHAI_PYTORCH_INIT_METHOD": joined(["tcp://", site.addresses[0], ":", _port(site, 0)]),
        "MASTER_ADDR": site.addresses[0],
        "MASTER_PORT": _port(site, 0),
        "WORLD_SIZE": str(len(placement)),
        # what torchrun and the launcher of DeepSpeed set alike for every process
        "GROUP_WORLD_SIZE": str(job.node_count),
        "CROSS_SIZE": str(job.node_count),
        "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": str(len(placement)),
        "TORCHELASTIC_RUN_ID": site.guid or "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",  # rank 0 listens itself
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }
    return LaunchMode.DIRECT, [
        Process(
            rank,
            node,
            _script(settings, site, settings.command_line_args),
            env={**rendezvous, **_torch_rank(rank, node, placement, site)},
        )
        for rank, node in enumerate(placement)
    ]


def _torch_rank(rank: int, node: int, placement: Sequence[int], site: JobSite) -> dict[str, str]:
    first, end = bisect.bisect_left(placement, node), bisect.bisect_right(placement, node)
    local, on_node = str(rank - first), str(end - first)
    return {
        "RANK": str(rank),
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": on_node,
        "LOCAL_SIZE": on_node,
        "GROUP_RANK": str(node),
        "CROSS_RANK": str(node),
        "ROLE_RANK": str(rank),
        "TORCHELASTIC_ERROR_FILE": joined([site.shared_temp, f"/torch-error-{rank}.json"]),
        "AZ_BATCHAI_TASK_INDEX": str(rank),
    }


def _tensorflow(settings: settings_of.TensorFlowSettings, job: JobSpec, site: JobSite) -> Topology:
    """Worker 0 is the master."""
    worker_count = settings.worker_count or job.node_count  # including the master
    tasks = [(Role.WORKER if i else Role.MASTER, i) for i in range(worker_count)]
    tasks += [(Role.PARAMETER_SERVER, i) for i in range(server_count(job))]
    hosts = [
        joined([site.addresses[index % job.node_count], ":", _port(site, position)])
        for position, (_, index) in enumerate(tasks)
    ]
    workers = hosts[:worker_count]
    servers = hosts[worker_count:]
    cluster = {"master": workers[:1], "worker": workers[1:], "ps": servers}
    texts = {
        "AZ_BATCHAI_PS_HOSTS": joined(servers, ","),
        "AZ_BATCHAI_WORKER_HOSTS": joined(workers, ","),
        "TF_CONFIG": json_text({name: hosts for name, hosts in cluster.items() if hosts}),
    }
    common = {name: site.texts.shared(text) for name, text in texts.items()}
    args = {
        Role.MASTER: settings.master_command_line_args,
        Role.WORKER: settings.worker_command_line_args,
        Role.PARAMETER_SERVER: settings.parameter_server_command_line_args,
    }
    processes = []
    for position, (role, index) in enumerate(tasks):
        command = _script(settings, site, args[role])
        task = json.dumps({"type": role.value, "index": index - 1 if role is Role.WORKER else index})
        config = ['{"cluster": ', common["TF_CONFIG"], ', "task": ', task, ', "environment": "cloud"}']
        env = {**common, "AZ_BATCHAI_TASK_INDEX": str(index), "TF_CONFIG": joined(config)}
        processes.append(Process(position, index % job.node_count, command, role, env))
    return LaunchMode.DIRECT, processes


# By the key of the settings in job.json.
TOPOLOGIES: Mapping[str, Callable[..., Topology]] = {
    "cntkSettings": _cntk,
    "pyTorchSettings": _pytorch,
    "tensorFlowSettings": _tensorflow,
    "caffeSettings": _caffe,
    "caffe2Settings": _caffe2,
    "chainerSettings": _horovod,
    "customToolkitSettings": _custom,
    "customMpiSettings": lambda settings, job, site: _under_mpi(settings.command_line, job, site),
    "horovodSettings": _horovod,
}


def _script(settings: ScriptSettings, site: JobSite, args: str | None, *, wrapped: bool = False) -> str:
    """`exec python script args` for a shell, which expands the `$AZ_BATCHAI_*` in it."""
    wrapper = site.python_wrapper if wrapped else ""
    paths = (settings.python_interpreter_path or site.python, wrapper, settings.python_script_file_path)
    return _words("exec", *map(_quoted, filter(None, paths)), args)


def _words(*words: str | None) -> str:
    return " ".join(filter(None, words))


def _quoted(path: str) -> str:
    """A path in double quotes: variables are expanded, blanks are safe."""
    for sign in ("\\", '"', "`"):
        path = path.replace(sign, "\\" + sign)
    return f'"{path}"'


def _port(site: JobSite, index: int) -> str:
    port = site.ports[index] if index < len(site.ports) else 0
    return port if isinstance(port, str) else str(port)
