"""`batchai run`: a script with its folder becomes a job."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from batchai_magics.backends.slurm.settings import SBATCH
from batchai_magics.cell.cell_options import SWEEP_FLAGS, cell_options
from batchai_magics.commands.handlers import run_command
from batchai_magics.commands.handlers.run_command import prepare, project_python, read_line, run_options
from batchai_magics.errors import UsageError
from batchai_magics.options.option import DisplayText
from tests.backends.local.still import has_devices
from tests.cell.shiny_wheel import needs_uv
from tests.patience import PATIENCE_S


@pytest.fixture
def preview(monkeypatch, tmp_path):
    """Gives the text of a dry run in a folder with a script."""
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("import model\n")
    (tmp_path / "src" / "model.py").touch()

    def preview(line):
        text = run_command.prepare(["--dry-run", *shlex.split(line)])
        assert isinstance(text, DisplayText)
        assert not (tmp_path / "home").exists()
        return str(text)

    return preview


def test_options_come_before_and_after_the_script_and_its_arguments_after_two_dashes():
    words = shlex.split("--nodes 2 train.py -d --env A=1 --env=B=2 --upload a b -- --nodes 3 -- x")
    line = read_line(words, run_options())
    assert line.options == ("--nodes=2", "--env=A=1", "--env=B=2", "--upload=a", "--upload=b")
    assert line.command == ("train.py", "--nodes", "3", "--", "x")
    assert line.is_detached


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("train.py --lr 0.1 --nodes 2", "train.py --nodes 2 -- --lr 0.1"),
        ("--nodes=2 train.py 'two words' -- more", "train.py --nodes=2 -- 'two words' more"),
        ("--nodes 2 torchrun --nproc_per_node=2 t.py -d", "--nodes 2 -d -- torchrun --nproc_per_node=2 t.py"),
        ("python train.py", "-- python train.py"),
        ("env A=1 python train.py", "-- env A=1 python train.py"),
        ("A=1 python train.py", "-- A=1 python train.py"),
        ("-m pkg.train --nodes 2 --lr 1", "-m pkg.train --nodes 2 -- --lr 1"),
    ],
)
def test_words_behind_the_script_are_refused_with_the_corrected_line(line, corrected):
    with pytest.raises(UsageError, match="after --") as caught:
        read_line(shlex.split(line), run_options())
    assert caught.value.hint == f"Write: batchai run {corrected}"
    assert read_line(shlex.split(corrected), run_options()).command


def test_a_misspelt_option_behind_the_script_suggests_the_right_one():
    with pytest.raises(UsageError) as caught:
        read_line(["train.py", "--nods", "2"], run_options())
    assert "--nodes" in caught.value.hint
    assert "batchai run train.py -- --nods 2" in caught.value.hint


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--sweep lr=1,2", "Sweeps are cells: %%batchai_job NAME --sweep …"),
        ("--seeds 3", "Sweeps are cells"),
        ("--wait", "`batchai run` waits for the end of the job; with --detach, it does not."),
        ("--mem 8G", "Here it is --slurm: options of sbatch, on a Slurm cluster"),
        ("--cpus_per_task=4", "Here it is --slurm: options of sbatch"),
        ("--partition gpu", "Here it is --slurm: options of sbatch"),
        ("--array 0-3", "%%batchai_job NAME --sweep"),
        ("--backend slurm", "BATCHAI_BACKEND=NAME batchai run"),
    ],
)
def test_an_option_of_cells_or_of_sbatch_is_answered_with_what_it_is_here(words, hint):
    for line in (f"{words} train.py", f"train.py {words}"):
        with pytest.raises(UsageError) as caught:
            read_line(line.split(), run_options([SBATCH]))
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    "line",
    [
        "-p lr 0.2 analysis.ipynb",
        "analysis.ipynb -p lr 0.2",
        "-p lr analysis.ipynb",
        "analysis.ipynb -p lr -d",
    ],
)
def test_a_parameter_without_a_sign_is_answered_with_one(line):
    with pytest.raises(UsageError, match="-p lr: a notebook takes parameters, as NAME=VALUE") as caught:
        read_line(line.split(), run_options())
    assert caught.value.hint == "Write: -p lr=VALUE"


def test_a_wrong_value_names_the_help_of_the_command(preview):
    with pytest.raises(UsageError, match="--toolkit: 'mpy' is not one of") as caught:
        preview("src/train.py --toolkit mpy")
    assert caught.value.hint == "`batchai run --help` lists the options"


def test_a_misspelt_value_suggests_the_right_one(preview):
    with pytest.raises(UsageError, match=r"'torch' is not one of .*, custom\. Did you mean \"pytorch\"\?"):
        preview("src/train.py --toolkit torch")


@pytest.mark.parametrize("line", ["bash train.sh", "/bin/sh -e train.sh"])
def test_a_shell_in_place_of_a_script_is_told_what_to_write(line):
    with pytest.raises(UsageError, match="sh runs a shell script; a job runs Python") as caught:
        read_line(line.split(), run_options())
    assert "batchai run -- torchrun train.py" in caught.value.hint


@pytest.mark.parametrize("words", ["--tag --dry-run", "--name --dry-run", "--after -d", "--tag --nodes=2"])
def test_an_option_is_no_value_of_another(words):
    flag = words.split()[0]
    for line in (f"train.py {words}", f"{words} train.py"):
        with pytest.raises(UsageError, match=f"{flag}: expected one argument") as caught:
            read_line(line.split(), run_options())
        assert f"Write {words.replace(' ', '=', 1)} if that is its value" in caught.value.hint


def test_a_value_may_begin_with_a_dash():
    words = ["train.py", "--prep", "-v", "--tag=--dry-run", "--metric", "--x=(.+)"]
    assert read_line(words, run_options()).options == ("--prep=-v", "--tag=--dry-run", "--metric=--x=(.+)")


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        ((), "It has no Python file."),
        (("a.py", "main.py"), "Write: batchai run proj/main.py"),
        (("__init__.py", "fit.py"), "Write: batchai run proj/fit.py"),
        (("__main__.py", "main.py"), "Write: batchai run proj/__main__.py"),
    ],
)
def test_a_folder_in_place_of_a_script_is_answered_with_its_script(tmp_path, monkeypatch, files, hint):
    (tmp_path / "proj").mkdir()
    for name in files:
        (tmp_path / "proj" / name).touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="proj is a folder") as caught:
        prepare(["proj"])
    assert caught.value.hint == hint


def test_a_notebook_takes_parameters_before_and_after_its_name(preview, tmp_path):
    cells = [{"cell_type": "code", "source": "print(lr)"}]
    (tmp_path / "analysis.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    for line in ("-p lr=0.1 analysis.ipynb -p 'name=a b'", "analysis.ipynb -- lr=0.1 'name=a b'"):
        text = preview(f"--nodes 2 {line}")
        assert "run_notebook.py\" analysis.ipynb lr=0.1 'name=a b'" in text
        assert "job analysis in experiment" in text
    for line, message in {
        "-p lr=0.1 src/train.py": "-p is given, and no notebook",
        "analysis.ipynb -p lr": "lr: a notebook takes parameters, as NAME=VALUE",
        "analysis.ipynb -- --lr 0.1": "--lr: a notebook takes parameters",
    }.items():
        with pytest.raises(UsageError) as caught:
            preview(line)
        assert message in str(caught.value)


def test_a_launcher_comes_after_two_dashes():
    line = read_line(["--nodes", "2", "--", "torchrun", "t.py"], run_options())
    assert (line.options, line.command) == (("--nodes=2",), ("torchrun", "t.py"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--nods 2 train.py", "unknown option --nods"),
        ("--nodes", "--nodes: expected one argument"),
        ("", "no script was given"),
        ("--nodes two src/train.py", "--nodes two"),
        ("tran.py", "tran.py: no such file"),
        ("--spec job.json train.py", "--spec and train.py are both given"),
        ("--spec job.json", "job.json"),
    ],
)
def test_a_wrong_line_is_refused_before_anything_is_written(preview, line, message):
    with pytest.raises(UsageError, match=message):
        preview(line)


@pytest.mark.slow
def test_an_option_of_the_job_among_the_arguments_of_a_script_is_named(preview):
    note = "{} goes to src/train.py, which does not mention it; options of the job come before --"
    text = preview("src/train.py -- --nodes 2 --max-time=3 --lr 1 -d --nodes 3")
    assert text.splitlines()[:2] == [note.format("--nodes"), note.format("--max-time")]


@pytest.mark.slow
def test_an_option_that_a_file_of_the_script_defines_is_its_own(preview, tmp_path):
    (tmp_path / "src" / "model.py").write_text("parser.add_argument('--nodes')\nmax_time = field()")
    assert "goes to" not in preview("src/train.py -- --nodes 2 --max-time 3")


@pytest.fixture
def stdin(tmp_path):
    """Makes a file or a pipe the standard input of this process."""
    before = os.dup(0)
    opened = []

    def stdin(kind):
        if kind == "pipe":
            opened.extend(os.pipe())
        else:
            opened.append(os.open(tmp_path / "train" if kind == "file" else kind, os.O_RDONLY | os.O_CREAT))
        os.dup2(opened[0], 0)

    yield stdin
    os.dup2(before, 0)
    for number in (before, *opened):
        os.close(number)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "code", "is_noted"),
    [
        ("pipe", "import sys\nsys.stdin.read()", True),
        ("file", "name = input('name? ')", True),
        ("pipe", "for line in fileinput.input(): pass", True),
        ("pipe", "model.input(1); read_input()", False),
        (os.devnull, "sys.stdin.read()", False),
    ],
)
def test_a_script_that_reads_stdin_is_said_to_find_it_empty(preview, tmp_path, stdin, kind, code, is_noted):
    (tmp_path / "src" / "train.py").write_text(code)
    stdin(kind)
    note = "src/train.py reads stdin, which is empty in a job: pass its input as an argument"
    assert (note in preview("src/train.py")) is is_noted


@pytest.mark.slow
def test_the_script_goes_along_with_its_folder(preview):
    text = preview("src/train.py --nodes 2 --processes 4 -- --lr 0.1 'two words'")
    assert text.startswith("job train in experiment default")
    assert "/model.py" in text
    assert "rank 3" in text
    assert """train.py" --lr 0.1 'two words'""" in text


