"""The Plan of a job on nodes of Azure Machine Learning, which start its processes themselves. Pure.

All paths are below the folder in which the service starts processes; the reference SCRATCH stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.azureml.job_names import SEGMENTS, run_name
from batchai_magics.errors import Problem, SpecError
from batchai_magics.launch import planning
from batchai_magics.launch.job_site import JobSite, NodeShare
from batchai_magics.launch.plan import LaunchMode, Plan
from batchai_magics.launch.references import ReferenceKind, joined, reference
from batchai_magics.launch.toolkits import port_count
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import ResourceId

_LOGS, _OUTPUTS = f"logs/{SEGMENTS}", f"outputs/{SEGMENTS}"
# In a command line the shell finds it; references there would be quoted.
_RUN_SCRIPT = "$AZ_BATCHAI_JOB_TEMP/../programs/batchai_magics/backends/node/ranks/run_script.py"


@dataclass(frozen=True)
class RunPlan:
    """What the nodes of a job are to start, and how the service distributes it.

    Attributes:
        plan: The processes and their preparation.
        distribution: The service's `distribution`; None for a single process.
    """

    plan: Plan
    distribution: Mapping[str, Any] | None


def run_plan(id: ResourceId, spec: JobSpec, *, gpus_per_node: int, segment: str = "") -> RunPlan:
    """The plan of a job whose nodes have that many GPUs.

    Raises:
        SpecError: Its processes cannot be spread evenly over its nodes.
    """
    nodes = [
        NodeShare(
            id=reference(ReferenceKind.NODE, index),
            gpu_count=gpus_per_node,
            mount_root=_below(f"{SEGMENTS}/mounts"),
            job_mount_root=_below(f"{SEGMENTS}/mounts"),
            temp=_below(f"{SEGMENTS}/work"),
            address=reference(ReferenceKind.ADDRESS, index),
            core_count=None,
        )
        for index in range(spec.node_count)
    ]
    site = _site(spec, segment or f"{SEGMENTS}/{run_name(id)}")
    plan = planning.plan(spec, nodes, site)
    plan = plan._replace(containers=type(plan.containers)())  # the service runs the image
    return RunPlan(planning.with_preparation(spec, plan, site), _distribution(spec, plan))


def _site(spec: JobSpec, segment: str) -> JobSite:
    ports = (reference(ReferenceKind.PORT, index) for index in range(port_count(spec)))
    return JobSite(
        stdouterr=_below(f"{_LOGS}/stdouterr"),
        shared_temp=_below(f"{SEGMENTS}/shared"),
        host_file=_below(f"{SEGMENTS}/hosts"),
        output_segment=segment,
        python="python",
        python_wrapper=_RUN_SCRIPT,
        ports=tuple(ports),
        guid=segment,
        rank_python="python",
        exits=_below(f"{_LOGS}/exits"),
        telemetry=_below(f"{_LOGS}/telemetry"),
        machines=_below(f"{_LOGS}/records/machines"),
        module_path=_below(f"{SEGMENTS}/modules"),
        checkpoints=_below(f"{SEGMENTS}/checkpoints"),
        artifacts=_below(f"{_OUTPUTS}/artifacts"),
    )


def _below(path: str) -> str:
    """A path below the folder in which the service starts processes."""
    return joined([reference(ReferenceKind.SCRATCH, 0), "/", path])


def _distribution(spec: JobSpec, plan: Plan) -> Mapping[str, Any] | None:
    count = len(plan.processes)
    if count == 1 and plan.launcher is LaunchMode.DIRECT:
        return None
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
