"""git reads a repository, and runs none of its programs."""

import os
import subprocess

import pytest

from batchai_magics.commands.handlers import run_command
from batchai_magics.jobs.git_process import GitProcess
from batchai_magics.jobs.submission_recorder import GitCheckout
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow  # they start git


def git(folder, *words):
    identity = ("-c", "user.name=me", "-c", "user.email=me@host", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def trap(tmp_path):
    """A program that leaves a file."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    program.chmod(0o700)
    return program


@pytest.fixture
def repository(tmp_path, trap, unhurried_git):
    """A repository, with a submodule, whose configuration names the program wherever it can."""
    other, folder = tmp_path / "other", tmp_path / "project"
    for each in (other, folder):
        each.mkdir()
        git(each, "init", "-q")
        (each / "train.py").write_text("one = 1\n")
        git(each, "add", ".")
        git(each, "commit", "-qm", "first")
    git(folder, "submodule", "add", "-q", str(other), "sub")
    git(folder, "commit", "-qm", "second")
    for each in (folder, folder / "sub"):
        set_trap(each, trap)
    return folder


def set_trap(folder, trap):
    for name in (
        *("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand", "core.askPass"),
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.command"),
        *("diff.evil.textconv", "alias.status", "alias.ls-files"),
    ):
        git(folder, "config", name, str(trap))
    git(folder, "config", "filter.evil.required", "true")
    own = folder / ".git"
    hooks = (own if own.is_dir() else folder / own.read_text().removeprefix("gitdir: ").strip()) / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / hook).write_text(trap.read_text())
        (hooks / hook).chmod(0o700)
    (folder / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    (folder / "train.py").write_text("two = 2\n")


def test_a_dry_run_runs_no_program_of_the_repository(repository, monkeypatch, tmp_path):
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(repository)
    text = str(run_command.prepare(["--dry-run", "train.py"]))
    assert "/sub/train.py" in text
    assert not (tmp_path / "sprung").exists()


def test_the_git_state_is_recorded_without_a_program_of_the_repository(repository, tmp_path):
    state = GitCheckout(repository).state
    assert (state.problem, "-one = 1\n+two = 2\n" in state.diff) == ("", True)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "before", ["", f'[filter "long"]\n clean = {"x" * (1 << 21)}\n'], ids=["named", "far below"]
)
def test_a_filter_that_cannot_be_switched_off_is_a_problem(repository, trap, tmp_path, before):
    name = "last" if before else "a=b"
    with (repository / ".git/config").open("a") as config:
        config.write(f'{before}[filter "{name}"]\n clean = {trap}\n')
    (repository / ".gitattributes").write_text(f"*.py filter={name}\n")
    assert "cannot be switched off" in GitCheckout(repository).state.problem
    assert not (tmp_path / "sprung").exists()


def test_a_checkout_without_git_says_that_git_cannot_be_started(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", "")
    assert GitCheckout(tmp_path).state.problem == "git cannot be started here"


def test_a_git_in_the_folder_itself_does_not_run(tmp_path, trap, monkeypatch):
    (tmp_path / "git").symlink_to(trap)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join((".", "")))
    assert GitProcess(tmp_path, ("ls-files",)).output(PATIENCE_S).problem
    assert not (tmp_path / "sprung").exists()


def test_another_repository_that_the_environment_names_is_not_read(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
        (tmp_path / name / name).touch()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "one/.git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "one"))
    output = GitProcess(tmp_path / "two", ("ls-files", "--others")).output(PATIENCE_S)
    assert (output.data, output.problem) == (b"two\n", "")