@pytest.mark.slow
def test_relative_paths_of_the_script_work_since_the_working_directory_has_a_copy(preview):
    assert """preparation  cp -R "$AZ_BATCHAI_INPUT_SCRIPT/." . && true""" in preview(
        "--prep true src/train.py"
    )


@pytest.mark.slow
def test_the_working_directory_has_the_empty_folders_of_the_project(preview, tmp_path):
    (tmp_path / "my figs").mkdir()
    assert (
        """preparation  { cp -R "$AZ_BATCHAI_INPUT_SCRIPT/." . && mkdir -p -- 'my figs'; } && true"""
        in preview("--prep true src/train.py")
    )


@pytest.mark.slow
def test_a_launcher_is_translated_and_says_so(preview):
    text = preview("--nodes 2 -- torchrun --nproc_per_node=2 src/train.py")
    assert text.startswith("torchrun: runs as --toolkit pytorch --nodes 2 --processes 4\n")
    assert "to start: 4 processes on 2 nodes, without MPI" in text


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [("0", "1", "2", "3"), ()])
def test_launchers_find_the_gpus_of_this_machine(preview, monkeypatch, gpus):
    has_devices(monkeypatch, 8, gpus)
    text = preview("-- accelerate launch --num_processes 2 src/train.py")
    assert ("ACCELERATE_USE_CPU=true" in text) is not bool(gpus)
    if gpus:
        assert "--processes 2\n" in preview("--nodes 1 -- torchrun --nproc_per_node=gpu src/train.py")


