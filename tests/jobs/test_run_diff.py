"""Two runs side by side: what differs, as text, HTML and data."""

import math
from dataclasses import replace

import pytest

from batchai_magics.cards.job_card import run_diff_html
from batchai_magics.errors import UsageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.run_diff import (
    MAX_CODE,
    Difference,
    RunDiff,
    diff_runs,
)
from batchai_magics.models.resource_ids import Kind
from tests.commands.conftest import context, do
from tests.widgets.scripted_job import JOB, ScriptedBackend
from tests.world import World

__all__ = ["context", "do"]
DIFF = RunDiff(
    ("one", "two"),
    ("--- one", "+++ two", "@@ -1 +1 @@", "-a < b", "+a"),
    (
        Difference("packages", "numpy", "1.0", "2.0"),
        Difference("metrics", "loss", "0.5", "0.4", "-20.0 %"),
    ),
    ("two has no record of its code",),
)
SCRIPT = "from batchai_magics import log\nlog(step=1, loss={loss})\nprint(data[0])\n"


def test_text_and_html_have_every_section():
    assert repr(DIFF).splitlines() == [
        "one → two",
        "  ! two has no record of its code",
        "--- one",
        "+++ two",
        "@@ -1 +1 @@",
        "-a < b",
        "+a",
        "packages:",
        "  numpy  1.0  2.0",
        "metrics:",
        "  loss  0.5  0.4  -20.0 %",
    ]
    html = run_diff_html(DIFF)
    for text in ("-a &lt; b", "numpy", "-20.0 %", "no record of its code"):
        assert text in html
    long = replace(DIFF, code=("+x",) * (MAX_CODE + 7))
    assert long.shown_code[-1] == "… and 7 more lines"


def test_text_tells_which_run_lacks_a_value():
    rows = (Difference("parameters", "lr", "", "3"), Difference("parameters", "seed", "1", ""))
    assert repr(replace(DIFF, rows=rows)).splitlines()[-2:] == ["  lr    –  3", "  seed  1  –"]


def test_runs_that_differ_in_metrics_alone_are_the_same_runs():
    same = replace(DIFF, code=(), rows=DIFF.rows[1:], notes=())
    assert not same.is_different
    assert "the same code" in repr(same)
    assert "the same code" in run_diff_html(same)


@pytest.fixture
def diff_of_logs(tmp_path):
    """The rows that differ of two runs with these logs."""

    def diff(*logs):
        runs = [ScriptedBackend(tmp_path / str(number)) for number, _ in enumerate(logs)]
        for run, log in zip(runs, logs, strict=True):
            run.write(log)
        return diff_runs(*(Job(run, JOB) for run in runs)).rows

    return diff


def test_a_metric_is_one_row_however_both_runs_spell_it(diff_of_logs):
    (row,) = diff_of_logs("step=1 train/loss=0.5\n", "step=1 loss=0.25\n")
    assert (row.name, row.change) == ("train/loss", "-50.0 %")


@pytest.mark.parametrize(
    ("second", "change"), [(2.25, "+12.5 %"), (1.99984, "-0.008 %"), (2.0, "+0.0 %"), (math.nan, "")]
)
def test_a_small_change_is_not_shown_as_none(diff_of_logs, second, change):
    (row,) = diff_of_logs("step=1 loss=2.0\n", f"step=1 loss={second}\n")
    assert row.change == change


def test_of_two_ids_only_the_parts_that_differ_are_shown(tmp_path):
    runs = []
    for name in ("cpu", "cpu2"):
        run = ScriptedBackend(tmp_path / name)
        cluster = run.job.spec.cluster.model_copy(
            update={"id": str(JOB.workspace_id.child(Kind.CLUSTER, name))}
        )
        run.job = replace(run.job, spec=run.job.spec.model_copy(update={"cluster": cluster}))
        runs.append(Job(run, JOB))
    (row,) = diff_runs(*runs).rows
    assert row[2:4] == ("cpu", "cpu2")


@pytest.mark.slow
def test_an_edited_cell_differs_in_code_arguments_variables_and_metrics(world: World, context, do):
    settings = replace(world.settings, provenance="full")
    world.settings, first = settings, ("train --args '--lr 0.5' --use data", SCRIPT.format(loss=0.5))
    second = ("train --args '--lr 0.1' --use data --env A=1", SCRIPT.format(loss=0.25))
    jobs = [world.run(*first, data=[1]), world.run(*second, data=[2])]
    found = diff_runs(*jobs)
    assert found.names == ("train", "train-2")
    assert "-log(step=1, loss=0.5)" in found.code
    rows = {(row.section, row.name): row[2:] for row in found.rows}
    assert rows["parameters", "lr"] == ("0.5", "0.1", "")
    assert rows["submission", "arguments"] == ("--lr 0.5", "--lr 0.1", "")
    assert not [name for section, name in rows if section == "options" and "commandLine" in name]
    assert rows["variables", "data"] == ("[1]", "[2]", "")
    assert rows["options", "environmentVariables[A].value"] == ("", "1", "")
    assert rows["metrics", "loss"] == ("0.5", "0.25", "-50.0 %")
    vars(context)["backend"] = world.backend
    data = do("job diff train train-2").data
    assert (data["runs"], len(data["rows"])) == (["train", "train-2"], len(found.rows))
    with pytest.raises(UsageError, match="expected two runs, got 1"):
        do("diff train")
