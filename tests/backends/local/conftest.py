"""Every test of the local backend has a world of its own."""

from tests.world import world

__all__ = ["world"]
