"""Every test of the local backend has a world of its own; some share a podman or a docker."""

from tests.backends.local.boxes import boxes, docker, engine, mpi_image, podman, short_folder
from tests.backends.local.still import no_supervisor, still
from tests.world import world

__all__ = [
    "boxes",
    "docker",
    "engine",
    "mpi_image",
    "no_supervisor",
    "podman",
    "short_folder",
    "still",
    "world",
]
