"""What is recorded of a submission: everything that the submitter knows, and no secret."""

import hashlib
import json
import subprocess
import threading
from dataclasses import replace

import psutil
import pytest

from batchai_magics import cell
from batchai_magics.config import Settings
from batchai_magics.jobs.submission_recorder import (
    MAX_DIFF,
    MAX_HASHED,
    GitCheckout,
    checkout_for,
    record_files,
    records_of_another,
    with_status,
)
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.models.runs.labels import Labels
from batchai_magics.records.record_checks import check_submitted
from batchai_magics.records.record_files import LABELS, SUBMISSION
from batchai_magics.records.submission import GitState, Submission
from tests.world import until

SCRIPT = "print({lr}, data)\n"
SETTINGS = Settings()
JOB = workspace_id(SETTINGS).child(Kind.EXPERIMENT, "e").child(Kind.JOB, "train")


def request(folder, line, script=SCRIPT, **names):
    notebook = cell.Notebook(names=names, folder=folder, env={"MY_TOKEN": "hush-hush"})
    return cell.parse(line, script, settings=SETTINGS, notebook=notebook)


def recorded(asked, settings=SETTINGS):
    files = record_files(asked, checkout_for(asked, settings))
    check_submitted(files)
    return Submission.from_text(files[SUBMISSION]), Labels.from_json(json.loads(files[LABELS]))


