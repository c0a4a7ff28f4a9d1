import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from batchai_magics import __version__
from batchai_magics.cli import main
from tests.commands.job_json import write_job
from tests.patience import PATIENCE_S
from tests.pseudo_terminal import COLUMNS, COMMAND, plain, read_until, rest_of, start_on_terminal
from tests.world import processes_of, until


@pytest.fixture
def home(monkeypatch, tmp_path):
    """The folder of a backend with a cluster of one node; when done, its jobs are gone."""
    home = tmp_path / "home"
    monkeypatch.setenv("BATCHAI_HOME", str(home))
    assert main(["cluster", "create", "-n", "default", "-s", "Standard_D2", "-t", "1"]) == 0
    yield home
    main(["job", "terminate", "-n", "long", "-y"])  # where there is one
    until(lambda: not processes_of(home))


def ended(folder, name, command):
    """Has a job run to its end, in this process."""
    assert main(["job", "create", "-n", name, "-f", str(write_job(folder, command))]) == 0
    return main(["job", "wait", "-n", name])


def shell(*words, **settings):
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S, **settings
    )


@pytest.mark.slow
def test_a_warning_is_one_plain_line(home, tmp_path):
    shell("job", "create", "-n", "j", "-f", write_job(tmp_path, "true"))
    shell("job", "wait", "-n", "j")
    until(lambda: not processes_of(home))  # the last to close the database deletes files beside it
    for file in home.glob("state.db*"):
        file.unlink()
    text = "was lost and was rebuilt with 1 jobs from their folders"
    assert shell("job", "list").stderr == f"WARNING: {home / 'state.db'} {text}\n"


