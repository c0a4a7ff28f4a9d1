"""Every test of job handles has a world of its own."""

from tests.world import world

__all__ = ["world"]
