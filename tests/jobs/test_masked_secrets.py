"""A job whose script, changes, options and parameters have secrets: nothing that is kept shows them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from batchai_magics import cli

pytestmark = pytest.mark.slow
SECRETS = {
    "script": "script-Xq7",
    "changes": "changes-Xq7",
    "argument": "argument-Xq7",
    "variable": "variable-Xq7",
    "parameter": "parameter-Xq7",
    "url": "ur@l/Xq7",
}
SCRIPT = f"""
from batchai_magics import log
headers = {{"Authorization": "Bearer {SECRETS["script"]}"}}
data = "https://me:{SECRETS["url"]}@host/x"
log(params={{"private_token": "{SECRETS["parameter"]}", "data": data, "lr": 0.1}})
"""
DESCRIPTION = """
properties:
  cluster: {id: default}
  nodeCount: 1
  stdOutErrPathPrefix: $AZ_BATCHAI_MOUNT_ROOT/autoafs
  environmentVariables: [{name: DB_PASS, value: variable-Xq7}]
  customToolkitSettings: {commandLine: "true --api-key argument-Xq7"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with changes that have a secret."""
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DB_PASSWORD", SECRETS["variable"])
    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)
    (repository / "train.py").write_text(SCRIPT)
    (repository / "config.yaml").write_text("lr: 0.1\n")
    env = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": "/dev/null"}
    env |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", *words], env=env, check=True)
    (repository / "config.yaml").write_text(f"lr: 0.1\npassword: {SECRETS['changes']}\n")
    (repository / "job.yaml").write_text(DESCRIPTION)
    return tmp_path


def test_no_record_list_diff_dry_run_or_report_shows_a_secret(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--env", f"DB_PASS={SECRETS['variable']}", "train.py", "--", "--api-key", SECRETS["argument"]]
    described = ["--spec", "job.yaml"]
    for words in (["--dry-run", *options], options, ["--dry-run", *described], described):
        assert cli.main(["run", *words]) == 0
    for words in (["job", "list"], ["show", "train"], ["job", "diff", "train", "repository"]):
        assert cli.main(words) == 0
    assert cli.main(["bug-report", "train", "--to", str(folder / "report.html")]) == 0
    shown = {"output": "".join(capfd.readouterr()), "report": (folder / "report.html").read_text()}
    records = [file for file in (folder / "home").rglob("records/**/*") if file.is_file()]
    shown |= {str(file): file.read_text(errors="replace") for file in records}
    assert any(name.endswith("parameters.json") for name in shown)
    found = {
        (what, place) for place, text in shown.items() for what, value in SECRETS.items() if value in text
    }
    assert not found
