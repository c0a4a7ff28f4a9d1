"""How large a job may be: its nodes, processes and variables, checked before anything is planned. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchai_magics.errors import Problem, SpecError
from batchai_magics.launch.references import Variables
from batchai_magics.launch.toolkits import HOST_LISTS, process_count, server_count

if TYPE_CHECKING:
    from batchai_magics.config import Settings
    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.mount_volumes import EnvironmentVariable

_ADDRESS_BYTES = 40  # of a node, in the lists of all of them
_PATH_BYTES = 200  # of what an engine sets: folders and numbers
_PREFIXES = ("AZ_BATCH", "BATCHAI", "CUDA")  # of their names
_COUNTS = ("process_count", "batchai_process_count", "worker_count", "parameter_server_count")


@dataclass(frozen=True)
class JobBounds:
    """The largest job that is planned; the cost of a plan grows with each of these numbers."""

    nodes: int = 256
    processes: int = 2048
    environment_kib: int = 128

    @classmethod
    def of(cls, settings: Settings) -> JobBounds:
        """Those of the settings."""
        return cls(settings.max_nodes, settings.max_processes, settings.max_environment_kib)

    def check(self, job: JobSpec, *, gpus_per_node: int) -> None:
        """Raises a SpecError that names each field that is too large, and its setting."""
        problems = [*self._counts(job, gpus_per_node)]
        if job.environment_variables:
            problems += self._variables(job.environment_variables, job.node_count, "properties")
        if problems:
            raise SpecError(problems, what=job.what)

    def check_cluster(self, cluster: ClusterSpec) -> None:
        """Raises a SpecError if the variables of its setup task are too large."""
        task = cluster.node_setup.setup_task if cluster.node_setup else None
        if task and task.environment_variables:
            where = "properties.nodeSetup.setupTask"
            if problems := [*self._variables(task.environment_variables, 0, where)]:
                raise SpecError(problems, what=cluster.what)

    def _counts(self, job: JobSpec, gpus_per_node: int) -> Iterator[Problem]:
        processes = process_count(job, gpus_per_node) + server_count(job)
        if job.node_count > self.nodes:
            text = f"{job.node_count} nodes are more than {self.nodes}"
            yield Problem("properties.nodeCount", text, _hint("max_nodes"))
        elif processes > self.processes:
            text = f"{processes} processes are more than {self.processes}"
            requested = {name: getattr(job.settings, name, None) or 0 for name in _COUNTS}
            largest = max(requested, key=lambda name: requested[name])  # what asks for the most processes
            field = "batchaiGpus" if job.batchai_gpus else "nodeCount"
            if requested[largest]:
                field = f"{job.toolkit.wire_key}.{type(job.settings).model_fields[largest].alias}"
            yield Problem(f"properties.{field}", text, _hint("max_processes"))

    def _variables(
        self, variables: Sequence[EnvironmentVariable], node_count: int, where: str
    ) -> Iterator[Problem]:
        lists = dict.fromkeys(HOST_LISTS, node_count * _ADDRESS_BYTES)
        sizes = Variables({**dict.fromkeys(_PREFIXES, _PATH_BYTES), **lists})
        total = 0
        for item in variables:
            pieces = sizes.split_references(item.value)
            size = sum(len(text.encode()) + (sizes[name] if name else 0) for text, name in pieces)
            sizes[item.name] = size
            total += len(item.name) + size
        if total > self.environment_kib << 10:
            text = f"the variables are larger than {self.environment_kib} KiB once they are expanded"
            yield Problem(f"{where}.environmentVariables", text, _hint("max_environment_kib"))


def _hint(setting: str) -> str:
    return f"see the setting {setting} where the jobs run"
