"""The tutorials of today's libraries say what happens: they are run from top to bottom, and really train."""

import re
import subprocess

import pytest

from tests.notebooks.test_tutorials import Tutorial, settings_of
from tests.server.clients import python_of

pytestmark = [pytest.mark.slow]


def run(name, place, **more):
    """The notebook after a run on this machine."""
    with settings_of("local", place) as settings:
        return Tutorial(name, place, {**settings, **more})


def test_numbers_are_reported_and_the_model_is_saved(tmp_path):
    notebook = run("02_log_and_save.ipynb", tmp_path)
    first, _, last = notebook.numbers("metrics", r"(?m)^\d+ +(\d+\.\d+)$")
    assert last < first / 100
    assert notebook.has_picture("plot")
    assert re.findall(r"^(\S+)/weights.npy \d+ \w{12}$", notebook.text("artifacts"), re.MULTILINE) == [
        "step-50",
        "step-100",
    ]
    assert notebook.text("artifacts").count("array([ 2., -1.])") == 2
    assert re.search(r"^line +.* 0\.05 +line$", notebook.text("parameters"), re.MULTILINE)


def test_five_runs_are_compared(tmp_path):
    notebook = run("03_comparing_runs.ipynb", tmp_path)
    assert notebook.text("wait").count("'succeeded'") == 5
    listed = re.findall(r"^rate-(\d) ", notebook.text("list"), re.MULTILINE)
    assert listed == ["0", "1", "2", "3", "4"]
    assert re.findall(r"^rate-(\d) ", notebook.text("where"), re.MULTILINE) == ["2", "3", "4"]
    assert "★" in notebook.text("compare")
    assert re.search(r"rate 0\.[13] is best", notebook.text("best"))
    assert re.search(r"^ +rate +0\.001 +0\.[13]$", notebook.text("diff"), re.MULTILINE)


def test_a_sweep_finds_the_best_parameters(tmp_path):
    notebook = run("04_sweep.ipynb", tmp_path)
    assert notebook.text("results").count("succeeded") == 6
    assert "slope-t6 {'lr': 0.1, 'steps': 60" in notebook.text("best")
    assert notebook.text("script").count("succeeded") == 7
    assert "The sweep slope continues." in notebook.text("script")
    assert notebook.text("search").count("succeeded") == 8
    assert re.findall(r"^(search|slope) +finished", notebook.text("list"), re.MULTILINE) == [
        "search",
        "slope",
    ]


def test_what_keras_prints_becomes_metrics(tmp_path):
    find = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python_of("keras"), "-c", find], capture_output=True, text=True, check=True)
    notebook = run("06_keras.ipynb", tmp_path, PYTHONPATH=found.stdout.strip())
    row = r"^(\d+)" + r" +(\d\.\d+)" * 4 + "$"
    epochs = re.findall(row, notebook.text("wait"), re.MULTILINE)
    assert [epoch for epoch, *_ in epochs] == ["1", "5", "10"]
    assert float(epochs[-1][1]) < float(epochs[0][1])
    assert float(epochs[-1][4]) > 0.8
    assert notebook.has_picture("plot")
    assert "circle.keras" in notebook.text("artifacts")
