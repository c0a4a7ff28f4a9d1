"""A real sshd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends.machines.real_sshd import SHARED, RealSshd, skip_reason


@pytest.fixture
def sshd() -> RealSshd:
    """The sshd that all tests of this process share."""
    if reason := skip_reason():
        pytest.skip(reason)
    return SHARED.get()


@pytest.fixture
def own_sshd() -> Iterator[RealSshd]:
    """An sshd that a test may break."""
    if reason := skip_reason():
        pytest.skip(reason)
    made = RealSshd()
    made.make()
    yield made
    made.stop()
