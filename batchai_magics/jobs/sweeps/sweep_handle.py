"""The handle of a sweep: its trials, their results, the best one; reading it takes the sweep's next step."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Backend
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError, NotFoundError, did_you_mean
from batchai_magics.follow import endings
from batchai_magics.jobs.argument_checks import SECONDS, check_argument
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import progress_of
from batchai_magics.jobs.sweeps import sweep_steps
from batchai_magics.jobs.sweeps.sweep_definition import CANCELLED, SweepDefinition, SweepFiles
from batchai_magics.jobs.sweeps.trial import (
    Trial,
    TrialResult,
    best_of,
    preferences_of,
    result_of,
    seed_groups_of,
)
from batchai_magics.metrics.reading.progress_reader import Progress
from batchai_magics.metrics.runs.seed_groups import SEED, SeedGroups
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import SWEEP, Labels, Parameter
from batchai_magics.models.states import CANCELLED as CANCELLED_JOB
from batchai_magics.records.trial_record import PRUNED, trial_of

if TYPE_CHECKING:
    from pandas import DataFrame

RUNNING, FINISHED = "running", "finished"
STEP_INTERVAL_S = 5.0  # the longest time between two steps while a process waits
POLL_S = 0.5


class Sweep:
    """A sweep on any backend.

    Its trials are ordinary jobs, `NAME-t1`, `NAME-t2` and so on, with the tag `sweep:NAME`. No process
    watches a sweep: reading its trials takes its next step, and so does the end of a trial where it ran.

    Attributes:
        name: The sweep's name.
        backend: The backend that runs its trials.
        experiment: The experiment that they belong to.
        owner: The owner of trials created by this handle, if that is not the current user.
    """

    owner: str = ""

    def __init__(self, backend: Backend, experiment: ResourceId, files: SweepFiles, name: str) -> None:
        self.backend, self.experiment, self.name = backend, experiment, name
        self.files = files
        self._parameters: dict[int, Mapping[str, Parameter]] = {}  # of trials that Optuna has chosen
        self._results: dict[str, TrialResult] = {}  # of runs that have ended, by guid
        self._pruned: dict[str, bool] = {}  # whether a cancelled run was pruned, by guid
        self._definition: SweepDefinition | None = None  # as it was read last
        self._lock = threading.RLock()

    @classmethod
    def find(cls, backend: Backend, name: str, settings: Settings) -> Sweep:
        """The sweep of that name in the experiment of the settings.

        Raises:
            NotFoundError: It does not exist; the hint suggests a similar name.
        """
        experiment = workspace_id(settings).child(Kind.EXPERIMENT, settings.experiment)
        files = SweepFiles(backend, settings.share, experiment.name)
        names = {name_on_share.lower(): name_on_share for name_on_share in files.names()}
        if name.lower() not in names:
            hint = did_you_mean(name, names.values()) or "`batchai sweep list` lists the sweeps."
            raise NotFoundError(f"there is no sweep {name}", code="SweepNotFound", hint=hint)
        return cls(backend, experiment, files, names[name.lower()])

    @property
    def definition(self) -> SweepDefinition:
        """The current definition of the sweep, read from its share."""
        return self.files.read(self.name)

    @property
    def tag(self) -> str:
        """The tag of its trials: `job list --tag` finds them."""
        return f"{SWEEP}{self.name}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters, in order."""
        return self.definition.parameters

    @property
    def state(self) -> str:
        """`running`, `finished`, `stopped` after too many failures, or `cancelled`."""
        definition, trials = self.read(takes_step=True)
        return state_of(definition, trials)

    @property
    def note(self) -> str:
        """Why it was stopped; empty unless it was."""
        return self.definition.note

    def trials(self) -> tuple[Trial, ...]:
        """All trials by number, also those without a job yet, with their states from one request.

        Takes the sweep's next step: it starts the next trials, repeats failed ones, stops after too many
        failures.
        """
        return self.read(takes_step=True)[1]

    @property
    def jobs(self) -> list[Job]:
        """The latest job of each trial that has one."""
        return [trial.job for trial in self.trials() if trial.job]

    @property
    def best(self) -> Job | None:
        """The job of the best trial so far; None without a value, or if neither direction is better."""
        definition, trials = self.read(takes_step=True)
        best = best_of(self._results_of(trials, definition), definition.options.goal)
        return best.job if best else None

    def results(self) -> DataFrame:
        """One row per trial, indexed by its number.

        Returns:
            A column for each parameter, then `state`, `attempts`, the metric (the headline, or
            `--best`), `best_` with its name, and other metrics. A metric is missing as long as no trial has a
            value.
        """
        import pandas as pd

        return pd.DataFrame(self.rows()).set_index("trial")

    def groups(self) -> DataFrame:
        """One row per combination of parameters, over its seeds; empty for a sweep without seeds.

        Returns:
            A column for each other parameter, then `seeds` (how many have a value), the `mean` and the
            `spread` (sample standard deviation) of the metric's best values, and a `verdict`: `best`, or
            whether the mean is within the spread of seeds of the best.
        """
        import pandas as pd

        return pd.DataFrame(self.seed_groups().rows())

    def seed_groups(self) -> SeedGroups:
        """The trials that differ in their seed alone; takes the sweep's next step."""
        definition, trials = self.read(takes_step=True)
        if SEED not in definition.parameters:
            return SeedGroups()
        return seed_groups_of(self._results_of(trials, definition), definition.options.goal)

    def rows(self) -> list[dict[str, object]]:
        """The rows of `results`, each with the number of its trial under `trial`."""
        definition, trials = self.read(takes_step=True)
        results = self._results_of(trials, definition)
        metric = next((result.metric for _, result in results if result.metric), "")
        columns = {"trial", "state", "attempts", metric, f"best_{metric}", *definition.parameters}
        every = dict.fromkeys(other.name for _, result in results for other in result.others)
        others = [name for name in every if name not in columns]
        rows: list[dict[str, object]] = []
        for trial, result in results:
            state = {"state": trial.word, "attempts": trial.attempts}
            values = {metric: result.value, f"best_{metric}": result.best} if metric else {}
            known = {other.name: other.headline_value for other in result.others}
            rest = {name: known.get(name) for name in others}
            rows.append({"trial": trial.number, **trial.parameters, **state, **values, **rest})
        return rows

    def result(self, trial: Trial) -> TrialResult:
        """The metric of a trial so far, read from its log once it has started."""
        return self._results_of([trial], self._definition or self.definition)[0][1]

    def progress(self, trial: Trial) -> Progress | None:
        """The progress of a trial, from the end of its log; None unless it runs or has failed."""
        try:
            return progress_of(self.backend, trial.runs[-1]) if trial.runs else None
        except BatchAIError:  # it was deleted
            return None

    def stored_trials(self) -> tuple[Trial, ...]:
        """All trials in their current state, without taking a step."""
        return self.read(takes_step=False)[1]

    def wait(self, timeout_s: float | None = None) -> Sweep:
        """Blocks until the sweep has ended, and takes its steps meanwhile.

        Raises:
            TimeoutError: It has not ended in time.
            UsageError: `timeout_s` is negative or no number.
        """
        check_argument("sweep.wait", "timeout_s", timeout_s, SECONDS)
        for _ in self.updates(timeout_s):
            pass
        return self

    def updates(self, timeout_s: float | None = None) -> Iterator[tuple[Trial, ...]]:
        """Yields the trials now, and whenever one has ended, until the sweep has; takes its steps meanwhile.

        Raises:
            TimeoutError: It has not ended in time.
        """
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            definition, trials = self.read(takes_step=True)
            yield trials
            if state_of(definition, trials) != RUNNING and not any(trial.is_open for trial in trials):
                return
            self._wait_for_change(trials, deadline)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the sweep {self.name} has not ended after {timeout_s:g} s")

    def _wait_for_change(self, trials: Sequence[Trial], deadline: float) -> None:
        """Waits until a trial ends, or for a while, in which metrics may have changed."""
        until = min(time.monotonic() + STEP_INTERVAL_S, deadline)
        open_ids = [trial.runs[-1].id for trial in trials if trial.is_open]
        for ended in endings(self.backend, open_ids, wait=time.sleep):
            if ended or time.monotonic() > until:
                return
        time.sleep(POLL_S)  # no trial is open: another process starts the next one

    def cancel(self) -> None:
        """Cancels all trials that have not ended, and starts no others; the same cell continues the sweep.

        No effect on a sweep that has ended.
        """
        with self._lock:
            definition, trials = self.read(takes_step=False)
            if state_of(definition, trials) != RUNNING:
                return
            sweep_steps.check_rights(self, trials)
            self.files.write(sweep_steps.ended_definition(definition, CANCELLED, "it was cancelled"))
            # Read again: another process may have created jobs before the definition was written.
            still_open = [trial for trial in self._trials(definition) if trial.is_open]
            sweep_steps.terminate(self.backend, still_open)

    def step(self) -> None:
        """Takes the sweep's next step, if there is one."""
        self.read(takes_step=True)

    def read(self, *, takes_step: bool) -> tuple[SweepDefinition, tuple[Trial, ...]]:
        """The sweep and its trials at this moment, with one request for all states."""
        with self._lock:
            definition = self._definition = self.definition
            trials = self._trials(definition)
            if not (takes_step and sweep_steps.take(self, definition, trials)):
                return definition, trials
            definition = self._definition = self.definition
            return definition, self._trials(definition)

    def _trials(self, definition: SweepDefinition) -> tuple[Trial, ...]:
        """The trials with the states of their jobs."""
        names = self.backend.names(self.experiment, Kind.JOB, f"{self.name}-t")
        numbered = [(key, name) for name in names if (key := trial_of(name, self.name))]
        ids = [self.experiment.child(Kind.JOB, name) for _, name in sorted(numbered)]
        snapshot = self.backend.status(ids)
        runs: dict[int, list[JobResource]] = defaultdict(list)
        for (key, _), id in zip(sorted(numbered), ids, strict=True):
            if isinstance(job := snapshot.of(id), JobResource):
                runs[key[0]].append(job)
        numbers = sorted({*range(1, definition.trial_count + 1), *runs})
        parameters = self._parameters_of(definition, numbers, runs)
        pruned = self._are_pruned(definition, runs)
        return tuple(
            Trial(
                number,
                parameters.get(number, {}),
                self.name,
                self.backend,
                tuple(runs.get(number, ())),
                is_pruned=number in pruned,
            )
            for number in numbers
        )

    def _parameters_of(
        self, definition: SweepDefinition, numbers: Iterable[int], runs: Mapping[int, Sequence[JobResource]]
    ) -> dict[int, Mapping[str, Parameter]]:
        """The parameters by trial; those that Optuna has chosen are in the records of its jobs."""
        known: dict[int, Mapping[str, Parameter]] = dict(enumerate(definition.trials, 1))
        unread = [number for number in runs if number not in known and number not in self._parameters]
        if unread:
            labels = self._labels([runs[number][0] for number in unread])
            names = definition.parameters
            for number in unread:
                chosen = labels.get(runs[number][0].id.key, Labels()).parameters
                self._parameters[number] = {name: chosen[name] for name in names if name in chosen}
        return {number: known.get(number) or self._parameters.get(number, {}) for number in numbers}

    def _are_pruned(self, definition: SweepDefinition, runs: Mapping[int, Sequence[JobResource]]) -> set[int]:
        """The trials that were pruned: their jobs are cancelled, and have the tag."""
        if not definition.options.prune:
            return set()
        cancelled = {number: jobs[-1] for number, jobs in runs.items() if jobs[-1].word == CANCELLED_JOB}
        unread = [job for job in cancelled.values() if job.id.key not in self._pruned]
        labels = self._labels(unread) if unread else {}
        for job in unread:
            self._pruned[job.id.key] = PRUNED in labels.get(job.id.key, Labels()).tags
        return {number for number, job in cancelled.items() if self._pruned[job.id.key]}

    def _labels(self, jobs: Sequence[JobResource]) -> Mapping[str, Labels]:
        records = self.backend.records
        return records.labels([job.id for job in jobs]) if records else {}

    def _results_of(
        self, trials: Sequence[Trial], definition: SweepDefinition
    ) -> list[tuple[Trial, TrialResult]]:
        """The result of each trial; an ended run's is read once."""
        goal, preferences = definition.options.goal, preferences_of(definition.options.goal)
        patterns = definition.template["patterns"] if definition.template else None
        results = []
        for trial in trials:
            resource = trial.resource
            if resource is None or resource.execution is None:
                results.append((trial, TrialResult()))
                continue
            key = f"{resource.output_path_segment} {goal}"
            job = Job(self.backend, resource.id, patterns=patterns)
            known = self._results.get(key) or result_of(job, goal, preferences)
            if not trial.is_open:
                self._results[key] = known
            results.append((trial, known))
        return results

    @property
    def summary(self) -> str:
        """The sweep in one line: its state, how many trials have ended and failed, why it stopped."""
        return sweep_text(*self.read(takes_step=True))

    def __repr__(self) -> str:
        try:
            return sweep_text(*self.read(takes_step=False))
        except NotFoundError:
            return f"<Sweep {self.name}: deleted>"


def state_of(definition: SweepDefinition, trials: Sequence[Trial]) -> str:
    """The state of a sweep."""
    if definition.ended:
        return definition.ended
    is_done = all(trial.runs and not trial.is_open for trial in trials)
    return FINISHED if is_done else RUNNING


def sweep_text(definition: SweepDefinition, trials: Sequence[Trial]) -> str:
    """A sweep in one line: `Sweep lr: running, 3 of 20 trials ended (1 failed)`."""
    ended = [trial for trial in trials if trial.runs and not trial.is_open]
    failed = sum(trial.has_failed for trial in ended)
    text = (
        f"Sweep {definition.name}: {state_of(definition, trials)}, {len(ended)} of {len(trials)} trials ended"
    )
    text += f" ({failed} failed)" * bool(failed)
    return text + (f"; {definition.note}" if definition.note else "")
