"""The Ray of these tests, which kill nodes of it and add them again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends.ray import real_ray


@pytest.fixture(scope="package")
def ray() -> Iterator[real_ray.RealRay]:
    """A Ray with three nodes."""
    if reason := real_ray.skip_reason():
        pytest.skip(reason)
    ray = real_ray.RealRay()
    yield ray
    ray.stop()
