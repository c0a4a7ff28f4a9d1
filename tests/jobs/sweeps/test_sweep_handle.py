"""Sweeps from their submission to their results, on a local backend."""

import pytest

from batchai_magics.errors import ConflictError, NotFoundError
from batchai_magics.jobs.sweeps.sweep_handle import FINISHED, RUNNING
from tests.jobs.sweeps.lab import LOSS, SweepLab
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = pytest.mark.slow

WAITS_FOR_FILE = """
import os, time
print("here", flush=True)
while not os.path.exists("{go}"):
    time.sleep(0.05)
"""


def states(sweep):
    return [trial.word for trial in sweep.stored_trials()]


def test_a_grid_has_a_job_for_each_combination_and_a_row_with_its_values(lab: SweepLab):
    sweep = lab.run('s --sweep "lr=0.2,0.1 batch=1,2" --best "min val_loss" --tag wide')
    results = sweep.results()
    assert list(results.columns) == ["lr", "batch", "state", "attempts", "val_loss", "best_val_loss"]
    assert results.loc[3].to_dict() == {
        "lr": 0.1,
        "batch": 1,
        "state": "succeeded",
        "attempts": 1,
        "val_loss": 0.1,
        "best_val_loss": 0.1,
    }
    assert list(results.index) == [1, 2, 3, 4]
    assert (sweep.best.name, sweep.state) == ("s-t3", FINISHED)
    labels = sweep.jobs[0].labels()
    assert labels.tags == ("wide", "sweep:s")
    assert {"lr": 0.2, "batch": 1}.items() <= labels.parameters.items()
    assert lab.found("S").results().equals(results)  # as another process finds it
    with pytest.raises(NotFoundError, match="there is no sweep t"):
        lab.found("t")


def test_a_trial_that_runs_has_progress_and_all_metrics_that_it_has_printed(lab: SweepLab, tmp_path):
    go = tmp_path / "go"
    printed = "print('epoch 1/4 val_loss 0.5 accuracy 0.75 lr 0.001', flush=True)"
    sweep = lab.submit('s --sweep "lr=0.2" --best "min val_loss"', printed + WAITS_FOR_FILE.format(go=go))
    until(lambda: sweep.result(sweep.trials()[0]).value == 0.5)
    (trial,) = sweep.trials()
    progress = sweep.progress(trial)
    assert progress
    assert progress.words == "epoch 1/4"
    assert ("accuracy", 0.75) in [(each.name, each.last) for each in sweep.result(trial).others]
    go.touch()
    sweep.wait(PATIENCE_S)
    assert sweep.progress(sweep.trials()[0]) is None
    (row,) = sweep.rows()  # no other value of a parameter
    assert (row["lr"], row["val_loss"], row["accuracy"]) == (0.2, 0.5, 0.75)
    assert list(row) == ["trial", "lr", "state", "attempts", "val_loss", "best_val_loss", "accuracy"]


SEEDED = """
import os

noise = float(os.environ["BATCHAI_SEED"]) / 100
print(f"step 1 val_loss {float(os.environ['PARAM_LR']) + noise:.4f}")
"""


def test_the_results_of_seeds_are_grouped_and_the_best_has_the_best_mean(lab: SweepLab):
    script = SEEDED + "if os.environ['PARAM_LR'] == '0.5': print('step 2 val_loss 0.1' * (noise == 0.02))"
    sweep = lab.run('s --sweep "lr=0.2,0.21,0.5" --seeds 3 --best "min val_loss"', script)
    groups = sweep.groups().round(6).to_dict("records")
    assert [(row["lr"], row["seeds"], row["mean"], row["verdict"]) for row in groups] == [
        (0.2, 3, 0.21, "best"),
        (0.21, 3, 0.22, "within the spread of seeds"),
        (0.5, 3, 0.37, "within the spread of seeds"),
    ]
    assert sweep.best.name == "s-t1"  # not the lucky one of the third group
    failing = SEEDED + "raise SystemExit(noise == 0.01)"
    assert lab.run('failing --sweep "lr=0.2" --seeds 2', failing).groups().loc[0, "seeds"] == 1


def test_the_same_cell_continues_the_sweep_and_new_values_are_new_trials_of_it(lab: SweepLab):
    lab.run('s --sweep "lr=0.2,0.1"')
    again = lab.run('s --sweep "lr=0.2,0.1"')
    assert [len(trial.runs) for trial in again.trials()] == [1, 1]
    assert lab.note == "The sweep s continues."
    again = lab.run('s --sweep "lr=0.3,0.1"')
    found = {trial.parameters["lr"]: (trial.number, len(trial.runs)) for trial in again.trials()}
    assert found == {0.2: (1, 1), 0.1: (2, 1), 0.3: (3, 1)}


def test_an_edited_cell_is_the_next_sweep(lab: SweepLab):
    lab.run('s --sweep "lr=0.2"')
    assert lab.run('s --sweep "lr=0.2"', f"{LOSS}print('edited')").name == "s-2"
    assert lab.note == "The cell changed since s: running as s-2."
    with pytest.raises(ConflictError):
        lab.submit('s --sweep "lr=0.2" --same', "print('edited again')")
    assert lab.run('s --sweep "lr=0.2" --new', f"{LOSS}print('edited')").name == "s-3"


def test_submitting_it_again_runs_only_the_failed_trials(lab: SweepLab, tmp_path):
    mended = tmp_path / "mended"
    script = f"import os\nif os.environ['PARAM_LR'] == '0.1' and not os.path.exists({str(mended)!r}): exit(3)"
    sweep = lab.run('s --sweep "lr=0.2,0.1"', script)
    assert states(sweep) == ["succeeded", "failed"]
    mended.touch()
    again = lab.run('s --sweep "lr=0.2,0.1"', script)
    assert [(trial.word, trial.name) for trial in again.trials()] == [
        ("succeeded", "s-t1"),
        ("succeeded", "s-t2-2"),
    ]
    assert lab.note == "The sweep s continues. 1 trial runs again."
    assert again.results()["attempts"].to_list() == [1, 2]


def test_only_as_many_trials_as_asked_run_at_once(lab: SweepLab, tmp_path):
    go = tmp_path / "go"
    sweep = lab.submit('s --sweep "lr=1,2,3" --parallel 1', WAITS_FOR_FILE.replace("{go}", str(go)))
    until(lambda: "running" in states(sweep))
    other = lab.world.run("other")  # there are idle nodes
    assert other.show().word == "succeeded"
    assert states(sweep) == ["running", "queued", "queued"]
    go.touch()
    assert set(states(sweep.wait(PATIENCE_S))) == {"succeeded"}


def test_a_cancelled_sweep_starts_nothing_more_until_its_cell_runs_again(lab: SweepLab, tmp_path):
    go = tmp_path / "go"
    script = WAITS_FOR_FILE.replace("{go}", str(go))
    sweep = lab.submit('s --sweep "lr=1,2,3" --parallel 1', script)
    until(lambda: "running" in states(sweep))
    assert sweep.state == RUNNING
    sweep.cancel()
    until(lambda: set(states(sweep)) == {"cancelled"})
    assert lab.found("s").state == "cancelled"
    go.touch()
    assert set(states(lab.run('s --sweep "lr=1,2,3" --parallel 1', script))) == {"succeeded"}
