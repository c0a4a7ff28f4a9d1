"""Benchmarks run rarely; what they import and call has to be there after every change of the package."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.views.compare import CHROMIUM

ROOT = Path(__file__).parents[2]
IMPORT_ALL = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
SMALLEST_VIEWS = """
from benchmarks.views import all_jobs, compare, sweep

for rows in (all_jobs.rows(2, 1), compare.rows(2, 10, 1), sweep.rows((2, 3), 1)):
    assert all(row.ours > 0 for row in rows)
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


@pytest.mark.slow
@pytest.mark.browser
def test_benchmarks_of_dashboards_measure_views_of_the_smallest_size():
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium on this machine")
    done = subprocess.run(
        [sys.executable, "-c", SMALLEST_VIEWS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
