"""One topology a toolkit: how many processes, on which nodes, with which commands and variables. Pure.

The rules are those of the 2018-05-01 specification's descriptions of the toolkit settings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence

from batchai_magics.launch.nodes import JobSite, NodeShare
from batchai_magics.launch.plan import Launcher, Process, Role
from batchai_magics.models.job import JobSpec
from batchai_magics.models.toolkits import (
    Caffe2Settings,
    CaffeSettings,
    ChainerSettings,
    CntkSettings,
    CustomMpiSettings,
    CustomToolkitSettings,
    HorovodSettings,
    PyTorchSettings,
    TensorFlowSettings,
    Toolkit,
)

_TORCH_BACKEND = "gloo"  # where the description names none

Topology = tuple[Launcher, list[Process]]


def process_count(spec: JobSpec, gpus_per_node: int) -> int:
    """How many processes the job has: what it asks for, else one a GPU (one a node without GPUs)."""
    settings = spec.settings
    asked = getattr(settings, "process_count", None) or getattr(settings, "worker_count", None)
    if isinstance(settings, CustomToolkitSettings):
        return 1
    if isinstance(settings, Caffe2Settings | TensorFlowSettings):
        return asked or spec.node_count
    return asked or spec.node_count * max(1, gpus_per_node)


def port_count(spec: JobSpec) -> int:
    """How many free TCP ports the plan needs."""
    settings = spec.settings
    if isinstance(settings, TensorFlowSettings):
        return (settings.worker_count or spec.node_count) + (settings.parameter_server_count or 1)
    return 1 if isinstance(settings, PyTorchSettings) else 0


def _under_mpi(command: str, spec: JobSpec, nodes: Sequence[NodeShare]) -> Topology:
    count = process_count(spec, nodes[0].gpu_count)
    return Launcher.MPI, [
        Process(i, node, command) for i, node in enumerate(block_placement(count, len(nodes)))
    ]


def block_placement(process_count: int, node_count: int) -> list[int]:
    """The node of each rank: ranks fill a node before the next."""
    per_node = math.ceil(process_count / node_count)
    return [rank // per_node for rank in range(process_count)]


def _horovod(spec: JobSpec, nodes: Sequence[NodeShare], site: JobSite) -> Topology:
    settings = spec.settings
    assert isinstance(settings, HorovodSettings | ChainerSettings)
    return _under_mpi(_script(settings, site, wrapped=True), spec, nodes)


def _mpi(spec: JobSpec, nodes: Sequence[NodeShare], site: JobSite) -> Topology:
    settings = spec.settings
    assert isinstance(settings, CustomMpiSettings)
    return _under_mpi(settings.command_line, spec, nodes)


def _custom(spec: JobSpec, nodes: Sequence[NodeShare], site: JobSite) -> Topology:
    settings = spec.settings
    assert isinstance(settings, CustomToolkitSettings)
    return Launcher.DIRECT, [Process(0, 0, settings.command_line or "true")]


def _cntk(spec: JobSpec, nodes: Sequence[NodeShare], site: JobSite) -> Topology:
    settings = spec.settings
    assert isinstance(settings, CntkSettings)
    is_distributed = process_count(spec, nodes[0].gpu_count) > 1
    if settings.python_script_file_path:
        command = _script(settings, site, wrapped=is_distributed)
    else:
        parallel = "parallelTrain=true" if is_distributed else ""
        command = _words("cntk", f"configFile={_quoted(settings.config_file_path or '')}", parallel)
        command = _words(command, settings.command_line_args)
    return _mpi_if(is_distributed, command, spec, nodes)


def _caffe(spec: JobSpec, nodes: Sequence[NodeShare], site: JobSite) -> Topology:
    settings = spec.settings
    assert isinstance(settings, CaffeSettings)
    is_distributed = process_count(spec, nodes[0].gpu_count) > 1
    if settings.python_script_file_path:
        command = _script(settings, site, wrapped=is_distributed)
    else:
        solver = f"--solver={_quoted(settings.config_file_path or '')}"
        command = _words("caffe train", solver, settings.command_line_args)
    return _mpi_if(is_distributed, command, spec, nodes)


def _mpi_if(is_distributed: bool, command: str, spec: JobSpec, nodes: Sequence[NodeShare]) -> Topology:
    return _under_mpi(command, spec, nodes) if is_distributed else (Launcher.DIRECT, [Process(0, 0, command)])


def _caffe2(spec: JobSpec, nodes: Sequence[NodeShare], site: JobSite) -> Topology:
    settings = spec.settings
    assert isinstance(settings, Caffe2Settings)
    command = _script(settings, site)
    return Launcher.DIRECT, [
        Process(i, i, command, env={"AZ_BATCHAI_TASK_INDEX": str(i)}) for i in range(len(nodes))
    ]


def _pytorch(spec: JobSpec, nodes: Sequence[NodeShare], site: JobSite) -> Topology:
    settings = spec.settings
    assert isinstance(settings, PyTorchSettings)
    backend = (settings.communication_backend or "").lower()
    if backend == "mpi":
        return _under_mpi(_script(settings, site, wrapped=True), spec, nodes)
    placement = block_placement(process_count(spec, nodes[0].gpu_count), len(nodes))
    meeting = {
        # torch's own rendezvous, and the variable the recipes hand to init_process_group.
        "AZ_BATCHAI_PYTORCH_BACKEND": backend or _TORCH_BACKEND,
        "AZ_BATCHAI_PYTORCH_INIT_METHOD": f"tcp://{nodes[0].address}:{_port(site, 0)}",
        "MASTER_ADDR": nodes[0].address,
        "MASTER_PORT": str(_port(site, 0)),
        "WORLD_SIZE": str(len(placement)),
    }
    return Launcher.DIRECT, [
        Process(rank, node, _script(settings, site), env={**meeting, **_torch_rank(rank, placement)})
        for rank, node in enumerate(placement)
    ]


def _torch_rank(rank: int, placement: Sequence[int]) -> dict[str, str]:
    local = rank - placement.index(placement[rank])
    return {"RANK": str(rank), "LOCAL_RANK": str(local), "AZ_BATCHAI_TASK_INDEX": str(rank)}


def _tensorflow(spec: JobSpec, nodes: Sequence[NodeShare], site: JobSite) -> Topology:
    """Worker 0 is the master. Without counts and on one node there is the master alone."""
    settings = spec.settings
    assert isinstance(settings, TensorFlowSettings)
    worker_count, server_count = _tensorflow_counts(settings, len(nodes))
    tasks = [(Role.WORKER if i else Role.MASTER, i) for i in range(worker_count)]
    tasks += [(Role.PARAMETER_SERVER, i) for i in range(server_count)]
    hosts = [
        f"{nodes[index % len(nodes)].address}:{_port(site, position)}"
        for position, (_, index) in enumerate(tasks)
    ]
    workers, servers = hosts[:worker_count], hosts[worker_count:]
    args = {
        Role.MASTER: settings.master_command_line_args,
        Role.WORKER: settings.worker_command_line_args,
        Role.PARAMETER_SERVER: settings.parameter_server_command_line_args,
    }
    processes = []
    for position, (role, index) in enumerate(tasks):
        command = _script(settings, site, args=args[role])
        env = _tensorflow_env(role, index, workers, servers)
        processes.append(Process(position, index % len(nodes), command, role, env))
    return Launcher.DIRECT, processes


def _tensorflow_counts(settings: TensorFlowSettings, node_count: int) -> tuple[int, int]:
    """How many workers (the master is one) and parameter servers there are."""
    if node_count == 1 and not settings.worker_count and not settings.parameter_server_count:
        return 1, 0
    return settings.worker_count or node_count, settings.parameter_server_count or 1


def _tensorflow_env(role: Role, index: int, workers: list[str], servers: list[str]) -> dict[str, str]:
    cluster = {"master": workers[:1], "worker": workers[1:], "ps": servers}
    task = {"type": role.value, "index": index - 1 if role is Role.WORKER else index}
    config = {"cluster": {name: hosts for name, hosts in cluster.items() if hosts}, "task": task}
    return {
        "AZ_BATCHAI_PS_HOSTS": ",".join(servers),
        "AZ_BATCHAI_WORKER_HOSTS": ",".join(workers),
        "AZ_BATCHAI_TASK_INDEX": str(index),
        "TF_CONFIG": json.dumps({**config, "environment": "cloud"}),
    }


TOPOLOGIES: dict[Toolkit, Callable[[JobSpec, Sequence[NodeShare], JobSite], Topology]] = {
    Toolkit.CNTK: _cntk,
    Toolkit.PYTORCH: _pytorch,
    Toolkit.TENSORFLOW: _tensorflow,
    Toolkit.CAFFE: _caffe,
    Toolkit.CAFFE2: _caffe2,
    Toolkit.CHAINER: _horovod,
    Toolkit.CUSTOM: _custom,
    Toolkit.MPI: _mpi,
    Toolkit.HOROVOD: _horovod,
}


# -- command lines -------------------------------------------------------------

ScriptSettings = (
    CntkSettings
    | PyTorchSettings
    | TensorFlowSettings
    | CaffeSettings
    | Caffe2Settings
    | ChainerSettings
    | HorovodSettings
)


def _script(
    settings: ScriptSettings, site: JobSite, *, wrapped: bool = False, args: str | None = None
) -> str:
    """`exec python script args`, for a shell, which expands the `$AZ_BATCHAI_*` in it."""
    python = _quoted(settings.python_interpreter_path or site.python)
    wrapper = _quoted(site.python_wrapper) if wrapped and site.python_wrapper else ""
    script = _quoted(settings.python_script_file_path or "")
    arguments = args if isinstance(settings, TensorFlowSettings) else settings.command_line_args
    return _words("exec", python, wrapper, script, arguments)


def _words(*words: str | None) -> str:
    return " ".join(word for word in words if word)


def _quoted(path: str) -> str:
    """A path in double quotes: variables in it are expanded, blanks keep it whole."""
    for sign in ("\\", '"', "`"):
        path = path.replace(sign, "\\" + sign)
    return f'"{path}"'


def _port(site: JobSite, index: int) -> int:
    return site.ports[index] if index < len(site.ports) else 0