@pytest.mark.slow
def test_the_jobs_own_options_win_over_the_launchers(preview):
    text = preview("--processes 6 --nodes 2 -- torchrun --nproc_per_node=2 src/train.py")
    assert "to start: 6 processes on 2 nodes" in text


@pytest.mark.slow
def test_a_module_goes_along_with_the_working_directory(preview, tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "fit.py").write_text("from . import model\n")
    for line in ("-m pkg.fit --nodes 2 -- --lr 0.1", "--nodes 2 -- python -m pkg.fit --lr 0.1"):
        text = preview(line)
        assert text.startswith("job fit in experiment default")
        assert 'run_module.py" pkg.fit --lr 0.1' in text
    assert "pkg.fit --local_rank=$LOCAL_RANK" in preview("-- deepspeed --module pkg.fit")
    with pytest.raises(UsageError, match=r"-m pkg\.fti: no such module") as caught:
        preview("-m pkg.fti")
    assert "pkg.fit" in caught.value.hint


@pytest.mark.slow
def test_uv_run_means_the_environment_of_the_project(preview, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "p"\ndependencies = ["numpy<3", "tqdm"]\n')
    with pytest.raises(UsageError, match="there is no environment"):
        preview("-- uv run src/train.py")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert f'exec "{python}" ' in preview("-- uv run torchrun src/train.py")
    assert 'exec "/other" ' in preview("--python /other -- uv run src/train.py")
    with pytest.raises(UsageError, match="uv run and --with are both given"):
        preview("--with rich -- uv run src/train.py")
    monkeypatch.setenv("BATCHAI_BACKEND", "arm")
    monkeypatch.setenv("BATCHAI_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UsageError, match="not on the nodes of arm") as caught:
        preview("-- uv run src/train.py")
    assert "--with PACKAGE" in caught.value.hint


@pytest.mark.slow
def test_variable_of_the_job_takes_precedence_over_the_launchers(preview, monkeypatch):
    text = preview("--env A=2 -- env A=1 B=3 python src/train.py")
    assert '"name": "A",\n        "value": "2"' in text
    assert '"value": "3"' in text
    monkeypatch.setenv("DATA", "/data")
    assert '"value": "/data"' in preview("-- mpirun -np 2 -x DATA python src/train.py")


def test_a_job_file_runs_as_it_is(preview, tmp_path):
    body = {"nodeCount": 1, "customToolkitSettings": {"commandLine": "true"}}
    fields = {"properties": {**body, "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/batchaishare"}}
    (tmp_path / "resnet.json").write_text(json.dumps(fields))
    assert preview("--spec resnet.json").startswith("job resnet in experiment default")


def test_every_option_of_a_cells_job_is_one_of_run():
    names = {option.flags[0] for option in cell_options()}
    left_out = names - {option.flags[0] for option in run_options()}
    assert left_out == {"--use", "--template", "--var", "--wait", "--file", "--args", *SWEEP_FLAGS}


def test_help_names_the_launchers():
    text = str(run_command.prepare(["--help"]))
    assert "batchai run SCRIPT [options]" in text
    assert "--nodes N" in text


@pytest.fixture
def workspace(tmp_path):
    """A workspace with one member and an environment."""
    tables = '[project]\nname = "top"\nversion = "0"\n[tool.uv.workspace]\nmembers = ["part"]\n'
    (tmp_path / "pyproject.toml").write_text(tables)
    (tmp_path / "part" / "deep").mkdir(parents=True)
    (tmp_path / "part" / "pyproject.toml").write_text('[project]\nname = "part"\nversion = "0"\n')
    return tmp_path


def in_uv(folder, *words, **env):
    own = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    words = [sys.executable, "-m", "uv", *words]
    done = subprocess.run(
        words, cwd=folder, env={**own, **env}, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return done.stdout.strip()


@needs_uv
@pytest.mark.slow
@pytest.mark.parametrize("env", [{}, {"UV_PROJECT_ENVIRONMENT": "other"}])
def test_a_member_of_a_workspace_uses_the_environment_that_uv_run_uses(workspace, env):
    in_uv(
        workspace, "venv", "--quiet", "--python", sys.executable, env.get("UV_PROJECT_ENVIRONMENT", ".venv")
    )
    for folder in (workspace, workspace / "part", workspace / "part" / "deep"):
        used = in_uv(
            folder, "run", "--no-sync", "--offline", "python", "-c", "import sys; print(sys.prefix)", **env
        )
        assert project_python(folder, env) == f"{used}/bin/python"


def test_without_a_project_the_active_environment_counts(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert project_python(tmp_path, {"VIRTUAL_ENV": str(tmp_path)}) == str(tmp_path / "bin" / "python")
    with pytest.raises(UsageError, match="no environment"):
        project_python(tmp_path, {})
