"""A sweep as a test wants it to be: trials with the states and metrics that it sets."""

import dataclasses
import math

from batchai_magics.cell.cell_options import SweepOptions
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.sweeps.sweep_definition import SweepDefinition
from batchai_magics.jobs.sweeps.trial import TrialResult
from batchai_magics.metrics.reading.progress_reader import Progress
from batchai_magics.metrics.runs.metric_traits import Direction, traits_of
from batchai_magics.metrics.runs.run_metrics import Metric, MetricColumns
from batchai_magics.models.job_execution import ExecutionInfo
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.widgets.scripted_cluster import EXPERIMENT, ScriptedCluster, now
from tests.widgets.scripted_job import resource


@dataclasses.dataclass
class ScriptedTrial:
    """A trial; `loss` is what its log says, `progress` how far it is."""

    number: int
    parameters: dict
    backend: ScriptedCluster
    word: str = "waiting"
    runs: tuple = ()
    attempts: int = 0
    loss: float | None = None
    progress: Progress | None = None
    others: tuple = ()

    @property
    def name(self):
        return f"lr-t{self.number}"

    @property
    def resource(self):
        return self.runs[-1] if self.runs else None

    @property
    def job(self):
        return Job(self.backend, self.runs[-1].id) if self.runs else None

    @property
    def is_open(self):
        return bool(self.runs) and not self.runs[-1].state.is_final

    def become(self, state, *, loss=None, seconds=90, progress=None):
        """Enters a state, with a metric and so much progress."""
        job = resource(state, id=EXPERIMENT.child(Kind.JOB, self.name))
        ended = now() if state.is_final else None
        execution = None if state is ExecutionState.QUEUED else ExecutionInfo(now(seconds), ended, None)
        self.loss, self.progress = loss, progress  # before the state: what an ended trial has is read once
        self.runs = (dataclasses.replace(job, execution=execution),)
        self.word, self.attempts = self.runs[0].word, int(execution is not None)


def figures(name, direction, value):
    """A metric that has had this value at its last step."""
    columns = MetricColumns([1, 60], [None] * 2, [None] * 2, [value / 2, value], [0, 0], [""])
    return Metric(traits_of(name), "", direction, {None: columns}).summary


class ScriptedSweep:
    """A sweep over learning rates and batch sizes."""

    name, experiment = "lr", EXPERIMENT

    def __init__(self, backend, count=6):
        self.backend = backend
        values = [
            {"lr": float(f"{10 ** (-1 - 4 * (n * 0.618 % 1)):.3g}"), "batch": 32 << (n % 3)}
            for n in range(count)
        ]
        self.trials = [ScriptedTrial(n, each, backend) for n, each in enumerate(values, 1)]
        self.state, self.note, self.reads = "running", "", []
        self.steps = 0

    def read(self, *, takes_step):
        self.steps += takes_step
        ended = "" if self.state == "running" else self.state
        parameters = [trial.parameters for trial in self.trials]
        definition = SweepDefinition("lr", "", SweepOptions(), parameters, ended=ended, note=self.note)
        return definition, tuple(self.trials)

    def result(self, trial):
        self.reads.append(trial.number)
        if trial.loss is None:
            return TrialResult()
        points = {step: trial.loss * (1 + 3 / step) for step in range(1, 61)}
        others = trial.others or (figures("accuracy", Direction.RISES, 1 / (1 + trial.loss)),)
        return TrialResult("loss", trial.loss * 1.1, trial.loss, Direction.FALLS, points, others)

    def progress(self, trial):
        return trial.progress

    def run(self, trial):
        """Ends a trial with the loss that its learning rate gives."""
        distance = math.log10(trial.parameters["lr"]) + 2.6
        noise = (trial.number * 7919 % 97) / 970
        trial.become(
            ExecutionState.SUCCEEDED, loss=0.2 + distance**2 * 0.3 + noise, seconds=60 + trial.number % 50
        )
