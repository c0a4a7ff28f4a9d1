"""Every test of the local backend has a world of its own; some share a podman."""

from tests.backends.local.boxes import boxes, mpi_image, podman, short_folder
from tests.backends.local.still import still
from tests.world import world

__all__ = ["boxes", "mpi_image", "podman", "short_folder", "still", "world"]
