"""A backend whose state and log the test writes itself, and a follower that has looked once."""

from __future__ import annotations

import pytest

from batchai_magics.follow import Follower
from tests.widgets.scripted_job import JOB, ScriptedBackend


@pytest.fixture
def backend(tmp_path):
    return ScriptedBackend(tmp_path)


@pytest.fixture
def follower(backend):
    made = Follower(backend, JOB)
    made.poll()
    return made
