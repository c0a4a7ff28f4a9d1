"""Benchmarks run rarely; what they import has to be there after every change of the package."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORT_ALL = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


@pytest.mark.slow
def test_every_benchmark_can_be_imported_without_the_extra_of_benchmarks():
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    assert "benchmarks.run" in names
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *names], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
