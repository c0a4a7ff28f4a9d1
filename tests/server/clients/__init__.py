"""Genuine clients, each in a virtual environment of its own, and npm's: `make clients` makes them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

HERE = Path(__file__).parent
VENVS = Path(__file__).parents[3] / ".clients"


def python_of(client: str) -> str:
    """The interpreter that has a client; the test is skipped where nobody has made it."""
    python = VENVS / client / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no genuine client {client}: make clients")
    return str(python)


def packages_of(client: str) -> str:
    """The folder of a client's packages, for `PYTHONPATH`; the test is skipped where nobody has made it."""
    find = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python_of(client), "-c", find], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def drive(client: str, script: str, *arguments: str, told: object = None, **env: str) -> Any:
    """What a script that drives a client tells as JSON; `told` is what it reads."""
    words = [python_of(client), "-W", "ignore", str(HERE / script), *arguments]
    return _run(words, json.dumps(told), env)


def drive_js(script: str, *arguments: str) -> Any:
    """What a script that drives npm's clients tells as JSON; skipped where Node or they are missing."""
    folder = VENVS / "js"
    if not shutil.which("node"):
        pytest.skip("no Node on this machine: the clients for JavaScript need it")
    if not (folder / "node_modules").is_dir():
        pytest.skip("no genuine clients for JavaScript: make clients, which needs npm")
    return _run(["node", str(HERE / script), str(folder), *arguments], "", {})


def _run(words: list[str], stdin_text: str, env: dict[str, str]) -> Any:
    done = subprocess.run(
        words,
        input=stdin_text,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=_env() | env,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def _env() -> dict[str, str]:
    """The environment without what is ours, and without a proxy."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PYTHONUNBUFFERED": "1"}
