"""The supervisor by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_supervisor_starts_without_the_models_which_take_long() -> None:
    module = "batchai_magics.backends.local.watch.supervisor"
    code = f"import sys, {module}; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
