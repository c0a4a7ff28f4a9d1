"""Which processes a distribution has, and the variables that the service sets for each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.azureml.jobs import Job
from tests.azureml.workspace import GROUP, LOCATION, ROOT, SUBSCRIPTION, WORKSPACE

LOG_WIDTH = 2


@dataclass(frozen=True)
class Role:
    """One process of a job."""

    node: int
    log: str
    env: Mapping[str, str]


def roles_of(job: Job, port: int) -> list[Role]:
    """The processes of a job, in the order of their ranks."""
    distribution = job.properties.get("distribution") or {}
    kind = distribution.get("distributionType")
    if kind in ("Mpi", "PyTorch"):
        per_node = distribution.get("processCountPerInstance") or 1
        return [_rank(job, rank, per_node, port) for rank in range(job.node_count * per_node)]
    return [Role(0, "std_log.txt", {})]


def is_mpi(job: Job) -> bool:
    """Whether MPI's launcher starts the processes."""
    return (job.properties.get("distribution") or {}).get("distributionType") == "Mpi"


def _rank(job: Job, rank: int, per_node: int, port: int) -> Role:
    node, local, size = rank // per_node, rank % per_node, job.node_count * per_node
    numbers = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": per_node}
    if is_mpi(job):
        numbers = {f"OMPI_COMM_WORLD_{name.removeprefix('WORLD_')}": n for name, n in numbers.items()}
        numbers["OMPI_COMM_WORLD_LOCAL_SIZE"] = numbers.pop("OMPI_COMM_WORLD_LOCAL_WORLD_SIZE")
        numbers["OMPI_UNIVERSE_SIZE"] = size
    else:
        numbers |= {"NODE_RANK": node, "MASTER_PORT": port}
    env = {name: str(number) for name, number in numbers.items()}
    if not is_mpi(job):
        env["MASTER_ADDR"] = address(0)
    return Role(node, f"std_log_process_{rank:0{LOG_WIDTH}}.txt", env)


def address(node: int) -> str:
    """Where the processes of a node listen: all nodes are this machine."""
    return f"127.0.0.{1 + node}"


def node_env(job: Job, node: int, folder: Path, port: int) -> dict[str, str]:
    """What the service sets on a node: also Batch AI's names, which it still has."""
    hosts = ",".join(address(number) for number in range(job.node_count))
    work = folder / "exe" / "wd"
    several = {
        "AZ_BATCH_MASTER_NODE": f"{address(0)}:{port}",
        "AZ_BATCHAI_MPI_MASTER_NODE": address(0),
        "AZ_BATCH_HOST_LIST": hosts,
        "AZ_BATCH_NODE_LIST": hosts.replace(",", ";"),
    }
    compute = job.properties.get("computeId") or "serverless"
    return {
        **_basics(folder),
        **_run_variables(job),
        **(several if job.node_count > 1 else {}),
        "AZUREML_NODE_COUNT": str(job.node_count),
        "AZ_BATCHAI_CLUSTER_NAME": compute.rpartition("/")[2],
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": address(0),
        "AZ_BATCHAI_JOB_TEMP": str(folder / "tmp"),
        "AZ_BATCHAI_JOB_WORK_DIR": str(work),
        "AZ_BATCHAI_STDOUTERR_DIR": str(folder / "stdouterr"),
        "AZ_BATCHAI_RUN_STATUS": "running",
        "HOSTNAME": f"node{node}",
    }


def _run_variables(job: Job) -> dict[str, str]:
    experiment = job.properties["experimentName"]
    return {
        "AZUREML_RUN_ID": job.name,
        "AZUREML_ARM_SUBSCRIPTION": SUBSCRIPTION,
        "AZUREML_ARM_RESOURCEGROUP": GROUP,
        "AZUREML_ARM_WORKSPACE_NAME": WORKSPACE,
        "AZUREML_ARM_PROJECT_NAME": experiment,
        "AZUREML_RUN_TOKEN": "token-of-the-run",
        "AZUREML_SERVICE_ENDPOINT": f"https://{LOCATION}.api.azureml.ms",
        "MLFLOW_EXPERIMENT_NAME": experiment,
        "MLFLOW_RUN_ID": job.name,
        "MLFLOW_TRACKING_URI": f"azureml://{LOCATION}.api.azureml.ms/mlflow/v1.0{ROOT}",
    }


def _basics(folder: Path) -> dict[str, str]:
    """What an image sets. Its Python is that of the tests, without this package."""
    system = os.environ.get("PATH", os.defpath)
    return {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), system)),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(folder.parent / "fence"),
    }


def write_fence(root: Path) -> None:
    """Hides the package that is tested: an image does not have it."""
    fence = root / "fence" / "batchai_magics"
    fence.mkdir(parents=True)
    (fence / "__init__.py").write_text("raise ImportError('the image has no batchai_magics')\n")
