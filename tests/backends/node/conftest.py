"""The module of a job's processes, as each of them loads it."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from batchai_magics.backends.node.job_environment import JOB_MODULE


@pytest.fixture
def job_module() -> ModuleType:
    """A copy that knows nothing of earlier calls, nor of the variables at that time."""
    spec = importlib.util.spec_from_file_location("job_module_of_a_test", JOB_MODULE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
