"""What a backend keeps on this machine, where it keeps anything there."""

from __future__ import annotations

import time

import pytest

from batchai_magics.backends.base import CLEANING
from batchai_magics.errors import CapabilityError, ConflictError, NotFoundError
from tests.contract.place import HOLD, Place

pytestmark = pytest.mark.slow


def test_what_is_kept_is_told_and_stays_while_a_job_runs(place: Place) -> None:
    id = place.start(HOLD)
    if place.backend.cleaning is None:
        with pytest.raises(CapabilityError, match="no data on this machine to remove"):
            CLEANING.of(place.backend)
        return
    kept = place.backend.cleaning.stored_items()
    assert sum(part.size_bytes for part in kept) > 0
    for refused in (place.backend.cleaning.check, place.backend.cleaning.clean):
        with pytest.raises(ConflictError, match=id.name):
            refused()
    assert place.backend.show(id).id == id


def test_old_runs_go_and_others_stay(place: Place) -> None:
    if place.backend.cleaning is None:
        return  # nothing of it is on this machine: see above
    old = place.run(name="old").id
    between = time.time()
    running = place.start(HOLD, name="running")
    (item,) = place.backend.cleaning.old_runs(between, keeps_tagged=True)
    assert (item.name, item.size_bytes > 0) == (f"{old.experiment}/old", True)
    assert place.backend.cleaning.clean_runs(between, keeps_tagged=True) == [item]
    with pytest.raises(NotFoundError):
        place.backend.show(old)
    assert place.backend.show(running).id == running
