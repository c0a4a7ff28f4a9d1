"""A sweep that is read in the background: what is read, how often, and what an update costs."""

import contextlib
import dataclasses
import itertools
import math

import pytest

from batchai_magics.config import Settings
from batchai_magics.errors import UnreachableError
from batchai_magics.jobs.job_costs import JobCosts
from batchai_magics.metrics.reading.progress_reader import Progress
from batchai_magics.metrics.runs.metric_traits import Direction
from batchai_magics.models.job_execution import RankExit
from batchai_magics.models.states import ExecutionState
from batchai_magics.widgets.comparison.sweep_view import (
    CURVE_POINTS,
    ROWS_PER_MESSAGE,
    RUNNING_INTERVAL_S,
    SweepModel,
    SweepStream,
    curve_of,
)
from tests.jobs.sweeps.lab import SweepLab
from tests.patience import PATIENCE_S
from tests.widgets.comparison.scripted_sweep import ScriptedSweep, figures
from tests.widgets.scripted_cluster import ScriptedCluster
from tests.world import World, until


class Followed:
    """A sweep with its model, polled by the test."""

    def __init__(self, tmp_path, clock, count=6, prices=""):
        self.clock = clock
        self.sweep = ScriptedSweep(ScriptedCluster(tmp_path), count)
        costs = JobCosts(self.sweep.backend, Settings(prices=prices))
        self.model = SweepModel(self.sweep, costs, start=lambda task: task(), clock=clock)

    def poll(self, seconds=1.5):
        """Polls twice: the first poll starts a read; the numbers of the trials that have changed."""
        self.clock.now += seconds
        version = self.model.version
        for _ in range(2):
            self.model.poll()
        return [number for number, changed_at in self.model.changed.items() if changed_at > version]


@pytest.fixture
def followed(tmp_path, clock):
    return Followed(tmp_path, clock)


def test_the_first_read_tells_all_trials_and_later_ones_what_has_changed(followed):
    assert followed.poll() == [1, 2, 3, 4, 5, 6]
    assert followed.poll() == []
    followed.sweep.run(followed.sweep.trials[3])
    assert followed.poll() == [4]
    assert followed.model.counts == {"waiting": 5, "succeeded": 1}


def test_a_whole_read_has_the_numbers_of_all_trials_however_long_it_takes(followed):
    for trial in followed.sweep.trials:
        followed.sweep.run(trial)
    slow, costs = itertools.count().__next__, JobCosts(followed.sweep.backend, Settings())
    part, whole = (SweepModel(followed.sweep, costs, clock=slow) for _ in range(2))
    part.read()
    whole.read(is_whole=True)
    known = [sum(row.best is not None for row in model.trials.values()) for model in (part, whole)]
    assert known == [1, 6]


def test_a_whole_read_reads_each_running_trial_once(followed):
    for trial in followed.sweep.trials:
        trial.become(ExecutionState.RUNNING, loss=3.0)
    slow = itertools.count(step=RUNNING_INTERVAL_S).__next__
    whole = SweepModel(followed.sweep, JobCosts(followed.sweep.backend, Settings()), clock=slow)
    whole.read(is_whole=True)
    assert sorted(followed.sweep.reads) == [1, 2, 3, 4, 5, 6]


def test_metrics_of_ended_trials_are_read_once_and_of_running_ones_at_intervals(followed):
    followed.sweep.run(followed.sweep.trials[0])
    followed.sweep.trials[1].become(ExecutionState.RUNNING, loss=3.0)
    for _ in range(4):
        followed.poll(1.5)
    assert followed.sweep.reads == [1, 2]
    followed.poll(RUNNING_INTERVAL_S)
    assert followed.sweep.reads == [1, 2, 2]


def test_a_running_trial_has_progress_and_each_trial_all_its_metrics_and_a_curve(followed):
    first, second = followed.sweep.trials[:2]
    followed.sweep.run(first)
    second.become(ExecutionState.RUNNING, loss=3.0, progress=Progress(0.25, "epoch 1/4", 1000.5))
    followed.poll()
    rows = followed.model.trials
    assert followed.model.facts()["metrics"] == [
        {"name": "accuracy", "label": "accuracy", "is_rising": True},
    ]
    assert (rows[2].metrics, rows[3].metrics) == ((0.25,), ())
    assert (rows[2].curve[0], rows[2].curve[-1], len(rows[2].curve)) == (12.0, 3.15, CURVE_POINTS)
    assert rows[2].progress == {"fraction": 0.25, "words": "epoch 1/4", "ends": 1000500, "is_of_epoch": False}
    assert rows[1].progress is None


def test_a_trial_that_failed_tells_why(followed):
    trial = followed.sweep.trials[0]
    backend = followed.sweep.backend
    backend.run(trial.name, ExecutionState.FAILED, exit_code=1)
    trial.runs = (dataclasses.replace(backend.jobs[trial.name], ranks=(RankExit(2, "node-1", 1),)),)
    (backend.folder / trial.name / "stderr.txt").write_text("KeyError: 'labels'\n")
    followed.sweep.run(followed.sweep.trials[1])
    followed.poll()
    told = [followed.model.trials[number].failure for number in (1, 2)]
    assert told == ["rank 2: exit code 1: KeyError: 'labels'", ""]


