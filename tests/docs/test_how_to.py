"""Every code block of the how-to guides runs as it stands, after those before it on its page.

A Python block that begins with the name of a file is that file. The pages share one home, each with an
experiment of its own, whose jobs must all succeed, but for those that the page cancels.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cell.shiny_wheel import wheel
from tests.patience import PATIENCE_S
from tests.server.clients import packages_of

ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs/how-to").glob("*.md")}
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = {
    name: [block for block in BLOCK.findall(text) if block[0][:1] != "{"] for name, text in PAGES.items()
}
BLOCKS = {name: blocks for name, blocks in sorted(SHOWN.items()) if blocks}
NEEDS = {"pytorch": "torch", "save-a-model": "torch", "keras": "keras"}
RUNNER = """
import contextlib, json, os, pathlib, re, subprocess, sys

from IPython.core.interactiveshell import InteractiveShell

from batchai_magics.backends.base.backend_registry import load_settings, open_backend
from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.resource_ids import Kind, workspace_id


def run(kind, body):
    file = re.match(r"# ([\\w-]+\\.py)\\n", body)
    if kind == "python" and file:
        pathlib.Path(file[1]).write_text(body)
    elif kind == "python":
        shell.run_cell(body).raise_error()
    elif kind == "sh":
        subprocess.run(["bash", "-euo", "pipefail", "-c", body], stdin=subprocess.DEVNULL, check=True)
    elif kind == "yaml":
        pathlib.Path(os.environ["BATCHAI_CONFIG"]).write_text(body)
    elif kind == "json":
        for server in json.loads(body)["mcpServers"].values():
            words, env = [server["command"], *server["args"]], {**os.environ, **server["env"]}
            subprocess.run(words, env=env, stdin=subprocess.DEVNULL, check=True)
    else:
        raise ValueError(f"nothing runs a block of {kind!r}")


shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "batchai_magics")
for kind, body in json.load(sys.stdin):
    print("-----", body, sep="\\n", flush=True)
    run(kind, body)
settings = load_settings()
backend = open_backend(settings)
experiment = workspace_id(settings).child(Kind.EXPERIMENT, settings.experiment)
names = []
with contextlib.suppress(NotFoundError):  # a page without jobs has no experiment
    names = backend.names(experiment, Kind.JOB)
for name in names:
    job = Job(backend, experiment.child(Kind.JOB, name)).wait()
    is_well = job.exit_code == 0 or job.is_cancelled
    assert is_well, (name, job.show().state, job.log(), job.log(file="stderr.txt"))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the home of all pages, a wheel of the package that they name, and a pip that checks."""
    folder = tmp_path_factory.mktemp("how-to")
    wheel(folder, "einops")
    (folder / ".config/uv").mkdir(parents=True)
    (folder / ".config/uv/uv.toml").write_text(f'no-index = true\nfind-links = ["{folder}"]\n')
    (folder / "bin").mkdir()
    extras = re.findall(
        r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    known = " ".join(f"batchai-magics[{extra}]" for extra in extras)
    pip = folder / "bin/pip"
    pip.write_text(f'#!/bin/sh\ncase " {known} " in *" $2 "*) ;; *) exit 1;; esac\n')
    pip.chmod(0o755)
    return folder


@pytest.mark.parametrize("page", BLOCKS)
def test_every_code_block_runs(page, place, tmp_path):
    path = [str(place / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {**os.environ, "HOME": str(place), "PATH": os.pathsep.join(path), "BATCHAI_EXPERIMENT": page}
    env |= {"BATCHAI_HOME": str(place / "home"), "BATCHAI_CONFIG": str(tmp_path / "config.yaml")}
    if page in NEEDS:
        env["PYTHONPATH"] = packages_of(NEEDS[page])
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(BLOCKS[page]),
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_guide_that_shows_code_is_run():
    assert {"pytorch", "requeue", "script", "sweep"} <= BLOCKS.keys()
