"""Who takes the steps of a sweep: any reader, and the process in which a trial ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.cell import parse
from batchai_magics.cell.cell_options import cell_options
from batchai_magics.errors import UsageError
from batchai_magics.jobs.predecessors import trial_ids
from batchai_magics.jobs.python_run import option_words
from batchai_magics.jobs.submit import submit
from batchai_magics.models.states import ExecutionState
from tests.jobs.sweeps.lab import LOSS, SweepLab
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = pytest.mark.slow

CONTROLLER = """
import sys, time
from pathlib import Path
from tests.jobs.sweeps.lab import SweepLab
from tests.world import World

lab = SweepLab(World(Path(sys.argv[1])))
lab.submit(sys.argv[2], sys.argv[3])
print("submitted", flush=True)
time.sleep(3600)
"""


HOLD = "import time; time.sleep(600)"


def words(sweep):
    return [trial.word for trial in sweep.stored_trials()]


@pytest.mark.parametrize(
    ("line", "script", "count"),
    [
        ('s --sweep "lr=log(1e-4,1)" --trials 4 --search tpe --parallel 1', LOSS, 4),
        ('s --sweep "lr=1,2" --retry-failed 1', "raise SystemExit(3)", 2),
    ],
    ids=["tpe", "retries"],
)
def test_a_sweep_goes_on_when_its_controller_is_killed(lab: SweepLab, tmp_path: Path, line, script, count):
    command = [sys.executable, "-c", CONTROLLER, str(tmp_path / "home"), line, script]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as controller:
        assert controller.stdout.readline() == "submitted\n"
        controller.kill()
    sweep = lab.found("s")
    runs = 2 if "retry" in line else 1
    until(lambda: [len(trial.runs) for trial in sweep.stored_trials()] == [runs] * count)
    until(lambda: not any(trial.is_open for trial in sweep.stored_trials()))


def test_many_quick_failures_stop_an_unwatched_sweep_and_name_their_common_node(
    lab: SweepLab,
):
    values = ",".join(map(str, range(40)))
    line = f's --sweep "lr={values}" --parallel 1 --experiment Upper'
    sweep = lab.submit(line, "raise SystemExit(3)")
    until(lambda: sweep.note)
    until(lambda: not any(trial.is_open for trial in sweep.stored_trials()))
    assert sweep.state == "stopped"
    assert words(sweep)[-1] == "cancelled"
    assert "trials in a row failed within" in sweep.note
    assert "all of them on node" in sweep.note


@pytest.mark.parametrize(
    "more", ["--retry-failed 2", "--trials 20 --search tpe --best 'min loss' --parallel 2"]
)
def test_a_sweep_whose_predecessor_fails_tries_nothing_again_and_says_why(lab: SweepLab, more: str):
    first = lab.world.run("first", "raise SystemExit(1)")
    values = "log(1e-6,1)" if "tpe" in more else "1,2"
    sweep = lab.run(f's --sweep "lr={values}" --after first {more}', "print('loss', 1)")
    assert first.exit_code == 1
    assert sweep.state == "stopped"
    assert sweep.note == "first did not succeed, and the job was to start after it: nothing of it ran"
    assert {trial.attempts for trial in sweep.trials()} == {0}
    assert {len(trial.runs) for trial in sweep.trials()} <= {0, 1}


def test_a_job_starts_after_all_trials_of_the_latest_sweep_of_a_name(lab: SweepLab):
    earlier = lab.submit('s --sweep "lr=1,2"')
    sweep = lab.submit('s --sweep "lr=1,2,3"', "print('loss', 2)")
    request = parse("late --after S", "print('ran')", settings=lab.world.settings)
    submitted = submit(lab.world.backend, request, lab.world.settings)
    assert submitted.note == "It starts after the 3 trials of s-2, the latest sweep S."
    assert submitted.job.show().spec.batchai_after == tuple(str(job.id) for job in sweep.jobs)
    known = {option.name: option for option in cell_options()}
    assert option_words({"after": earlier}, known) == [f"--after={job.id}" for job in earlier.jobs]
    assert submitted.job.wait(PATIENCE_S).log() == "ran\n"
    assert all(trial.word == "succeeded" for trial in sweep.stored_trials())


@pytest.mark.parametrize("more", ["--retry-failed 1", "--trials 8 --search tpe --parallel 1"])
def test_a_sweep_that_may_still_submit_jobs_is_no_predecessor_until_it_has_ended(lab: SweepLab, more: str):
    values = "log(1e-6,1)" if "tpe" in more else "1,2,3,4,5,6,7,8,9"
    sweep = lab.submit(f's --sweep "lr={values}" {more} --best "min loss"', HOLD)
    with pytest.raises(UsageError, match="the sweep s may still submit jobs") as caught:
        lab.world.submit("late --after-any s")
    with pytest.raises(UsageError, match="the sweep s may still submit jobs"):
        trial_ids(lab.world.backend, lab.world.experiment, sweep.definition)
    assert "batchai sweep wait -n s. Or name its trials: s-t1" in caught.value.hint
    assert "tpe" in more or caught.value.hint.endswith("s-t7 s-t8 …")
    sweep.cancel()
    sweep.wait(PATIENCE_S)
    assert lab.world.run("late --after-any s").show().state is ExecutionState.SUCCEEDED


def test_a_sweep_that_repeats_failures_is_a_predecessor_once_its_trials_were_cancelled(lab: SweepLab):
    sweep = lab.submit('s --sweep "lr=1,2" --retry-failed 1', HOLD)
    for job in sweep.jobs:
        job.cancel()
    assert (sweep.wait(PATIENCE_S).state, words(sweep)) == ("finished", ["cancelled"] * 2)
    assert lab.world.run("late --after-any s").show().state is ExecutionState.SUCCEEDED


def test_optuna_searches_where_the_values_are_good(lab: SweepLab):
    script = "import os, math\nprint('step 1 loss', abs(math.log10(float(os.environ['PARAM_LR'])) + 3))"
    sweep = lab.run('s --sweep "lr=log(1e-6,1)" --trials 24 --search tpe --best "min loss"', script)
    results = sweep.results()
    assert len(results) == 24
    first, last = results["loss"][:10].median(), results["loss"][14:].median()
    assert last < first
    assert sweep.best.name == f"s-t{results['loss'].idxmin()}"


def test_a_trial_that_does_worse_than_the_others_is_pruned(lab: SweepLab):
    script = """
import os, time
lr = float(os.environ["PARAM_LR"])
for step in range(1, 4):
    print(f"step {step} loss {lr / step}", flush=True)
if lr > 50:
    time.sleep(600)
"""
    line = 's --sweep "lr=1,2,3,4,5,99" --prune median --best "min loss" --parallel 1 --retry-failed 1'
    sweep = lab.run(line, script)
    assert words(sweep) == ["succeeded"] * 5 + ["pruned"]
    assert sweep.trials()[-1].job.labels().tags == ("sweep:s", "pruned")
    again = lab.run(line, script)
    assert [len(trial.runs) for trial in again.trials()] == [1] * 6
    assert len(trial_ids(lab.world.backend, lab.world.experiment, sweep.definition)) == 6
