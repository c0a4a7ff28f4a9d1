"""`batchai cluster check`: measures the nodes of a cluster, and names those that are bad or slow."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base.resource_requests import JobNeeds
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import cluster_commands
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import ServiceError, UsageError, visible_lines
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.job_spec import JobSpec, PreflightMode
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import Cluster, ExperimentSpec
from batchai_magics.records.preflight import NodeCheck, PreflightReport, size_text

EXPERIMENT = "preflight"  # of the jobs that measure clusters
_TITLES = (
    *("Node", "Result", "Processor", "Memory", "Disk", "Network"),
    *("Free memory", "Free disk", "GPUs", "Python", "Findings"),
)


@dataclass(frozen=True)
class PreflightResult:
    """What was measured on nodes, as table, data and text."""

    report: PreflightReport
    job: str

    def to_data(self) -> Any:
        """Everything that was measured, and the job that did it."""
        return {"job": self.job, **self.report.to_json()}

    def to_table(self) -> Table:
        """A row for each node; rates are per second."""
        return Table(_TITLES, tuple(map(self._row, self.report.nodes)))

    def _row(self, node: NodeCheck) -> tuple[str, ...]:
        rates = (node.processor_rate, node.memory_rate, node.disk_rate, node.network_rate)
        findings = [finding.text for finding in self.report.findings if finding.node == node.node]
        return (
            node.node,
            self.report.result_of(node.node),
            *(f"{size_text(rate)}/s" if rate else "" for rate in rates),
            *(size_text(size) if size else "" for size in (node.memory_free_bytes, node.disk_free_bytes)),
            str(len(node.gpus)),
            node.python,
            visible_lines("; ".join(findings)),
        )

    @property
    def terminal_text(self) -> str:
        """The table, then the result as a sentence."""
        return f"{self.to_table().to_text()}\n\n{visible_lines(self.report.sentence)}"


def check(context: Context, arguments: Namespace) -> PreflightResult:
    """Measures nodes with a job of their cluster, which waits until they are free."""
    cluster = cluster_commands.show(context, arguments)
    assert isinstance(cluster, Cluster)
    count = arguments.nodes or _node_count(cluster)
    experiment = cluster.id.workspace_id.child(Kind.EXPERIMENT, EXPERIMENT)
    id = experiment.child(Kind.JOB, f"{cluster.id.name[:40]}-{time.strftime('%Y%m%d-%H%M%S')}")
    spec = _spec(cluster, count)
    context.backend.ensure(JobNeeds(id, [(experiment, ExperimentSpec())]))
    context.backend.create(id, spec)
    job = Job(context.backend, id)
    try:
        job.wait()
    except KeyboardInterrupt:
        job.cancel()
        raise
    report = job.preflight()
    if report is None:
        raise ServiceError("; ".join(_errors(job)) or "the nodes could not be measured", code="NotChecked")
    return PreflightResult(report, id.name)


def _node_count(cluster: Cluster) -> int:
    """All nodes of the cluster."""
    count = cluster.node_states.total
    if not count:
        hint = "Give --nodes N, or resize the cluster: an auto-scaled one adds nodes for the check."
        raise UsageError(f"cluster {cluster.id.name} has no nodes now", hint=hint)
    return count


def _spec(cluster: Cluster, count: int) -> JobSpec:
    properties = {
        "cluster": {"id": str(cluster.id)},
        "nodeCount": count,
        "schedulingPriority": "high",
        "stdOutErrPathPrefix": "preflight",
        "customToolkitSettings": {"commandLine": "true"},
        "batchaiPreflight": PreflightMode.STOP.value,
    }
    return JobSpec.from_wire({"properties": properties})


def _errors(job: Job) -> Iterator[str]:
    execution = job.show().execution
    yield from (error.message for error in (execution.errors if execution else None) or ())
