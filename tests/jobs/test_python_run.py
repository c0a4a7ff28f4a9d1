import os
from pathlib import Path

import pytest

import batchai_magics
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell.cell_options import cell_options
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.python_run import option_words
from batchai_magics.models.resource_ids import Kind, workspace_id
from tests.patience import PATIENCE_S

KNOWN = {option.name: option for option in cell_options()}


def sum_of_ranks(start, *, factor):
    return start + factor * int(os.environ["PMI_SIZE"])


def failing():
    return sum_of_ranks(1, factr=2)


@pytest.mark.slow
def test_a_function_runs_on_the_nodes_and_its_value_comes_back(home):
    job = batchai_magics.run(sum_of_ranks, nodes=2, args=(1,), kwargs={"factor": 10})
    assert job.name == "sum_of_ranks"
    assert job.wait(PATIENCE_S).result == 21, job.log(file="stderr.txt")
    again = batchai_magics.run(sum_of_ranks, nodes=2, args=(1,), kwargs={"factor": 10}, new=False)
    assert again.id == job.id
    further = batchai_magics.run(sum_of_ranks, nodes=2, args=(1,), kwargs={"factor": 10})
    assert (further.id != job.id, further.wait(PATIENCE_S).result) == (True, 21)
    assert batchai_magics.run(sum_of_ranks, args=(1,), kwargs={"factor": 1}).wait(PATIENCE_S).result == 2


@pytest.mark.slow
def test_a_failing_function_is_told_with_the_line_of_its_own_file(home):
    line = failing.__code__.co_firstlineno + 1
    error = batchai_magics.run(failing).wait(PATIENCE_S).error
    assert error.place == f"{shown_file()}:{line}"
    shown = [f'  File "{shown_file()}", line {line}, in failing', "    return sum_of_ranks(1, factr=2)"]
    at = error.lines.index(shown[0])
    assert list(error.lines[at : at + 2]) == shown


def shown_file():
    """This file as tracebacks of jobs name it: below the working directory, by that path."""
    file = Path(__file__)
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


@pytest.mark.slow
def test_a_script_runs_with_its_folder_and_arguments(home, tmp_path, monkeypatch):
    (tmp_path / "conf.txt").write_text("small")
    (tmp_path / "train.py").write_text("import sys; print(open('conf.txt').read(), sys.argv[1:])")
    monkeypatch.chdir(tmp_path)
    job = batchai_magics.run("train.py", args=["--lr", 0.1], tag=["a", "b"])
    assert job.wait(PATIENCE_S).log() == "small ['--lr', '0.1']\n"
    assert set(job.labels().tags) == {"a", "b"}


def test_a_job_is_found_by_a_text_only():
    with pytest.raises(UsageError, match="find_job"):
        batchai_magics.find_job(1)


def test_options_become_words():
    options = {"nodes": 2, "env": {"A": 1, "B": "x y"}, "upload": ["a", "b"], "grow": True, "name": None}
    words = ["--nodes=2", "--env=A=1", "--env=B=x y", "--upload=a", "--upload=b", "--grow"]
    assert option_words(options, KNOWN) == words


def test_the_handle_of_a_job_is_a_predecessor_by_its_id(tmp_path):
    id = workspace_id(Settings()).child(Kind.EXPERIMENT, "e").child(Kind.JOB, "prep")
    job = Job(LocalBackend(LocalSettings(home=tmp_path)), id)
    assert option_words({"after": job, "after_any": [job, "other"]}, KNOWN) == [
        *(f"--after={id}", f"--after-any={id}", "--after-any=other"),
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("proceses", 'Did you mean "processes"'),
        ("max_tim", 'Did you mean "max_time"'),
        ("stop_iff", 'Did you mean "stop_if"'),
        ("time_limit", "Here it is max_time: "),
        ("num_processes", "Here it is processes: total number of processes"),
    ],
)
def test_an_unknown_option_is_told_with_the_one_that_is_meant_by_its_name_in_python(name, hint):
    with pytest.raises(UsageError, match=name) as caught:
        batchai_magics.run(sum_of_ranks, **{name: "1h"})
    assert hint in caught.value.hint


def test_a_target_that_is_no_function_and_no_path_is_refused():
    with pytest.raises(UsageError, match="a function or the path of a script"):
        batchai_magics.run(3)
