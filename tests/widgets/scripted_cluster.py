"""A cluster and its jobs as a test wants them to be: a backend of values, and logs in a folder."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

from batchai_magics.backends.base import Backend, Capabilities, Chunk
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.cluster_spec import ClusterSpec, NodeStateCounts
from batchai_magics.models.job_execution import ExecutionInfo, FileKind, OutputFile
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import Cluster, JobResource, Node
from batchai_magics.models.response_object import Provisioning
from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.states import AllocationState, ExecutionState, NodeState
from tests.widgets.scripted_job import JOB, SPEC, JobSpec, step_line

CLUSTER = JOB.workspace_id.child(Kind.CLUSTER, "nc6")
EXPERIMENT = JOB.parent
ACCOUNT = {"adminUserName": "me", "adminUserPassword": "secret"}
NODES = (NodeState.RUNNING, NodeState.RUNNING, NodeState.IDLE, NodeState.PREPARING)


def now(seconds_ago=0.0):
    return datetime.now(timezone.utc) - timedelta(seconds=seconds_ago)


class Subject:
    """What a command's result tells the views."""

    def __init__(self, backend, id, selected=None):
        self.backend, self.id, self.selected = backend, id, selected


class ScriptedLabels:
    """The labels of jobs by name, and how often they were asked for."""

    def __init__(self):
        self.of = {}
        self.looks = 0

    def tag(self, job, *tags, **parameters):
        self.of[job] = Labels(tags, "", parameters)

    def labels(self, jobs):
        self.looks += 1
        return {id.key: self.of[id.name] for id in jobs if id.name in self.of}


class ScriptedCluster(Backend):
    """One cluster and one experiment. `run` adds a job, `looks` counts what was asked for."""

    capabilities = Capabilities(name="place")

    def __init__(self, folder, nodes=NODES):
        self.folder = Path(folder)
        self.scale = {"manual": {"targetNodeCount": len(nodes)}}
        self.states = list(nodes)
        self.jobs = {}
        self.looks = 0
        self.patches = []

    def run(self, name, state=ExecutionState.RUNNING, *, rates=(), seconds=75, exit_code=None):
        """A job of this state, which has told these images/sec, one a step from each of two ranks."""
        lines = [
            step_line(step * 10, rank, rate / 2) for step, rate in enumerate(rates, 1) for rank in range(2)
        ]
        log = self.folder / name / "stdout.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(lines))
        execution = None
        if state is not ExecutionState.QUEUED:
            code = exit_code if exit_code is not None or not state.is_final else 0
            execution = ExecutionInfo(now(seconds), now() if state.is_final else None, code)
        spec = JobSpec.model_validate(SPEC["properties"])
        made = Provisioning(now(seconds + len(self.jobs)), now(seconds))
        id = EXPERIMENT.child(Kind.JOB, name)
        self.jobs[name] = JobResource(id, spec, made, state, now(), name, execution)

    def tell(self, name, text):
        with (self.folder / name / "stdout.txt").open("a") as log:
            log.write(text)

    @property
    def cluster_subject(self):
        return Subject(self, CLUSTER)

    @property
    def jobs_subject(self):
        return Subject(self, EXPERIMENT)

    def show(self, id):
        self.looks += 1
        if id.kind is Kind.JOB:
            return self.job(id)
        settings = {"vmSize": "Standard_NC6", "userAccountSettings": ACCOUNT, "scaleSettings": self.scale}
        spec = ClusterSpec.from_wire({"properties": settings})
        counts = {f"{state.value}_node_count": self.states.count(state) for state in NodeState}
        is_steady = len(self.states) == self.scale.get("manual", {}).get("targetNodeCount", len(self.states))
        allocation = AllocationState.STEADY if is_steady else AllocationState.RESIZING
        made = Provisioning(START, START)
        return Cluster(id, spec, made, allocation, START, NodeStateCounts(**counts))

    def job(self, id):
        found = {name.lower(): job for name, job in list(self.jobs.items())}.get(id.name.lower())
        if found is None:
            raise NotFoundError("gone", code="JobNotFound")
        return found

    def nodes(self, id):
        running = [job.id for job in list(self.jobs.values()) if job.state is ExecutionState.RUNNING]
        return [
            Node(
                f"tvm-1783593343_{number}-20260301t120000z-p",
                state,
                running[0] if running and state is NodeState.RUNNING else None,
                since=START + timedelta(seconds=7 * number),
            )
            for number, state in enumerate(self.states, 1)
        ]

    def list(self, parent, kind):
        self.looks += 1
        return list(self.jobs.values())

    def update(self, id, patch):
        scale = patch.to_wire()["properties"]["scaleSettings"]
        if scale.get("manual", {}).get("targetNodeCount", 0) > 100:
            raise UsageError("the quota is 100 nodes")
        self.patches.append(scale)
        self.scale = scale

    def terminate(self, id, *, now=False):
        job = self.jobs[id.name]
        self.run(id.name, ExecutionState.FAILED, exit_code=1)
        assert job.id == id

    def files(self, job, directory_id="stdouterr", path="", limit=None):
        folder = self.folder / job.name
        return [OutputFile(f.name, FileKind.FILE, f.stat().st_size) for f in sorted(folder.iterdir())]

    def read(self, file, offset=0, limit=1 << 20):
        path = self.folder / file.job.name / file.path
        is_over = self.job(file.job).state.is_final  # before the bytes: more may come until then
        data = path.read_bytes() if path.exists() else b""
        return Chunk(data[offset : offset + limit], offset, len(data), is_over)


START = now(151)
