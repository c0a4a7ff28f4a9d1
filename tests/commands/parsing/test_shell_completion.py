"""TAB in real shells, and what it asks for."""

import os
import shutil
import sys
from pathlib import Path

import pexpect
import pytest

from batchai_magics import cli
from batchai_magics.commands.parsing.command_completion import completion, line_candidates
from batchai_magics.errors import UsageError
from tests.commands.job_json import write_job
from tests.patience import PATIENCE_S
from tests.world import until

NEXT_TAB_S = 3
SHELLS = {
    "bash": ("bash", ["--norc", "--noprofile", "-i"], 'eval "$(batchai completion bash)"'),
    "zsh": ("zsh", ["-f", "-i"], 'autoload -Uz compinit; compinit -u; eval "$(batchai completion zsh)"'),
    "fish": ("fish", ["--no-config", "-i"], "batchai completion fish | source"),
}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (["lo"], ["logs", "login", "logout"]),
        (["ru"], ["run"]),
        (["job", "wa"], ["wait"]),
        (["job", "list", "--to"], ["--top"]),
        (["job", "list", "-o", "ta"], ["table"]),
        (["completion", "z"], ["zsh"]),
        (["run", "--nod"], ["--nodes"]),
        (["run", "--toolkit", "=", "py"], ["pytorch"]),
        (["run", "tr"], ["train.py"]),
        (["run", "train.py", "--nod"], ["--nodes"]),
        (["run", "train.py", "--", "--nod"], []),
        (["run", "train.py", "--", "tr"], ["train.py"]),
    ],
)
def test_the_last_word_of_a_line_is_completed(line, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    assert line_candidates(line) == found


def test_an_unknown_shell_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="tcsh") as caught:
        completion(["tcsh"])
    assert "bash, zsh, fish" in caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_completes_a_command_and_the_name_of_a_job(name, tmp_path):
    program, arguments, setup = SHELLS[name]
    if not shutil.which(program):
        pytest.skip(f"this machine has no {program}")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "HOME": str(tmp_path), "TERM": "xterm"}
    file = write_job(tmp_path, "true")
    for line in ("cluster create -n default -s Standard_D2 -t 0", f"job create -n remarkable -f {file}"):
        assert cli.main([*line.split(), "-o", "none"]) == 0
    shell = pexpect.spawn(
        program, arguments, env=env, timeout=PATIENCE_S, encoding="utf-8", dimensions=(24, 200)
    )
    shell.sendline(f"{setup}; echo re''ady")
    shell.expect("ready")
    shell.send("batchai cance\t")
    shell.expect("cancel")
    shell.send("rem\t")
    until(lambda: is_completed(shell))
    shell.close(force=True)


def is_completed(shell):
    """Whether the name of the job is there; on a busy machine it comes too late for the first TAB."""
    if shell.expect(["remarkable", pexpect.TIMEOUT], timeout=NEXT_TAB_S):
        shell.send("\t")
        return False
    return True
