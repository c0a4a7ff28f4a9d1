"""The fixtures of the tests of sweeps."""

from tests.jobs.sweeps.lab import lab
from tests.world import world

__all__ = ["lab", "world"]
