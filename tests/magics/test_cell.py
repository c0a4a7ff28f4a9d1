"""Cells of `%%batchai_job` in a real IPython."""

import json

import pytest

from batchai_magics.jobs.job_handle import Job
from tests.patience import PATIENCE_S


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%batchai_job hello", "the cell is empty"),
        ("%%batchai_job hello\ndef (", "syntax error at line 2 of the cell"),
        ("%%batchai_job hello --nodes {count}\npass", "there is no variable count"),
    ],
)
def test_a_wrong_cell_is_refused_before_anything_is_made(run, fail, cell, message):
    told = fail(cell)
    assert message in told
    assert "Traceback" not in told
    assert len(run("%batchai workspace list")) == 0


def test_a_dry_run_writes_nothing(run, tmp_path):
    text = run("%%batchai_job hello --nodes 2 --processes 4 --dry-run\nprint('hi')")
    assert "to start: 4 processes on 2 nodes, as the ranks of one MPI job" in text
    assert "node 1  rank 3  exec" in text
    assert "scripts/default/hello/" in text
    assert not (tmp_path / "home").exists()


def test_unused_properties_of_a_job_file_are_named(run, tmp_path, capsys):
    body = {
        "nodeCount": 1,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/afs",
        "customToolkitSettings": {"commandLine": "true", "processCount": 2},
    }
    (tmp_path / "job.json").write_text(json.dumps({"$schema": "x", "properties": body}))
    run(f"%%batchai_job --file {tmp_path}/job.json --dry-run\n")
    path = "properties.customToolkitSettings.processCount"
    assert capsys.readouterr().out.startswith(f"{tmp_path}/job.json: {path} is not used here")


def test_a_dry_run_tells_of_too_many_nodes(run):
    text = run("%%batchai_job hello --nodes 9 --dry-run\nprint('hi')")
    assert "problem: the job wants 9 nodes; cluster default is made with 2 nodes" in text


@pytest.mark.slow
def test_a_cell_gives_the_job_and_binds_it_finds_it_again_and_once_edited_is_the_next_run(run, shell, capsys):
    job = run("%%batchai_job hello\nprint('hi')")
    assert isinstance(job, Job)
    assert shell.user_ns["job"] is job
    assert job.wait(PATIENCE_S).log() == "hi\n"
    capsys.readouterr()
    assert run("%%batchai_job hello\nprint('hi')").id == job.id
    told = capsys.readouterr()
    assert "already submitted" not in told.out
    assert told.err.startswith(
        "Warning: hello was already submitted from this cell and has ended: nothing ran"
    )
    assert run("%%batchai_job hello --new\nprint('hi')").wait(PATIENCE_S).name == "hello-2"
    assert run("%%batchai_job hello\nprint('ho')").wait(PATIENCE_S).log() == "ho\n"
    assert "The cell changed since hello-2: running as hello-3" in capsys.readouterr().out


@pytest.mark.slow
def test_a_name_that_holds_something_else_is_left_alone(run, shell, capsys):
    run("job = 'precious'")
    job = run("%%batchai_job hello\nprint('hi')").wait(PATIENCE_S)
    assert shell.user_ns["job"] == "precious"
    assert "Use --var to choose another variable" in capsys.readouterr().out
    assert run("%%batchai_job hello --var run\nprint('hi')").id == shell.user_ns["run"].id == job.id


@pytest.mark.slow
def test_wait_ends_with_the_job_which_lines_show_and_read(run, fail, shell, capsys):
    assert run("%%batchai_job good --wait\nprint('hi')") is None
    assert shell.user_ns["job"].is_done
    told = capsys.readouterr()
    assert "\nhi\n" in told.out  # a terminal shows no view: it gets the log
    assert "Job state: succeeded" in told.out
    assert run("%batchai job show -n good").name == "good"
    capsys.readouterr()
    run("%batchai job file stream -j good -f stdout.txt")
    assert capsys.readouterr().out == "hi\n"
    run("%batchai job wait -n good")
    assert "Job state: succeeded" in capsys.readouterr().out
    told = fail("%%batchai_job bad --wait\nraise SystemExit(3)")
    assert "JobFailedError: bad failed after " in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_a_failed_wait_below_a_card_names_the_line_that_prints_the_log(fail, run, capsys, monkeypatch):
    monkeypatch.setenv("BATCHAI_UI", "html")
    told = fail("%%batchai_job bad --wait\nprint('so far')\nraise SystemExit(3)")
    assert "Its log: %batchai logs bad" in told
    run("%batchai logs bad")
    assert "so far" in capsys.readouterr().out


@pytest.mark.slow
def test_a_cell_of_a_running_job_shows_it_and_says_so(run, capsys):
    cell = "%%batchai_job again\nimport time\ntime.sleep(1000)"
    job = run(cell)
    run(cell)
    assert "again was already submitted from this cell" in capsys.readouterr().out
    job.cancel()
    job.wait(PATIENCE_S)


@pytest.mark.slow
def test_an_unchanged_cell_runs_again_where_the_settings_say_so(run, monkeypatch, capsys):
    monkeypatch.setenv("BATCHAI_RUN_POLICY", "new")
    names = [run("%%batchai_job nightly\nprint(1)").wait(PATIENCE_S).name for _ in range(2)]
    assert names == ["nightly", "nightly-2"]
    assert run("%%batchai_job nightly --same\nprint(1)").name == "nightly-2"
    assert "has ended" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("notebook", "parent", "name"),
    [
        ("/home/me/My training.ipynb", {"metadata": {"cellId": "3f2a9c1e-77"}}, "My-training-3f2a9c"),
        ("/home/me/train.ipynb", {"metadata": {"cellId": "1234567"}}, "train-c123456"),
        ("/home/me/train.ipynb", {"metadata": {}}, "train"),
        ("0d9f3a4e-kernel", {}, "job"),
        ("", {"metadata": {"cellId": "3f2a9c1e"}}, "job-3f2a9c"),
    ],
)
def test_a_job_without_a_name_is_called_after_its_notebook_and_cell(
    run, shell, monkeypatch, notebook, parent, name
):
    monkeypatch.setenv("JPY_SESSION_NAME", notebook)
    monkeypatch.setattr(shell, "get_parent", lambda: parent, raising=False)
    assert run("%%batchai_job --dry-run\nprint(1)").startswith(f"job {name} in experiment default")