def test_the_saved_table_tells_once_why_trials_failed(followed):
    backend = followed.sweep.backend
    for trial in followed.sweep.trials[:3]:
        backend.run(trial.name, ExecutionState.FAILED, exit_code=1)
        trial.runs = (dataclasses.replace(backend.jobs[trial.name], ranks=(RankExit(0, "node-1", 1),)),)
        (backend.folder / trial.name / "stderr.txt").write_text("NameError: name 'lr' is not defined\n")
    followed.poll()
    problems = [line for line in followed.model.bundle()["text/plain"].splitlines() if "  ! " in line]
    assert problems == ["  ! lr-t1 and 2 more: rank 0: exit code 1: NameError: name 'lr' is not defined"]


def test_a_curve_has_its_ends_and_only_what_can_be_drawn():
    assert curve_of([1.0, math.nan, 2.00004]) == (1.0, 2.0)
    curve = curve_of([float(n) for n in range(1000)])
    assert (curve[0], curve[-1], len(curve)) == (0.0, 999.0, CURVE_POINTS)
    assert list(curve) == sorted(curve)


def test_the_progress_of_a_trial_is_gone_when_it_has_ended(followed):
    trial = followed.sweep.trials[0]
    trial.become(ExecutionState.RUNNING, loss=3.0, progress=Progress(0.25, "epoch 1/4"))
    followed.poll()
    assert followed.model.trials[1].progress
    followed.sweep.run(trial)
    followed.poll()
    assert followed.model.trials[1].progress is None


def test_a_metric_that_a_later_trial_prints_is_a_further_column(followed):
    first, second = followed.sweep.trials[:2]
    followed.sweep.run(first)
    followed.poll()
    second.others = [figures("top_5", Direction.RISES, 0.9), figures("accuracy", Direction.RISES, 0.5)]
    followed.sweep.run(second)
    followed.poll()
    assert [each["name"] for each in followed.model.facts()["metrics"]] == ["accuracy", "top_5"]
    assert followed.model.trials[2].metrics == (0.5, 0.9)
    assert len(followed.model.trials[1].metrics) == 1  # what was sent before stays valid


def test_a_metric_with_the_name_of_a_parameter_is_no_further_column(followed):
    first = followed.sweep.trials[0]
    first.others = [figures("lr", Direction.UNKNOWN, 0.0)]
    followed.sweep.run(first)
    followed.poll()
    assert followed.model.facts()["metrics"] == []


def test_the_saved_table_has_all_metrics(followed):
    first, second = followed.sweep.trials[:2]
    followed.sweep.run(first)
    followed.poll()
    second.others = [figures("top_5", Direction.RISES, 0.9)]
    followed.sweep.run(second)
    followed.poll()
    bundle = followed.model.bundle()
    for text in bundle.values():
        assert text.index("best loss") < text.index("accuracy") < text.index("top_5")
        assert "0.9" in text


def test_the_best_trial_is_named_and_found_again_when_it_gets_worse(followed):
    first, second, third = followed.sweep.trials[:3]
    for trial, loss in ((first, 0.5), (second, 0.3), (third, 0.4)):
        trial.become(ExecutionState.RUNNING, loss=loss)
    followed.poll()
    assert followed.model.facts()["best"] == 2
    second.become(ExecutionState.FAILED, loss=0.9)
    followed.poll(RUNNING_INTERVAL_S)
    assert followed.model.facts()["best"] == 3
    first.become(ExecutionState.SUCCEEDED, loss=0.1)
    followed.poll()
    assert followed.model.facts()["best"] == 1


def test_the_model_ends_with_the_sweep_once_all_metrics_are_known(followed):
    *others, last = followed.sweep.trials
    for trial in others:
        followed.sweep.run(trial)
    followed.poll()
    assert not followed.model.is_over
    followed.sweep.run(last)
    followed.poll()
    assert followed.model.is_over
    assert followed.model.has_ended


def test_an_error_of_the_read_is_raised_by_the_poll_and_the_next_read_goes_on(followed):
    read, followed.sweep.read = followed.sweep.read, lambda **_: broken()

    def broken():
        raise UnreachableError("the server does not respond")

    with pytest.raises(UnreachableError):
        followed.poll()
    followed.sweep.read = read
    assert followed.poll() == [1, 2, 3, 4, 5, 6]


def test_cost_covers_all_trials(tmp_path, clock):
    followed = Followed(tmp_path, clock, prices="Standard_NC6=3600")
    first, second = followed.sweep.trials[:2]
    for trial in (first, second):
        trial.become(ExecutionState.SUCCEEDED, loss=0.5, seconds=10)
    followed.poll()
    rows = followed.model.trials
    assert (rows[1].cost, rows[3].cost) == ("20.00 USD", "")  # two nodes, one a second each
    assert followed.model.facts()["cost"] == "40.00 USD"


