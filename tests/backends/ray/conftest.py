"""The Ray of these tests, which kill nodes of it and add them again."""

from __future__ import annotations

import pytest

from tests.backends.ray import real_ray


@pytest.fixture
def needs_ray() -> None:
    """Skips a test where Ray is not installed."""
    if reason := real_ray.skip_reason():
        pytest.skip(reason)


@pytest.fixture
def ray(needs_ray: None) -> real_ray.RealRay:
    """The Ray with three nodes that the contract's tests of this process share."""
    return real_ray.SHARED.get()
