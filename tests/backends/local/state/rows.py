"""Rows of the store: written, counted, and what is said where they cannot be."""

from __future__ import annotations

import pytest

from batchai_magics.backends.local.state.store import Store
from batchai_magics.errors import StorageError

CLUSTER = "INSERT INTO cluster (guid, target, changed) VALUES (?, 0, 0.0)"
COUNT = "SELECT count(*) FROM cluster"


def count(store: Store) -> int:
    with store.read() as db:
        return db.execute(COUNT).fetchone()[0]


def refused(store: Store) -> StorageError:
    """What the store says when it is asked."""
    with pytest.raises(StorageError) as caught, store.read() as db:
        db.execute(COUNT).fetchone()
    return caught.value


def written(store: Store, name: str = "g") -> None:
    with store.write() as db:
        db.execute(CLUSTER, (name,))
