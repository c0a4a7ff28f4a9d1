"""Some tests here look at the ranks of real jobs."""

from tests.world import world

__all__ = ["world"]
