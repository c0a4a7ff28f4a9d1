"""The Ray of these tests, which kill nodes of it and add them again."""

from __future__ import annotations

import pytest

from tests.backends.ray import real_ray


@pytest.fixture
def ray() -> real_ray.RealRay:
    """The Ray with three nodes that the contract's tests of this process share."""
    if reason := real_ray.skip_reason():
        pytest.skip(reason)
    return real_ray.SHARED.get()
