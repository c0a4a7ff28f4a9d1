"""The machine behind a real sshd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.machines.ssh_machine import SshMachine
from tests.backends.machines.real_sshd import RealSshd


@pytest.fixture
def machine(sshd: RealSshd) -> Iterator[SshMachine]:
    """The machine behind it."""
    made = SshMachine(sshd.channel())
    yield made
    made.close()


@pytest.fixture
def far(machine: SshMachine, tmp_path: Path) -> Path:
    """A folder of it, which is `tmp_path` here."""
    return machine.resolve(tmp_path)
