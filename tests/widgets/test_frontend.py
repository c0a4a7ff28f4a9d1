"""The front end's own tests. Its types are checked by `make lint`."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def test_front_end_unit_tests_pass():
    if not shutil.which("npm"):
        pytest.skip("no npm on this machine")
    done = subprocess.run(["npm", "run", "test"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
