"""The machine behind a real sshd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.machines.there import There
from tests.backends.machines.real_sshd import RealSshd


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
