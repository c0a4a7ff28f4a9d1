"""What a backend keeps on this machine, where it keeps anything there."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import CLEANING
from batchai_magics.errors import CapabilityError, ConflictError
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
