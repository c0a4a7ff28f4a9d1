"""Secrets that a job prints or its script, changes and options have: nothing that we show has them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics import cli
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.cards.job_card import to_html, to_text
from batchai_magics.follow import LogBytes
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.job_overview import job_overview
from batchai_magics.widgets.job.job_output import card_bundle, chart_bundle
from batchai_magics.widgets.job.page_requests import RequestHandler
from tests.world import World, files_containing

pytestmark = pytest.mark.slow
SECRET = "hunter2-in-the-open"
SCRIPT = """
import os, sys
print("before", flush=True)
print("model: " + os.environ["TOKEN"], flush=True)
print("10\\timages/sec: 100.0 +/- 0.0 (jitter = 0.0)\\t2.5", flush=True)
sys.exit("it failed with " + os.environ["TOKEN"])
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world for all tests: they only read."""
    made = World(tmp_path_factory.mktemp("leaky") / "home")
    yield made
    made.close()


@pytest.fixture(scope="module")
def job(world: World) -> Job:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKEN", SECRET)
        return world.run("leaky --nodes 2 --processes 2 --secret TOKEN", SCRIPT)


def test_the_handle_and_the_cards_hide_the_secret(job: Job) -> None:
    stars = "*" * len(SECRET)
    assert f"model: {stars}\n" in job.log()
    assert f"it failed with {stars}" in job.log(tail=1, file="stderr.txt")
    card = job_overview(job)
    for text in (job.log(tail=9), to_html(card), to_text(card), repr(job.records()), repr(job.summary())):
        assert SECRET not in text
    assert f"it failed with {stars}" in to_text(card)


def test_the_live_view_and_its_saved_copy_hide_the_secret(job: Job) -> None:
    feed = JobModel()
    for event in job.events():
        feed.take(event)
        assert not isinstance(event, LogBytes) or SECRET.encode() not in event.chunk.data
    saved = repr(card_bundle(feed, "again")) + repr(chart_bundle(feed))
    assert "it failed with ***" in saved
    assert SECRET not in saved


def test_replies_of_the_kernel_to_a_page_hide_the_secret(job: Job) -> None:
    answers = RequestHandler(job, JobModel())
    file = {"id": "1", "file": "stderr.txt"}
    questions = [
        {"kind": "read", "offset": 0, "limit": 1000, **file},
        {"kind": "lines", "rank": 0, "offset": 0, "backward": False, **file},
        {"kind": "failure", **file},
    ]
    for question in questions:
        told = answers.handle(question)
        said = json.dumps(told.content).encode() + b"".join(bytes(part) for part in told.buffers)
        assert b"it failed with ***" in said
        assert SECRET.encode() not in said
    search = {"kind": "search", "regex": False, **file}
    assert answers.handle({**search, "query": SECRET}).content["total"] == 0
    assert answers.handle({**search, "query": "it failed"}).content["total"] == 2


def test_streams_in_the_shell_and_another_process_hide_the_secret(
    job: Job, world: World, monkeypatch
) -> None:
    monkeypatch.setenv("BATCHAI_HOME", str(world.home))
    output = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(output):
        assert cli.main(["job", "file", "stream", "-j", "leaky", "-f", "stdout.txt"]) == 0
    text = output.buffer.getvalue()
    assert b"model: *****" in text
    assert SECRET.encode() not in text
    other = LocalBackend(world.backend.settings)
    assert SECRET not in Job(other, job.id).log()
    other.close()


def test_the_file_and_a_download_stay_as_the_job_wrote_them(job: Job, tmp_path: Path) -> None:
    assert f"model: {SECRET}\n" in job.download("stdout.txt", tmp_path).read_text()


def test_only_the_logs_contain_the_secret(job: Job, world: World) -> None:
    names = {Path(path).name for path in files_containing(world.home, SECRET)}
    assert names == {"stdout.txt", "stderr.txt"}


def test_every_view_of_a_log_reads_it_with_secrets_hidden() -> None:
    """`jobs.logs.shown` is the one place; the others read raw bytes to copy a file or to read numbers."""
    package = Path(cli.__file__).parent
    raw = {
        str(file.relative_to(package))
        for folder in ("cards", "commands", "jobs", "magics", "widgets")
        for file in (package / folder).rglob("*.py")
        if re.search(r"backend\.(read|tail)\(|(?<!shown_)chunks\(self", file.read_text(encoding="utf-8"))
    }
    copies = {"jobs/job_files.py"}
    assert raw == {"jobs/job_logs.py", *copies}


SECRETS = {
    "script": "script-Xq7",
    "changes": "changes-Xq7",
    "argument": "argument-Xq7",
    "variable": "variable-Xq7",
    "parameter": "parameter-Xq7",
    "url": "ur@l/Xq7",
}
TRAINING = f"""
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
    (repository / "train.py").write_text(TRAINING)
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
