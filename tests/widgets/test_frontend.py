"""The front end's own tests, and its types."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def npm(script):
    if not shutil.which("npm"):
        pytest.skip("no npm on this machine")
    done = subprocess.run(["npm", "run", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_modules_that_draw_nothing_do_what_they_say():
    npm("test")


def test_the_modules_agree_on_their_types():
    if not (ROOT / "node_modules").exists():
        pytest.skip("npm ci has not been run")
    npm("check")