def git(folder, *words):
    identity = ("-c", "user.name=me", "-c", "user.email=me@host", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path, unhurried_git):
    git(tmp_path, "init")
    (tmp_path / "a.py").write_text("one = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "remote", "add", "origin", "https://me:pw@host/x.git")
    return tmp_path


def test_code_arguments_variables_and_environment_are_recorded(tmp_path):
    line = 'train --args "--epochs 3" --use data,lr --template --env A=1 --secret MY_TOKEN --tag wide,new'
    record, labels = recorded(request(tmp_path, line, lr=0.5, data=list(range(100))))
    assert (record.code.kind, record.code.name, record.code.text) == (
        "cell",
        "train.py",
        "print(0.5, data)\n",
    )
    assert (record.line, record.arguments) == (line, "--epochs 3")
    assert record.variables["lr"].value == "0.5"
    data = record.variables["data"]
    assert (data.type, data.value, data.shape, data.digest[:7]) == ("list", "", (100,), "sha256:")
    assert (record.environment, record.secrets, record.git) == ({"A": "1"}, ("MY_TOKEN",), None)
    assert labels == Labels(("wide", "new"), parameters={"epochs": 3, "lr": 0.5})


def test_remedies_for_files_that_the_script_may_lack_are_recorded(tmp_path):
    (tmp_path / "x.csv").touch()
    record, _ = recorded(request(tmp_path, "train", "open('x.csv')"))
    assert record.remedies["file x.csv"].endswith("add --upload x.csv")
    record, _ = recorded(request(tmp_path, "train --upload x.csv", "open('x.csv')"))
    assert "file x.csv" not in record.remedies


def test_uploads_are_recorded_by_digest_and_large_ones_by_size(tmp_path):
    asked = request(tmp_path, "train", "print()")
    asked = replace(asked, uploads={**asked.uploads, "a.txt": b"1", "b.bin": bytes(MAX_HASHED + 1)})
    digest = hashlib.sha256(b"1").hexdigest()
    assert recorded(asked)[0].uploads == {"a.txt": f"sha256:{digest}", "b.bin": "1048577 bytes"}


@pytest.mark.slow
def test_each_trial_of_a_sweep_has_the_state_of_git(checkout):
    trials = [request(checkout, f"train --env A={number}") for number in (1, 2)]
    with checkout_for(trials[0], SETTINGS) as checkout_of_all:
        records = [Submission.from_text(record_files(trial, checkout_of_all)[SUBMISSION]) for trial in trials]
    assert records[0].git == records[1].git
    assert records[0].git.branch == "main"


def test_no_secret_is_recorded(tmp_path):
    args = "--args '--api-key k1k2 --x hush-hush'"
    line = f"train --secret MY_TOKEN --env A=hush-hush --env DB_PASSWORD=pw1 {args}"
    script = "login('hush-hush'); api_key = 'k3k4'\n"
    asked = request(tmp_path, line, script)
    files = record_files(asked, checkout_for(asked, SETTINGS))
    for secret in ("hush-hush", "pw1", "k1k2", "k3k4"):
        assert secret not in "".join(files.values())


def test_a_description_is_recorded_with_its_arguments(tmp_path):
    settings = {"commandLine": "python train.py --lr 0.1"}
    body = {"nodeCount": 1, "stdOutErrPathPrefix": "/tmp", "customToolkitSettings": settings}
    record, labels = recorded(request(tmp_path, "train --spec", json.dumps({"properties": body})))
    assert (record.code.kind, json.loads(record.code.text)["properties"]["nodeCount"]) == ("description", 1)
    assert (record.arguments, labels.parameters) == (settings["commandLine"], {"lr": 0.1})


def test_git_state_on_a_detached_head_has_no_secret_files():
    text = "# branch.oid abc\0# branch.head (detached)\0? new file\0"
    assert with_status(GitState(), text, "") == GitState("abc", untracked=("new file",))
    diff = "diff --git a/a/.env b/a/.env\n+A=hush\ndiff --git a/b.py b/b.py\n+b\n"
    assert with_status(GitState(), "", diff).diff == "diff --git a/b.py b/b.py\n+b\n"


@pytest.mark.parametrize(("option", "setting"), [("--no-provenance", "full"), ("", "none")])
def test_without_provenance_only_tags_are_recorded(tmp_path, option, setting):
    asked = request(tmp_path, f"train --tag a {option}", lr=1)
    files = record_files(asked, checkout_for(asked, replace(SETTINGS, provenance=setting)))
    assert (set(files), json.loads(files[LABELS])) == ({LABELS}, {"tags": ["a"]})


@pytest.mark.slow
def test_the_git_state_is_recorded_without_secrets(checkout):
    (checkout / "a.py").write_text("one = 'hush-hush'\n")
    (checkout / "b.py").touch()
    record, _ = recorded(request(checkout, "train --secret MY_TOKEN", lr=1))
    state = record.git
    assert (len(state.commit), state.branch, state.remote) == (40, "main", "https://host/x.git")
    assert "-one = 1\n+one = '***'\n" in state.diff
    assert (state.untracked, state.problem) == (("b.py",), "")


@pytest.mark.slow
def test_a_linked_working_tree_and_a_repository_without_commits_have_a_state(checkout, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    git(checkout, "worktree", "add", "-b", "side", str(other / "tree"))
    state = GitCheckout(other / "tree").state
    assert (state.branch, state.remote) == ("side", "https://host/x.git")
    git(other, "init", "empty")
    (other / "empty" / "a.py").touch()
    git(other / "empty", "add", ".")
    state = GitCheckout(other / "empty").state
    assert (state.commit, state.branch, state.problem) == ("", "main", "")


@pytest.mark.slow
def test_a_huge_diff_is_cut(checkout):
    (checkout / "a.py").write_text("x\n" * MAX_DIFF * 4)
    state = GitCheckout(checkout).state
    assert (len(state.diff), state.is_diff_cut) == (MAX_DIFF, True)


@pytest.mark.slow
def test_hanging_git_does_not_delay_a_submission(checkout):
    assert "in time" in GitCheckout(checkout, timeout_s=0.0).state.problem


@pytest.mark.slow
def test_git_state_is_taken_at_the_start(checkout):
    (checkout / "a.py").write_text("two = 2\n")
    early = GitCheckout(checkout)
    until(lambda: "batchai-git" not in {thread.name for thread in threading.enumerate()})
    (checkout / "a.py").write_text("three = 3\n")
    assert "+two = 2\n" in early.state.diff


HANGS = """#!/bin/sh
case "$*" in *config*) exit 1 ;; esac
echo $$ > {folder}/new && mv {folder}/new {folder}/pid
exec sleep 1000
"""


@pytest.mark.slow
def test_git_is_killed_if_its_state_is_not_needed(checkout, monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bin")
    (folder / "git").write_text(HANGS.format(folder=folder))
    (folder / "git").chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    with GitCheckout(checkout):
        until((folder / "pid").exists)
    pid = int((folder / "pid").read_text())
    until(lambda: not psutil.pid_exists(pid))


class Recording:
    """A backend whose run `train` has a record."""

    def __init__(self, files):
        self.records, self._files = self, files

    def read(self, job, names):
        return {name: self._files[name].encode() for name in names if name in self._files}


def test_resubmitted_run_has_the_original_record_without_tags(tmp_path):
    asked = request(tmp_path, "train --args '--lr 0.5' --tag best", lr=1)
    files = record_files(asked, checkout_for(asked, SETTINGS))
    again = records_of_another(Recording(files), JOB)
    record = Submission.from_text(again[SUBMISSION])
    assert (record.resubmitted, record.arguments) == ("train", "--lr 0.5")
    assert json.loads(again[LABELS]) == {"parameters": {"lr": 0.5}}
    twice = records_of_another(Recording(again), JOB.parent.child(JOB.kind, "train-2"))
    assert Submission.from_text(twice[SUBMISSION]).resubmitted == "train"
    assert records_of_another(Recording({}), JOB) == {}
