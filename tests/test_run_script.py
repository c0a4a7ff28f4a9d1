"""`batchai run` as a process: output, exit code, interrupts."""

import json
import signal
import subprocess

import pytest

from tests.patience import PATIENCE_S
from tests.pseudo_terminal import COMMAND, plain, read_until, rest_of, start_on_terminal
from tests.world import processes_of, until

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder with a script and a module; when done, its jobs are gone."""
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "model.py").write_text("size = 7\n")
    (folder / "conf.txt").write_text("lr 0.1")
    yield folder
    until(lambda: not processes_of(tmp_path / "home"))


def started(folder, *words):
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, "run", *words], cwd=folder, stdout=pipe, stderr=pipe, text=True)


def test_a_script_runs_with_its_folder_and_its_exit_code_is_the_commands(folder):
    (folder / "train.py").write_text(
        "import os, sys, time, model\n"
        "from pathlib import Path\n"
        "rank, count = os.environ['RANK'], os.environ['WORLD_SIZE']\n"
        "print(rank, 'of', count, model.size, open('conf.txt').read(), sys.argv[1:], flush=True)\n"
        "done = Path(os.environ['AZ_BATCHAI_SHARED_JOB_TEMP'])\n"
        "(done / f'done-{rank}').touch()\n"  # who fails first ends the other
        "while len(list(done.glob('done-*'))) < 2: time.sleep(0.01)\n"
        "sys.exit(3)\n"
    )
    run = started(folder, "--nodes=2", "--", "torchrun", "--nproc_per_node=1", "train.py", "--lr", "1")
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 3, err
    assert sorted(out.splitlines()) == [f"{rank} of 2 7 lr 0.1 ['--lr', '1']" for rank in range(2)]
    assert "Job train was submitted." in err


def test_a_script_that_ran_before_is_not_said_to_be_submitted_again(folder):
    (folder / "train.py").write_text("print('done')\n")
    first, again = (started(folder, "train.py").communicate(timeout=PATIENCE_S) for _ in range(2))
    assert (first[0], again[0]) == ("done\n", "done\n")
    assert "Job train was submitted." in first[1]
    assert "nothing ran, showing that run" in again[1]
    assert "was submitted." not in again[1]


def test_a_script_of_a_project_runs_as_python_runs_it_from_there(folder):
    (folder / "my scripts").mkdir()
    (folder / "my scripts/helper.py").write_text("word = 'sibling'\n")
    (folder / ".env").write_text("A=hush")
    (folder / "my scripts/it's.py").write_text(
        "import os, helper\n"
        "there = [os.path.exists(name) for name in ('.env', 'my scripts/helper.py')]\n"
        "print(helper.word, open('conf.txt').read(), *there)\n"
    )
    for options in ((), ("--toolkit=custom",)):
        out, err = started(folder, "my scripts/it's.py", "--new", *options).communicate(timeout=PATIENCE_S)
        assert out == "sibling lr 0.1 False True\n"
        named, submitted = err.index("not sent (a secret by its name): .env"), err.index("was submitted")
        assert named < submitted


def test_the_ended_job_is_printed_as_json_beside_its_log_and_what_was_not_read_of_it(folder):
    (folder / "train.py").write_text(
        "for i in range(5):\n    print(f'the wobble was {i}.5 today')\nraise SystemExit(3)\n"
    )
    run = started(folder, "train.py", "-o", "json")
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 3
    job = json.loads(out)
    assert (job["name"], job["state"], job["exit_code"]) == ("train", "failed", 3)
    assert "the wobble was 4.5 today\n" in err
    (warning,) = (line for line in err.splitlines() if line.startswith("Warning:"))
    assert "--metric 'wobble=" in warning


def test_a_detached_run_prints_its_name(folder):
    (folder / "train.py").write_text("pass\n")
    run = started(folder, "--detach", "train.py")
    assert run.communicate(timeout=PATIENCE_S)[0] == "train\n"
    waited = subprocess.run([*COMMAND, "job", "wait", "-n", "train"], check=False, capture_output=True)
    assert waited.returncode == 0


def test_an_interrupt_leaves_the_job_running_and_a_second_one_cancels_it(folder):
    (folder / "train.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(1000)\n")
    run = interrupted(folder)
    run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    shown = subprocess.run(
        [*COMMAND, "job", "show", "-n", "train", "-o", "json"], capture_output=True, check=True
    )
    assert json.loads(shown.stdout)["executionState"] == "running"
    again = interrupted(folder)
    again.send_signal(signal.SIGINT)
    assert "Cancelled train." in again.communicate(timeout=PATIENCE_S)[1]
    assert again.returncode == 143


def interrupted(folder):
    """A run that was interrupted once, just now."""
    run = started(folder, "train.py")
    assert run.stdout.readline() == "up\n"
    run.send_signal(signal.SIGINT)
    assert any(line.startswith("Interrupt again") for line in run.stderr)
    return run


def test_a_terminal_shows_log_nodes_progress_and_metrics(folder):
    (folder / "train.py").write_text(
        "import os, time\n"
        "from pathlib import Path\n"
        "print('step 5 loss 0.25', flush=True)\n"
        "print('Epoch 5/10', flush=True)\n"
        "while not Path(os.environ['GO']).exists(): time.sleep(0.05)\n"
        "print('bye')\n"
        "raise SystemExit(4)\n"
    )
    go = folder.parent / "go"
    process, ours = start_on_terminal("run", "--nodes=2", f"--env=GO={go}", "train.py", cwd=folder)
    shown = ("loss 0.25\x1b[0m", "epoch 5/10", "2 of 2 running")  # the metric is in bold
    text = read_until(ours, *shown)
    assert "running" in text
    go.touch()
    text += rest_of(ours).decode()
    assert process.wait(PATIENCE_S) == 4
    lines = plain(text).splitlines()
    assert any(line.startswith(" 0 │ step 5 loss 0.25") for line in lines)
    assert any("40 %, epoch 5/10" in line or "50 %, epoch 5/10" in line for line in lines)
    assert any("2 nodes · 2 of 2 running" in line for line in lines)
    assert lines[-1] == "Log: batchai logs train"
    assert any(line.startswith("train  failed") for line in lines)


def test_a_second_interrupt_on_a_terminal_cancels_the_job(folder):
    (folder / "train.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(1000)\n")
    process, ours = start_on_terminal("run", "train.py", cwd=folder)
    read_until(ours, "up")
    process.send_signal(signal.SIGINT)
    read_until(ours, "Interrupt again")
    process.send_signal(signal.SIGINT)
    assert "Cancelled train." in rest_of(ours).decode()
    assert process.wait(PATIENCE_S) == 143


def test_watch_prints_new_states_in_a_pipe_and_a_table_on_a_terminal(folder):
    (folder / "train.py").write_text("pass\n")
    assert started(folder, "train.py").communicate(timeout=PATIENCE_S)
    watching = subprocess.Popen([*COMMAND, "watch"], stdout=subprocess.PIPE, text=True)
    assert watching.stdout.readline() == "train  succeeded\n"
    assert started(folder, "--new", "--detach", "train.py").communicate(timeout=PATIENCE_S)
    assert watching.stdout.readline().startswith("train-2  ")
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 130
    process, ours = start_on_terminal("watch")
    assert "Name" in plain(read_until(ours, "succeeded"))
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    rest_of(ours)
