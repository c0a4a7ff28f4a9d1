"""A real sshd, and the machine behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.machines.there import There
from tests.backends.machines.real_sshd import SHARED, RealSshd, why_not


@pytest.fixture
def sshd() -> RealSshd:
    """The sshd that all tests of this process share."""
    if reason := why_not():
        pytest.skip(reason)
    return SHARED.get()


@pytest.fixture
def own_sshd() -> Iterator[RealSshd]:
    """An sshd that a test may break."""
    if reason := why_not():
        pytest.skip(reason)
    made = RealSshd()
    made.make()
    yield made
    made.stop()


@pytest.fixture
def there(sshd: RealSshd) -> Iterator[There]:
    """The machine behind it."""
    made = There(sshd.channel())
    yield made
    made.close()


@pytest.fixture
def far(there: There, tmp_path: Path) -> Path:
    """A folder of it, which is `tmp_path` here."""
    return there.folder(tmp_path)


def pytest_sessionfinish() -> None:
    """No fixture's end: that may come with a fast test, which starts no process."""
    SHARED.stop()
