"""From a job description and nodes to a launch plan, and the environment of each node. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchai_magics.launch.directories import directories, expand
from batchai_magics.launch.toolkits import TOPOLOGIES
from batchai_magics.launch.values import Directory, JobPlace, LaunchPlan, NodeShare
from batchai_magics.models.job import JobSpec


def plan(spec: JobSpec, nodes: Sequence[NodeShare], place: JobPlace) -> LaunchPlan:
    """What each node of the job starts, in what environment. `nodes` has the job's node count."""
    launcher, processes = TOPOLOGIES[spec.toolkit](spec, nodes, place)
    return LaunchPlan(
        launcher=launcher,
        processes=tuple(processes),
        node_env=tuple(environment(spec, node, place) for node in nodes),
        directories=tuple(tuple(_directories(spec, node, place)) for node in nodes),
        preparation=spec.job_preparation.command_line if spec.job_preparation else None,
    )


def environment(spec: JobSpec, node: NodeShare, place: JobPlace) -> dict[str, str]:
    """The variables of every process on `node`, secrets left out; later ones may refer to earlier ones."""
    base = {
        **_own(node, place),
        **{found.variable: found.path for found in _directories(spec, node, place)},
    }
    for variable in spec.environment_variables or ():
        base[variable.name] = expand(variable.value, base)
    return base


def _directories(spec: JobSpec, node: NodeShare, place: JobPlace) -> Iterator[Directory]:
    return directories(spec, _own(node, place), place.output_segment)


def _own(node: NodeShare, place: JobPlace) -> dict[str, str]:
    """What a node tells each of its processes."""
    return {
        "AZ_BATCHAI_MOUNT_ROOT": node.mount_root,
        "AZ_BATCHAI_JOB_MOUNT_ROOT": node.job_mount_root,
        "AZ_BATCHAI_STDOUTERR_DIR": place.stdouterr,
        "AZ_BATCHAI_JOB_TEMP": node.temp,
        "AZ_BATCHAI_JOB_TEMP_DIR": node.temp,
        "AZ_BATCHAI_SHARED_JOB_TEMP": place.shared_temp,
        "AZ_BATCHAI_MPI_HOST_FILE": place.host_file,
        "AZ_BATCHAI_NUM_GPUS": str(node.gpu_count),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, node.devices)),
    }
