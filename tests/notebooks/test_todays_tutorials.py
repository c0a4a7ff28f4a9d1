"""The tutorials of today's libraries say what happens: they are run from top to bottom, and really train."""

import re

import pytest

from tests.notebooks.test_tutorials import Tutorial, settings_of
from tests.server.clients import packages_of

pytestmark = [pytest.mark.slow]


def run(name, place, **more):
    """The notebook after a run on this machine."""
    with settings_of("local", place) as settings:
        return Tutorial(name, place, {**settings, **more})


def test_pytorch_trains_with_workers_validates_and_keeps_a_checkpoint(tmp_path):
    notebook = run("02_pytorch_ddp.ipynb", tmp_path, PYTHONPATH=packages_of("torch"))
    rows = re.findall(r"^(\d+)" + r" +(\d\.\d+)" * 3 + "$", notebook.text("metrics"), re.MULTILINE)
    assert [epoch for epoch, *_ in rows] == ["1", "5", "15"]
    assert float(rows[-1][2]) < float(rows[0][2])
    assert float(rows[-1][3]) > 0.9
    assert notebook.has_picture("plot")
    assert re.match(r"circle.pt \d+ \w{12}\ninside outside", notebook.text("model"))


def test_a_failure_has_its_reason_and_a_hang_its_place(tmp_path):
    notebook = run("03_failed_or_hanging.ipynb", tmp_path)
    assert "fails failed after" in notebook.text("error")
    assert "rank 2, cell line 12: KeyError: 'label'\nTraceback" in notebook.text("error")
    assert notebook.text("ranks").splitlines()[0].split()[::2] == ["2", "1"]
    assert "Rank 3 differs from the others" in notebook.text("stacks")
    assert "wait_for_shard" in notebook.text("stacks")
    assert "True" in notebook.text("cancel")


def test_numbers_are_reported_and_the_model_is_saved(tmp_path):
    notebook = run("04_logs_and_metrics.ipynb", tmp_path)
    first, _, last = notebook.numbers("metrics", r"(?m)^\d+ +(\d+\.\d+)$")
    assert last < first / 100
    assert notebook.has_picture("plot")
    assert notebook.text("log").count('"rank": 3') == 2
    assert notebook.numbers("scores", r"score +(\d\.\d\d)") == [0.0, 0.5, 0.67, 0.75, 0.8]
    assert re.findall(r"^(\S+)/weights.npy \d+ \w{12}$", notebook.text("artifacts"), re.MULTILINE) == [
        "step-50",
        "step-100",
    ]
    assert notebook.text("artifacts").count("array([ 2., -1.])") == 2
    assert re.search(r"^line +.* 0\.05 +line$", notebook.text("parameters"), re.MULTILINE)


def test_a_sweep_finds_the_best_parameters_and_compares_its_runs(tmp_path):
    notebook = run("05_sweep_and_compare.ipynb", tmp_path)
    assert notebook.text("results").count("succeeded") == 6
    assert re.match(r"slope-t6 .*'steps': '?60", notebook.text("best"))
    assert "The sweep slope continues." in notebook.text("more")
    assert notebook.text("more-results").count("succeeded") == 7
    assert notebook.text("search-results").count("succeeded") == 8
    assert re.findall(r"^(search|slope) +finished", notebook.text("list"), re.MULTILINE) == [
        "search",
        "slope",
    ]
    assert "★" in notebook.text("compare")
    assert re.findall(r"^slope-t(\d) ", notebook.text("where"), re.MULTILINE) == ["5", "6", "7"]
    assert re.search(r"^ +lr +0\.001 +0\.1$", notebook.text("diff"), re.MULTILINE)


def test_what_keras_prints_becomes_metrics(tmp_path):
    notebook = run("08_keras.ipynb", tmp_path, PYTHONPATH=packages_of("keras"))
    row = r"^(\d+)" + r" +(\d\.\d+)" * 4 + "$"
    epochs = re.findall(row, notebook.text("wait"), re.MULTILINE)
    assert [epoch for epoch, *_ in epochs] == ["1", "5", "10"]
    assert float(epochs[-1][1]) < float(epochs[0][1])
    assert float(epochs[-1][4]) > 0.8
    assert notebook.has_picture("plot")
    assert "circle.keras" in notebook.text("artifacts")


def test_a_notebook_a_training_and_an_evaluation_follow_each_other_and_tell_the_slow_rank(tmp_path):
    notebook = run("09_beyond_one_script.ipynb", tmp_path)
    assert notebook.text("notebook").strip() == "prepare.ipynb"
    assert re.search(r"[Rr]ank 3 .* data loader", notebook.text("profile"))
    (error,) = notebook.numbers("result", r"(?m)^test rmse: (\d\.\d+)$")
    assert error < 0.2
    assert set(re.findall(r"^(data|train|evaluate) .*succeeded", notebook.text("list"), re.MULTILINE)) == {
        "data",
        "train",
        "evaluate",
    }
    assert "http://127.0.0.1:" in notebook.text("all")
