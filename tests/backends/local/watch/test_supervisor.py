"""The supervisor by itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from batchai_magics.backends.local.watch.detached_process import PACKAGE_ROOT, clean_environment

SLOW = {"pydantic", "dataclasses", "hashlib", "shutil", "socket", "difflib", "psutil"}


@pytest.mark.slow
def test_a_supervisor_starts_without_what_takes_long_and_few_jobs_need() -> None:
    module = "batchai_magics.backends.local.watch.supervisor"
    code = f"import sys; sys.path.insert(0, {PACKAGE_ROOT!r}); import {module}; print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert not SLOW & set(done.stdout.split())


def test_the_path_is_no_longer_for_a_job_that_another_one_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(["/usr/bin", "/env/bin", "/bin"]))
    first = clean_environment("/env/bin/python")["PATH"]
    assert first.split(os.pathsep) == ["/env/bin", "/usr/bin", "/env/bin", "/bin"]
    monkeypatch.setenv("PATH", first)
    assert clean_environment("/env/bin/python")["PATH"] == first
