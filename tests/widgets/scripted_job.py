"""A job whose state and log a test writes itself: a backend of one job over one folder."""

import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from batchai_magics.backends.base import Backend, Capabilities, Span
from batchai_magics.backends.folders import run_output
from batchai_magics.models.cluster_spec import ClusterSpec, NodeStateCounts
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.job_execution import ExecutionInfo, RankExit
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, JobResource, Node
from batchai_magics.models.response_object import Provisioning
from batchai_magics.models.states import AllocationState, ExecutionState, NodeState

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
JOB = ResourceId.parse(
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/w/experiments/e/jobs/resnet"
)
SPEC = {
    "properties": {
        "cluster": {"id": str(JOB.workspace_id.child(Kind.CLUSTER, "nc6"))},
        "nodeCount": 2,
        "horovodSettings": {"pythonScriptFilePath": "train.py", "processCount": 4},
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
    }
}


def step_line(step, rank=0, rate=100.0, loss=2.0):
    return f"[1,{rank}]<stdout>:{step}\timages/sec: {rate:.1f} +/- 1.0 (jitter = 2.0)\t{loss:.3f}\n"


def train(backend):
    """Writes forty steps of four ranks."""
    for step in range(1, 41):
        for rank in range(4):
            backend.write(step_line(step * 10, rank, 100 + step + rank, 5 / step))


def resource(state=ExecutionState.RUNNING, *, exit_code=None, errors=(), ranks=(), id=JOB, seconds=34):
    ended = START + timedelta(seconds=seconds) if state.is_final else None
    execution = None
    if state is not ExecutionState.QUEUED:
        execution = ExecutionInfo(START, ended, exit_code, tuple(errors))
    spec = JobSpec.model_validate(SPEC["properties"])
    return JobResource(id, spec, Provisioning(START, START), state, START, "segment", execution, tuple(ranks))


def cluster(id, counts):
    account = {"adminUserName": "me", "adminUserPassword": "secret"}
    spec = ClusterSpec.model_validate({"vmSize": "Standard_NC12", "userAccountSettings": account})
    return Cluster(id, spec, Provisioning(START, START), AllocationState.STEADY, START, counts)


FAILURE = {
    "exit_code": 1,
    "errors": [ErrorDetail(code="JobFailed", message="Job exited with non-zero exit code.")],
    "ranks": [RankExit(2, "node-1", 1), RankExit(0, "node-0", None)],
}


class ScriptedBackend(Backend):
    """One job. `write` adds to its log, `finish` ends it; a read gives at most `read_bytes`."""

    capabilities = Capabilities(name="scripted")
    read_bytes = 1 << 20

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.job = resource()
        self.counts = NodeStateCounts(running_node_count=2)
        self.lock = threading.Lock()
        self.spans = {}
        self.write("")

    def write(self, text, file="stdout.txt", *, rank=None):
        with (self.folder / file).open("ab") as out:
            start = out.tell()
            out.write(text if isinstance(text, bytes) else text.encode())
            if rank is not None:
                self.spans.setdefault(file, []).append(Span(start, out.tell(), rank))

    def finish(self, state=ExecutionState.SUCCEEDED, **how):
        self.job = resource(state, **(how or {"exit_code": 0}))
        self.counts = NodeStateCounts(idle_node_count=2)

    def show(self, id):
        return self.job if id.kind is Kind.JOB else cluster(id, self.counts)

    def nodes(self, id):
        """The same for the job and its cluster: nobody else is on it."""
        has_some = self.job.execution is not None and not self.job.state.is_final
        if id.kind is Kind.JOB and not has_some:
            return []
        states = [state for state in NodeState for _ in range(self.counts.of(state))]
        return [Node(f"node-{i}", state, self.job.id if has_some else None) for i, state in enumerate(states)]

    def list(self, parent, kind, page=None):
        return [self.job] if kind is Kind.JOB else []

    def terminate(self, id, *, now=False):
        self.finish(
            ExecutionState.FAILED, exit_code=None, errors=[ErrorDetail(code="JobTerminated", message="x")]
        )

    def files(self, job, directory_id="stdouterr", path="", limit=None):
        return run_output.output_listing(self.folder, "", limit=limit)

    def read(self, file, offset=0, limit=1 << 20):
        is_complete = self.job.state.is_final
        limit = min(limit, self.read_bytes)
        chunk = run_output.read_output(self.folder / file.path, offset, limit, is_complete=is_complete)
        spans = [
            Span(max(span.start, offset), min(span.end, chunk.end), span.rank)
            for span in self.spans.get(file.path, ())
            if span.start < chunk.end and span.end > offset
        ]
        return replace(chunk, spans=tuple(spans))