def test_the_saved_table_has_the_best_trials_and_the_figure_a_text(followed):
    for trial in followed.sweep.trials[:4]:
        followed.sweep.run(trial)
    followed.sweep.state, followed.sweep.note = "stopped", "5 trials in a row failed"
    followed.poll()
    text = followed.model.bundle()["text/plain"]
    first, *_ = [line for line in text.splitlines() if "lr-t" in line]
    assert "★" in first
    assert "5 trials in a row failed" in text
    assert "%batchai sweep show -n lr" in text
    assert set(followed.model.chart()) == {"image/png", "text/plain"}


@pytest.mark.parametrize("takes_steps", [True, False])
def test_a_read_only_sweep_is_read_without_taking_its_steps(followed, takes_steps):
    costs = JobCosts(followed.sweep.backend)
    model = SweepModel(followed.sweep, costs, clock=followed.clock, takes_steps=takes_steps)
    model.read()
    assert len(model.trials) == 6
    assert followed.sweep.steps == takes_steps


def view(followed):
    made = SweepStream(
        followed.model,
        work=lambda task: task(),
        clock=followed.clock,
        open_jobs=lambda *jobs: " ".join(job.name for job in jobs),
    )
    made.receive({"kind": "ready", "page": "a", "turn": 1})
    return made


def numbers_of(message):
    return sorted(row.number for row in message.content["rows"]) if message else []


def test_a_page_is_sent_each_change_once_and_all_trials_again_after_a_hello(followed):
    followed.poll()
    shown = view(followed)
    assert numbers_of(shown.next_message(10**6)) == [1, 2, 3, 4, 5, 6]
    assert shown.next_message(10**6) is None
    followed.sweep.run(followed.sweep.trials[4])
    followed.poll()
    assert numbers_of(shown.next_message(10**6)) == [5]
    shown.on_hello({})
    assert numbers_of(shown.next_message(10**6)) == [1, 2, 3, 4, 5, 6]


def test_ten_thousand_trials_come_in_several_messages_and_an_update_looks_at_what_changed(tmp_path, clock):
    followed = Followed(tmp_path, clock, count=10_000)
    followed.poll()
    shown, sent = view(followed), []
    while message := shown.next_message(10**6):
        assert len(message.content["rows"]) <= ROWS_PER_MESSAGE
        sent += numbers_of(message)
    assert sorted(sent) == list(range(1, 10_001))
    followed.sweep.run(followed.sweep.trials[77])
    assert followed.poll() == [78]
    assert numbers_of(shown.next_message(10**6)) == [78]


def test_the_jobs_of_trials_are_opened_together(followed):
    followed.sweep.run(followed.sweep.trials[0])
    followed.sweep.run(followed.sweep.trials[1])
    followed.poll()
    answer = view(followed).respond({"kind": "open", "id": "1", "names": ["lr-t2", "lr-t1"]})
    assert answer.content["model"] == "lr-t2 lr-t1"


RUNS_ON = """
import os, time

print("epoch 1/4 val_loss 0.5 accuracy 0.75", flush=True)
while not os.path.exists("{go}"):
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_running_trial_has_its_metrics_curve_and_progress(tmp_path):
    with contextlib.closing(World(tmp_path / "home")) as world:
        script = RUNS_ON.format(go=tmp_path / "go")
        sweep = SweepLab(world).submit('s --sweep "lr=0.2" --best "min val_loss"', script)
        trial = sweep.trials()[0]
        until(lambda: trial.job.progress())
        model = SweepModel(sweep, JobCosts(world.backend))
        model.read()
        row = model.trials[1]
        assert (row.state, row.value, row.metrics, row.curve) == ("running", 0.5, (0.75,), (0.5,))
        assert row.progress["words"] == "epoch 1/4"
        (tmp_path / "go").touch()
        sweep.wait(PATIENCE_S)


@pytest.mark.slow
def test_view_groups_trials_by_seed_and_the_best_mean_wins(world):
    script = """
import os
lr, seed = float(os.environ["PARAM_LR"]), int(os.environ["BATCHAI_SEED"])
print(f"step 1 val_loss {lr + seed / 100 - 0.3 * (lr == 0.5) * (seed == 2):.3f}")
"""
    sweep = SweepLab(world).run('s --sweep "lr=0.4,0.5" --seeds 3 --best "min val_loss"', script)
    model = SweepModel(sweep, JobCosts(world.backend), start=lambda task: task())
    until(lambda: model.poll() is None or model.is_over)  # a read ends before it takes long
    sentences = [
        "lr=0.4: val_loss 0.41 ± 0.01 over 3 seeds, the best",
        "lr=0.5: val_loss 0.41 ± 0.1646 over 3 seeds, within the spread of seeds of the best",
    ]
    assert model.facts()["sentences"] == sentences
    assert model.best.name == "s-t1"
    assert all(sentence in model.bundle()["text/plain"] for sentence in sentences)
