"""What a backend keeps on this machine, where it keeps anything there."""

from __future__ import annotations

import time

import pytest

from batchai_magics.backends.base import CLEANING
from batchai_magics.errors import CapabilityError, ConflictError, NotFoundError
from tests.contract.place import HOLD, Place

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service")]


@pytest.mark.sample
def test_what_is_kept_is_told_and_stays_while_a_job_runs_and_old_runs_go(place: Place) -> None:
    if place.backend.cleaning is None:
        with pytest.raises(CapabilityError, match="no data on this machine to remove"):
            CLEANING.of(place.backend)
        return
    old = place.run(name="old").id
    between = time.time()
    running = place.start(HOLD, name="running")
    assert sum(part.size_bytes for part in place.backend.cleaning.stored_items()) > 0
    for refused in (place.backend.cleaning.check, place.backend.cleaning.clean):
        with pytest.raises(ConflictError, match=running.name):
            refused()
    (item,) = place.backend.cleaning.old_runs(between, keeps_tagged=True)
    assert (item.name, item.size_bytes > 0) == (f"{old.experiment}/old", True)
    assert place.backend.cleaning.clean_runs(between, keeps_tagged=True) == [item]
    with pytest.raises(NotFoundError):
        place.backend.show(old)
    assert place.backend.show(running).id == running
