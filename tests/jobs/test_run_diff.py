"""Two runs side by side: what differs, as text, HTML and data."""

import math
from dataclasses import replace

import pytest

from batchai_magics.cards.job_card import run_diff_html
from batchai_magics.errors import UsageError
from batchai_magics.jobs.run_diff import (
    MAX_CODE,
    Difference,
    RunDiff,
    _change,
    _differing,
    _metrics,
    diff_runs,
)
from tests.commands.conftest import context, do
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


def test_the_text_has_every_section():
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


def test_the_html_is_escaped_and_has_every_section():
    html = run_diff_html(DIFF)
    assert "-a &lt; b" in html
    for text in ("numpy", "-20.0 %", "no record of its code"):
        assert text in html


def test_runs_that_differ_in_metrics_alone_are_the_same_runs():
    same = replace(DIFF, code=(), rows=DIFF.rows[1:], notes=())
    assert not same.is_different
    assert "the same code" in repr(same)
    assert "the same code" in run_diff_html(same)


def test_a_metric_is_one_row_however_both_runs_spell_it():
    (row,) = _metrics({"train/loss": 0.5}, {"loss": 0.25})
    assert (row.name, row.change) == ("train/loss", "-50.0 %")


def test_a_long_diff_is_cut():
    long = replace(DIFF, code=("+x",) * (MAX_CODE + 7))
    assert long.shown_code[-1] == "… and 7 more lines"


@pytest.mark.parametrize(
    ("second", "change"), [(2.25, "+12.5 %"), (1.99984, "-0.008 %"), (2.0, "+0.0 %"), (math.nan, "")]
)
def test_a_small_change_is_not_shown_as_none(second, change):
    assert _change(2.0, second) == change


def test_of_two_ids_only_what_differs_is_shown():
    ids = [f"/subscriptions/s/resourceGroups/g/workspaces/w/clusters/{name}" for name in ("cpu", "cpu2")]
    (row,) = _differing("options", {"cluster.id": ids[0]}, {"cluster.id": ids[1]})
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
