"""Prerequisites of a job: the container engine for its image, the setup task of its cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.node import containers
from batchai_magics.backends.service.runner import NodeStatus
from batchai_magics.backends.slurm.node.node_setups import FAILED, NodeSetups, problem
from batchai_magics.errors import CapabilityError
from batchai_magics.launch.plan import Launcher, Plan
from batchai_magics.models.states import NodeState

HOST = "host"  # in place of an engine: jobs run without their image
ENGINES = ("apptainer", "singularity", "enroot", "podman")
_FIELD = "properties.containerSettings"


def container_engine(
    configured: str, *, has_credentials: bool, has: Callable[[str], bool]
) -> tuple[str, ...]:
    """The command that runs a job's containers; empty if jobs run on the host.

    `has` tells whether a program is installed where jobs are submitted, assumed to be like the nodes. Raises
    CapabilityError if no engine is found.
    """
    if has_credentials:
        field = f"{_FIELD}.imageSourceRegistry.credentials"
        raise _unsupported(field, "", "Sign in where the image is pulled; nothing was written.")
    if configured:
        return () if configured.strip() == HOST else containers.engine(configured)
    found = [name for name in ENGINES if has(name)]
    if not found:
        reason = f" here: there is no {', '.join(ENGINES[:-1])} or {ENGINES[-1]}"
        hint = f"Set slurm.container_command to what the nodes have, or to `{HOST}` to do without the image."
        raise _unsupported(_FIELD, reason, hint)
    return (found[0],)


def check_rank_containers(plan: Plan) -> None:
    """Raises CapabilityError if the ranks of several nodes could not find each other from their containers.

    srun hands a rank its process manager as a descriptor, which the processes of a daemon do not inherit:
    each rank would compute alone.
    """
    engine = plan.containers.engine
    is_joined = plan.launcher is Launcher.MPI and len(plan.nodes) > 1
    if plan.containers.image and engine and is_joined and not containers.passes_descriptors(engine):
        reason = (
            f" for MPI on {len(plan.nodes)} nodes with {engine[0]}: its containers cannot join srun's MPI"
        )
        hint = "Set slurm.container_command to podman or apptainer, or run the job on one node."
        raise _unsupported(_FIELD, reason, hint)


def _unsupported(field: str, reason: str, hint: str) -> CapabilityError:
    return CapabilityError(
        f"{field} is not supported by the slurm backend{reason}", code="NotSupported", hint=hint
    )


def secrets_file(layout: Layout, guid: str) -> Path:
    """The secrets of a cluster's setup task; exists only as long as the cluster."""
    return layout.cluster(guid) / "setup-secrets.json"


def setup_folder(layout: Layout, guid: str) -> Path:
    """The results of the setup task, per node."""
    return layout.cluster(guid) / "setup"


def setup_problems(layout: Layout, cluster_guid: str) -> dict[str, str]:
    """Why the setup task failed, by node name."""
    found = NodeSetups(setup_folder(layout, cluster_guid)).all()
    return {name: problem(name, record) for name, record in found.items() if record.exit_code}


def with_setup_problems(
    nodes: Sequence[NodeStatus], problems: Mapping[str, str], busy: Collection[str]
) -> list[NodeStatus]:
    """The nodes of a cluster, with idle ones whose setup failed marked unusable."""
    return [
        node._replace(state=NodeState.UNUSABLE, reason=problems[node.name], code=FAILED)
        if node.name in problems and node.name not in busy
        else node
        for node in nodes
    ]
