"""The supervisor by itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from batchai_magics.backends.local.process import PACKAGE_ROOT, clean_environment

SLOW = {"pydantic", "dataclasses", "hashlib", "shutil", "socket", "difflib", "psutil", "random", "tempfile"}
LOADS = """
import re, sys
sys.path.insert(0, {root!r})
compiled, compile = set(), re.compile
def note(*given, **named):
    compiled.add(sys._getframe(1).f_globals["__name__"])
    return compile(*given, **named)
re.compile = note
import batchai_magics.backends.local.supervisor
print(*sys.modules, *(f"re.compile in {{name}}".replace(" ", "-") for name in compiled))
"""


@pytest.mark.slow
def test_a_supervisor_starts_without_what_takes_long_and_few_jobs_need() -> None:
    argv = [sys.executable, "-I", "-S", "-c", LOADS.format(root=PACKAGE_ROOT)]
    loaded = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    assert not SLOW & loaded
    assert not {name for name in loaded if name.startswith("batchai_magics.models.runs.")}
    compiled = {name for name in loaded if name.startswith("re.compile-in-batchai_magics")}
    assert compiled == {"re.compile-in-batchai_magics.lazy_exports"}


def test_the_path_is_no_longer_for_a_job_that_another_one_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(["/usr/bin", "/env/bin", "/bin"]))
    first = clean_environment("/env/bin/python")["PATH"]
    assert first.split(os.pathsep) == ["/env/bin", "/usr/bin", "/env/bin", "/bin"]
    monkeypatch.setenv("PATH", first)
    assert clean_environment("/env/bin/python")["PATH"] == first
