"""File servers: each is a folder that hosts and nodes share, and is mounted by a link like any share."""

from __future__ import annotations

from batchai_magics.backends.slurm.records import Records
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.storage import MountVolumes


def check(records: Records, volumes: MountVolumes | None) -> None:
    """Raises NotFoundError for a mounted file server that is not there."""
    for mount in (volumes.file_servers if volumes else None) or ():
        records.get(ResourceId.parse(mount.file_server.id))
