"""Notebooks as jobs, executed by a real kernel."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import batchai_magics
from batchai_magics.errors import UsageError
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = pytest.mark.slow
V4 = nbformat.v4


@pytest.fixture(autouse=True)
def _project(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")


def write(*sources, tagged=None, name="analysis.ipynb"):
    cells = [V4.new_code_cell(source) for source in sources]
    if tagged is not None:
        cells[tagged].metadata["tags"] = ["parameters"]
    nbformat.write(V4.new_notebook(cells=cells), name)


def executed(job, name="analysis.ipynb"):
    """The executed notebook that a job has saved."""
    return nbformat.read(job.download(name, "saved", directory_id="artifacts"), 4)


def test_cells_run_in_one_kernel_with_parameters_behind_the_tagged_cell(home):
    write("lr, name = 0.5, 'sgd'", "print('rate', lr, name)\nlr * 2", tagged=0)
    job = batchai_magics.run("analysis.ipynb", parameters={"lr": 0.1, "name": "adam"}).wait(PATIENCE_S)
    log = job.log()
    assert [line for line in log.splitlines() if line] == [
        *("cell 1/2", "cell 2/2"),
        *("rate 0.1 adam", "0.2"),
    ], job.log(file="stderr.txt")
    assert job.log(file="stderr.txt") == ""
    assert job.labels().parameters == {"lr": 0.1, "name": "adam"}
    cells = executed(job).cells
    assert cells[1].metadata["tags"] == ["injected-parameters"]
    assert cells[2].outputs[-1].data["text/plain"] == "0.2"


def test_stacks_and_profile_of_a_notebook_come_from_its_kernel(home):
    write("import time\nprint('up', flush=True)\ntime.sleep(1000)")
    job = batchai_magics.run("analysis.ipynb")
    until(lambda: "up" in job.log())
    (stack,), (rank,) = job.stacks().ranks, job.profile(1).ranks
    assert (stack.user_frame.line, stack.user_frame.function) == (3, "<module>")
    assert rank.lines() == [("line 3 of a cell", 1.0)]
    job.cancel()
    job.wait(PATIENCE_S)


def test_a_failing_cell_is_named_with_its_line_and_earlier_cells_are_saved(home):
    write("print('kept')", "x = 1\nx / 0", "print('never')")
    job = batchai_magics.run("analysis.ipynb").wait(PATIENCE_S)
    assert (job.error.place, job.error.exception) == (
        "analysis.ipynb cell 2:2",
        "ZeroDivisionError: division by zero",
    )
    assert "never" not in job.log()
    first, second, third = executed(job).cells
    assert first.outputs[0].text == "kept\n"
    assert second.outputs[0].ename == "ZeroDivisionError"
    assert not third.outputs


@pytest.mark.parametrize(
    ("argument", "code", "log"), [("7", 7, ""), ("-1", 255, ""), ("'no data'", 1, "no data\n"), ("", 0, "")]
)
def test_a_cell_that_exits_ends_the_job_with_its_code(home, argument, code, log):
    write(f"raise SystemExit({argument})")
    job = batchai_magics.run("analysis.ipynb").wait(PATIENCE_S)
    assert job.exit_code == code
    assert log in job.log(file="stderr.txt")


def test_the_failing_cell_is_told_and_not_an_earlier_one_whose_error_is_expected(home):
    cells = [
        V4.new_code_cell("1 / 0"),
        V4.new_code_cell("get_ipython().run_cell('1 / 0')\nraise ValueError('second')"),
    ]
    cells[0].metadata["tags"] = ["raises-exception"]
    nbformat.write(V4.new_notebook(cells=cells), "analysis.ipynb")
    error = batchai_magics.run("analysis.ipynb").wait(PATIENCE_S).error
    assert (error.place, error.exception) == ("analysis.ipynb cell 2:2", "ValueError: second")


def test_the_kernel_of_each_rank_is_a_rank_of_mpi_and_has_no_port(home):
    ports = (
        "from mpi4py import MPI\nimport psutil\n"
        "world = MPI.COMM_WORLD\nlistening = [c for c in psutil.Process().net_connections('tcp')"
        " if c.status == psutil.CONN_LISTEN and c.laddr.ip != '127.0.0.1']\n"
        "print('sum', world.allreduce(world.rank), listening)"
    )
    write(ports)
    job = batchai_magics.run("analysis.ipynb", processes=2).wait(PATIENCE_S)
    assert job.log().count("sum 1 []") == 2, job.log(file="stderr.txt")
    assert {each.path for each in job.artifacts()} == {"analysis.ipynb", "analysis.rank1.ipynb"}


PRINTS = """
import base64, os, sys, time, urllib.parse
token = os.environ['TOKEN_OF_TEST']
print(token)
print(urllib.parse.quote(token), base64.b64encode(token.encode()).decode())
print(token.splitlines()[1])
sys.stdout.flush()
for part in (token[:5], token[5:]):
    sys.stdout.write(part)
    sys.stdout.flush()
    time.sleep(0.5)
token
"""


def test_the_executed_notebook_has_no_secrets(home, monkeypatch):
    monkeypatch.setenv("TOKEN_OF_TEST", "hunter'2\nsecret \"line\\")
    monkeypatch.setenv("TEXT", "text")  # a secret that a notebook has as a key
    write(PRINTS, "1 / 0")
    job = batchai_magics.run("analysis.ipynb", secret=["TOKEN_OF_TEST", "TEXT"]).wait(PATIENCE_S)
    first, second = executed(job).cells
    printed = json.dumps(first.outputs)
    assert "***" in printed
    assert not [part for part in ("hunter", "secret", "line", "aHVudGVy") if part in printed]
    assert second.outputs[0].ename == "ZeroDivisionError"


def test_the_same_code_and_parameters_are_the_same_run(home):
    write("print(x)")
    first = batchai_magics.run("analysis.ipynb", parameters={"x": 1}).wait(PATIENCE_S)
    document = nbformat.read("analysis.ipynb", 4)
    document.cells[0].outputs = [V4.new_output("stream", text="1")]
    nbformat.write(document, "analysis.ipynb")
    assert batchai_magics.run("analysis.ipynb", parameters={"x": 1}, new=False).id == first.id
    assert (
        batchai_magics.run("analysis.ipynb", parameters={"x": 2}, new=False).wait(PATIENCE_S).id != first.id
    )


def test_parameters_are_refused_for_a_script(home):
    with pytest.raises(UsageError, match="parameters are for a notebook"):
        batchai_magics.run("train.py", parameters={"x": 1})
    write("print(1)")
    with pytest.raises(UsageError, match="a notebook takes parameters"):
        batchai_magics.run("analysis.ipynb", args=["--lr", 1])


def test_a_python_without_what_notebooks_need_is_refused(home, monkeypatch):
    write("print(1)")
    monkeypatch.setitem(sys.modules, "nbclient", None)  # as where it is not installed
    with pytest.raises(UsageError, match="has no nbclient, which notebooks need"):
        batchai_magics.run("analysis.ipynb")


PACKAGE = Path(batchai_magics.__file__).parent


def test_the_program_of_a_rank_loads_no_grammar_of_addresses():
    path = os.pathsep.join(str(PACKAGE / folder) for folder in ("cell", "models"))
    code = "import run_notebook, sys; print('lark' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_a_killed_run_keeps_the_cells_that_ran(home):
    write("print('kept')", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nsignal.pause()")
    job = batchai_magics.run("analysis.ipynb").wait(PATIENCE_S)
    assert job.show().has_failed
    assert executed(job).cells[0].outputs[0].text == "kept\n"
