"""From a job description and nodes to the Plan, and the environment of each node. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchai_magics.launch.directories import directories, expand
from batchai_magics.launch.nodes import JobSite, NodeShare
from batchai_magics.launch.plan import (
    Containers,
    Directory,
    Image,
    Limits,
    LogFile,
    Mount,
    Node,
    Output,
    Plan,
    Process,
)
from batchai_magics.launch.toolkits import TOPOLOGIES
from batchai_magics.models.job import ContainerSettings, JobSpec
from batchai_magics.models.storage import MountVolumes
from batchai_magics.models.times import duration


def plan(spec: JobSpec, nodes: Sequence[NodeShare], site: JobSite) -> Plan:
    """What each node of the job starts, in what environment. `nodes` has the job's node count."""
    launcher, processes = TOPOLOGIES[spec.toolkit](spec, nodes, site)
    wall = spec.constraints.max_wall_clock_time
    return Plan(
        guid=site.guid,
        nodes=tuple(_node(spec, node, site, _threads(nodes, site, len(processes))) for node in nodes),
        processes=tuple(processes),
        output=_output(site, is_shared=len(processes) > 1),
        exits=site.exits,
        python=site.rank_python,
        launcher=launcher,
        limits=Limits(wall, duration(wall).total_seconds(), site.disk_grace_s),
        mounts=mount_commands(spec.mount_volumes),
        containers=Containers(_image(spec.container_settings) if spec.container_settings else None),
        secrets=tuple(secret.name for secret in spec.secrets or ()),
        execution_logs=_execution_logs(site, nodes),
    )


def preparation(spec: JobSpec, plan: Plan, site: JobSite) -> Plan | None:
    """The plan of the job's preparation: one process a node, with log files of its own; None without one."""
    if not spec.job_preparation:
        return None
    command = spec.job_preparation.command_line
    processes = tuple(
        Process(index, index, command, output=_preparation_output(plan, site, node))
        for index, node in enumerate(plan.nodes)
    )
    return plan._replace(processes=processes, exits=site.preparation_exits)


def environment(spec: JobSpec, node: NodeShare, site: JobSite) -> dict[str, str]:
    """The variables of every process on `node`, secrets left out; later ones may refer to earlier ones."""
    base = {
        **_own(node, site),
        **{directory.variable: directory.path for directory in _directories(spec, node, site)},
    }
    for variable in spec.environment_variables or ():
        base[variable.name] = expand(variable.value, base)
    return base


def mount_commands(volumes: MountVolumes | None) -> tuple[Mount, ...]:
    """The mount command of each unmanaged file system, and its path below the mount root."""
    systems = (volumes.unmanaged_file_systems if volumes else None) or ()
    return tuple(Mount(system.mount_command, system.relative_mount_path) for system in systems)


def _image(settings: ContainerSettings) -> Image:
    source = settings.image_source_registry
    username = source.credentials.username if source.credentials else ""
    return Image(source.image, source.server_url or "", username, settings.shm_size or "")


def _node(spec: JobSpec, node: NodeShare, site: JobSite, threads: str) -> Node:
    env = {"OMP_NUM_THREADS": threads, **environment(spec, node, site)}
    return Node(node.id, node.temp, node.tmpdir, env, tuple(_directories(spec, node, site)))


def _threads(nodes: Sequence[NodeShare], site: JobSite, process_count: int) -> str:
    """How many threads a process has, unless the job says otherwise: its share of its node's cores."""
    per_node = -(-process_count // len(nodes))
    return site.thread_count or str(max(1, nodes[0].core_count // per_node))


def _directories(spec: JobSpec, node: NodeShare, site: JobSite) -> Iterator[Directory]:
    return directories(spec, _own(node, site), site.output_segment)


def _output(site: JobSite, *, is_shared: bool) -> Output:
    """Where all processes write; a lone one needs no record of who wrote what."""
    return Output(
        *(
            LogFile(f"{site.stdouterr}/{name}.txt", record.spans if is_shared else "", record.times)
            for name, record in zip(("stdout", "stderr"), site.records, strict=True)
        )
    )


def _preparation_output(plan: Plan, site: JobSite, node: Node) -> Output:
    suffix = f"-{node.id}" if len(plan.nodes) > 1 else ""
    return Output(
        *(LogFile(f"{site.stdouterr}/{name}-job_prep{suffix}.txt") for name in ("stdout", "stderr"))
    )


def _execution_logs(site: JobSite, nodes: Sequence[NodeShare]) -> tuple[str, ...]:
    """`execution.log`, or one of each node when there are several."""
    suffixes = [f"-{node.id}" for node in nodes] if len(nodes) > 1 else [""]
    return tuple(f"{site.stdouterr}/execution{suffix}.log" for suffix in suffixes)


def _own(node: NodeShare, site: JobSite) -> dict[str, str]:
    """What a node tells each of its processes."""
    return {
        "AZ_BATCHAI_MOUNT_ROOT": node.mount_root,
        "AZ_BATCHAI_JOB_MOUNT_ROOT": node.job_mount_root,
        "AZ_BATCHAI_STDOUTERR_DIR": site.stdouterr,
        "AZ_BATCHAI_JOB_TEMP": node.temp,
        "AZ_BATCHAI_JOB_TEMP_DIR": node.temp,
        "AZ_BATCHAI_SHARED_JOB_TEMP": site.shared_temp,
        "AZ_BATCHAI_MPI_HOST_FILE": site.host_file,
        "AZ_BATCHAI_NUM_GPUS": str(node.gpu_count),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, node.devices)),
    }