def test_the_help_begins_with_how_to_run_a_script(capsys):
    assert main(["--help"]) == 0
    _, _, _, start, first, *rest = capsys.readouterr().out.splitlines()
    assert start == "Start with: batchai run train.py"
    assert first.split()[0] == "run"
    assert any(line.split()[:1] == ["completion"] for line in rest)


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_a_wrong_line_goes_to_stderr_with_exit_code_2(capsys):
    assert main(["job", "lsit"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert 'Did you mean "list"?' in told.err
    assert "Traceback" not in told.err


def test_debug_shows_the_traceback(capsys):
    assert main(["job", "list", "--debug", "-w", "nowhere"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_text_is_the_default(capsys):
    assert main(["workspace", "list"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["account", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:2] == ["CloudName", "IsDefault"]


def test_az_and_queries_keep_their_json(capsys):
    assert main(["az", "account", "show"]) == 0
    assert json.loads(capsys.readouterr().out)["isDefault"] is True
    assert main(["account", "show", "--query", "isDefault"]) == 0
    assert json.loads(capsys.readouterr().out) is True


def on_a_terminal(*words, **variables):
    """What a command writes to a terminal."""
    process, ours = start_on_terminal(*words, **variables)
    text = rest_of(ours).decode()
    assert process.wait(PATIENCE_S) == 0, text
    return text.replace("\r\n", "\n")


@pytest.mark.slow
def test_a_terminal_shows_a_fitting_table_with_colours_and_a_pipe_all_of_it_without(
    home, tmp_path, monkeypatch
):
    monkeypatch.delenv("NO_COLOR", raising=False)
    name, note = "a-name-that-is-shown-whole", "a remark that is long enough to be cut h"
    ended(tmp_path, name, "echo step 1 loss 0.5; exit 3")
    main(["job", "update", "-n", name, "--note", note])
    text = on_a_terminal("job", "list")
    assert "\x1b[1;31mfailed" in text
    assert name in text
    assert "…" in text
    assert max(map(len, plain(text).splitlines())) <= COLUMNS
    assert "\x1b" not in on_a_terminal("job", "list", NO_COLOR="1")
    piped = shell("job", "list").stdout
    assert note in piped
    assert "\x1b" not in piped
    assert "Resource" not in piped.splitlines()[0]
    wide = plain(on_a_terminal("job", "list", columns=300))
    assert [line.split() for line in wide.splitlines()] == [line.split() for line in piped.splitlines()]


@pytest.mark.slow
def test_a_failed_job_gives_its_exit_code_to_wait_and_is_shown_in_short(home, tmp_path):
    file = write_job(tmp_path, "echo step 1 loss 0.5; echo no such luck >&2; exit 3")
    assert shell("job", "create", "-n", "bad", "-f", file).returncode == 0
    waited = shell("job", "wait", "-n", "bad")
    assert (waited.returncode, waited.stdout) == (3, "")
    assert ": rank 0: exit code 3: no such luck\n" in waited.stderr
    lines = shell("show", "bad").stdout.splitlines()
    assert lines[0].startswith("bad  failed  default · 1 node")
    assert "loss       0.5" in lines
    assert any(line.startswith("bad failed after ") for line in lines)
    assert any(line.endswith(": rank 0: exit code 3: no such luck") for line in lines)
    assert "  no such luck" in lines
    assert lines[-1] == "Log: batchai logs bad"
    shown = json.loads(shell("show", "bad", "-o", "json").stdout)
    assert (shown["state"], shown["exit_code"], shown["metric"]["value"]) == ("failed", 3, 0.5)
    of_az = json.loads(shell("az", "batchai", "show", "bad", "-o", "json").stdout)
    assert of_az["executionInfo"]["exitCode"] == 3


def test_use_on_a_shell_fails_and_names_the_variables_to_export(capsys, monkeypatch):
    assert main(["use", "-w", "mine", "-c", "big"]) == 2
    assert "export BATCHAI_WORKSPACE=mine BATCHAI_CLUSTER=big`" in capsys.readouterr().err
    monkeypatch.setenv("BATCHAI_WORKSPACE", "mine")
    assert main(["use", "-w", "mine"]) == 0, "which changes nothing"
    monkeypatch.delenv("BATCHAI_WORKSPACE")
    assert main(["use"]) == 0
    assert "default" in capsys.readouterr().out


def test_a_delete_without_a_tty_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115, PTH123  closed by the interpreter
    assert main(["job", "delete", "-n", "x"]) == 1
    assert "Unable to prompt for confirmation as no tty available. Use --yes." in capsys.readouterr().err
    sys.stdin.close()


@pytest.mark.slow
def test_a_delete_on_a_tty_asks(home):
    for answer, code in (("n", 1), ("y", 0)):
        ours, theirs = pty.openpty()
        words = [*COMMAND, "cluster", "delete", "-n", "default"]
        asking = subprocess.Popen(words, stdin=theirs, stderr=subprocess.PIPE, text=True)
        os.write(ours, f"{answer}\n".encode())
        told = asking.communicate(timeout=PATIENCE_S)[1]
        os.close(ours)
        os.close(theirs)
        assert asking.returncode == code
        assert told.startswith("Are you sure you want to perform this operation? (y/n): ")
        assert ("Operation cancelled." in told) is (code == 1)


@pytest.mark.slow
def test_a_log_is_raw_in_a_pipe_that_may_close_and_tame_on_a_terminal(home, tmp_path):
    line = r"\033[31mred\033[0m \033]52;c;aGk=\007 end\n"
    assert ended(tmp_path, "loud", f"printf '{line}'") == 0
    stream = ["job", "file", "stream", "-j", "loud", "-f", "stdout.txt"]
    assert shell(*stream).stdout == "\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07 end\n"
    ours, theirs = pty.openpty()
    assert subprocess.run([*COMMAND, *stream], stdout=theirs, stderr=subprocess.DEVNULL).returncode == 0
    os.close(theirs)
    assert rest_of(ours) == b"\x1b[31mred\x1b[0m  end\r\n"
    ended(tmp_path, "lengthy", "seq 1 200000")
    ends_quietly("job", "file", "stream", "-j", "lengthy", "-f", "stdout.txt")


def ends_quietly(*words):
    """A command whose reader closes the pipe after its first line."""
    watching = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watching.stdout.readline()
    watching.stdout.close()
    told = watching.stderr.read().decode()
    watching.stderr.close()
    assert watching.wait(PATIENCE_S) == 141
    assert "Traceback" not in told
    assert "BrokenPipe" not in told


@pytest.mark.slow
def test_an_interrupt_stops_what_watches_jobs_and_not_the_jobs(home, tmp_path):
    file = write_job(tmp_path, "echo begun; sleep 1000")
    assert json.loads(shell("job", "create", "-n", "long", "-f", file, "-o", "json").stdout)["name"] == "long"
    words = [*COMMAND, "job", "file", "stream", "-j", "long", "-f", "stdout.txt"]
    watching = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert watching.stdout.readline() == b"begun\n"
    watching.send_signal(signal.SIGINT)
    told = watching.communicate(timeout=PATIENCE_S)[1].decode()
    assert watching.returncode == 130
    assert "To resume: batchai job file stream -j long" in told
    assert "Traceback" not in told
    waiting, ours = start_on_terminal("experiment", "wait", "-n", "default")
    printed = read_until(ours, "Waiting")  # the bar of a wait that goes on
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(PATIENCE_S) == 130
    printed += rest_of(ours).decode()
    assert "The jobs keep running. To resume: batchai experiment wait -n default" in printed
    assert json.loads(shell("job", "show", "-n", "long", "-o", "json").stdout)["executionState"] == "running"


@pytest.mark.slow
def test_an_interrupt_ends_a_command_on_a_node(home):
    words = ["cluster", "node", "exec", "-c", "default", "--exec", "echo up; sleep 1000"]
    running = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout.readline() == b"up\n"
    running.send_signal(signal.SIGINT)
    told = running.communicate(timeout=PATIENCE_S)[1].decode()
    assert running.returncode == 130
    assert told == "\nStopped. The command was ended.\n"
    assert not processes_of(home)


def test_defaults_of_the_shell_are_kept(capsys):
    assert main(["configure", "--defaults", "group=mine", "workspace=lab"]) == 0
    capsys.readouterr()
    assert main(["workspace", "create", "-n", "other", "-o", "tsv", "--query", "resourceGroup"]) == 0
    assert capsys.readouterr().out == "mine\n"
    assert main(["configure", "-l", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["workspace"] == "lab"


def test_a_refused_description_has_exit_code_1(capsys, tmp_path):
    (tmp_path / "job.json").write_text('{"properties": {}}')
    assert main(["job", "create", "-n", "x", "-f", str(tmp_path / "job.json")]) == 1
    assert "no toolkit is given" in capsys.readouterr().err
    assert main(["job", "create", "-n", "x"]) == 2


def test_notes_go_to_stderr_and_results_to_stdout(capsys):
    assert main(["login", "-o", "json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)[0]["state"] == "Enabled"
    assert "There is nothing to do" in told.err


LOG = b"""Step\tImg/sec\ttotal_loss
1\timages/sec: 10.1 +/- 0.0 (jitter = 0.0)\t7.972
10\timages/sec: 11.1 +/- 0.1 (jitter = 0.2)\t7.856
----------------------------------------------------------------
total images/sec: 11.14
----------------------------------------------------------------
"""


def test_metrics_are_read_from_a_file(capsys, tmp_path):
    (tmp_path / "stdout.txt").write_bytes(LOG)
    assert main(["metrics", "read", str(tmp_path / "stdout.txt"), "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["records", "total_images_per_sec", "summary"]
    assert data["total_images_per_sec"] == 11.14
    names = ["step", "rank", "epoch", "images_per_sec", "uncertainty", "jitter", "loss"]
    assert [list(record) for record in data["records"]] == [names, names]
    assert data["records"][1]["loss"] == 7.856


def test_several_logs_are_told_apart(capsys, tmp_path):
    names = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    for name in names:
        (tmp_path / name).write_bytes(LOG)
    main(["metrics", "read", *names, "-o", "json"])
    assert [log["file"] for log in json.loads(capsys.readouterr().out)] == names


def test_what_has_no_columns_is_printed_by_its_fields(capsys):
    assert main(["storage", "share", "create", "-n", "data"]) == 0
    assert capsys.readouterr() == ("created: true\n", "")
