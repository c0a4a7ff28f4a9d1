"""The Slurm that these tests share with those of the contract ends with the session."""

from tests.backends.slurm.real_slurm import SHARED


def pytest_sessionfinish() -> None:
    SHARED.stop()
