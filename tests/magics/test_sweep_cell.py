"""A cell with `--sweep` in a shell, and the commands that show its sweep."""

import pytest

pytestmark = pytest.mark.slow

CELL = """%%batchai_job lr --sweep "lr=0.2,0.1" --best "min loss" {options}
import os
print("step 1 loss", os.environ["PARAM_LR"])
"""


def test_the_sweep_is_bound_to_its_name_and_shown_by_commands(run, shell, capsys):
    run(CELL.format(options="--wait"))
    assert run("sweep.best.name") == "lr-t2"
    capsys.readouterr()
    table = run("%batchai sweep show -n lr -o tsv")
    assert [line.split("\t")[:4] for line in str(table).splitlines()] == [
        ["1", "0.2", "succeeded", "1"],
        ["2", "0.1", "succeeded", "1"],
    ]
    assert "Sweep lr: finished, 2 of 2 trials ended" in capsys.readouterr().out
    assert run("%batchai sweep list").data[0]["ended"] == 2
    run("%batchai sweep cancel -n lr -y")
    assert "lr has already ended (finished)." in capsys.readouterr().out
    assert run("%batchai sweep show -n LR").name == "lr"
    is_bound_to_another_name(run, capsys)


def is_bound_to_another_name(run, capsys):
    """Where it is given, or where the sweep's own has a value of another type."""
    run("sweep = 3")
    run(CELL.format(options="--wait"))
    assert run("sweep") == 3
    assert "sweep is left unchanged: it holds an object of type int, not a sweep." in capsys.readouterr().out
    run(CELL.format(options="--wait --var mine"))
    assert run("mine.name") == "lr"


def test_a_dry_run_lists_the_trials_and_creates_nothing(run, fail):
    text = str(run(CELL.format(options="--dry-run")))
    assert "sweep lr: 2 trials (grid)\n  1  lr=0.2\n  2  lr=0.1\n" in text
    assert not run("%batchai sweep list").data
    assert "there is no sweep none" in fail("%batchai sweep show -n none")


def test_a_sweep_is_shown_below_its_cell(run, shell, capsys):
    run(CELL.format(options=""))
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("2 trials", "lr-t1", "lr-t2", "%batchai sweep show -n lr"))
    run("sweep.wait()")


def test_a_sweep_that_has_ended_is_shown_with_its_end_at_once(run, shell, capsys, tmp_path):
    go = tmp_path / "go"
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
    run(f"{CELL.format(options='')}{wait}")
    assert "running" in repr(run("sweep"))
    go.touch()
    run("sweep.wait()")
    capsys.readouterr()
    run("sweep")
    assert "2 trials: 2 succeeded" in capsys.readouterr().out
