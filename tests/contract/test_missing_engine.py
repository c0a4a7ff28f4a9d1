"""Jobs with an image where nothing runs containers: an image that the user named is never left out."""

from __future__ import annotations

import pytest

from batchai_magics.backends.node import containers
from batchai_magics.backends.slurm import sbatch
from batchai_magics.errors import CapabilityError, NotFoundError
from batchai_magics.models.resource_ids import Kind
from tests.contract.place import Place

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("engine"), pytest.mark.needs("container_engine")]
IMAGE = {"containerSettings": {"imageSourceRegistry": {"image": "tf:1"}}, "batchaiNeedsImage": True}


@pytest.mark.sample
def test_a_job_whose_image_the_user_named_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (containers, sbatch):
        monkeypatch.setattr(module, "ENGINES", ("none-such",))
    with pytest.raises(CapabilityError, match=r"docker|none-such|no containers") as caught:
        place.backend.host_note(place.spec("true", **IMAGE))
    assert caught.value.hint
    with pytest.raises(CapabilityError):
        place.start("true", **IMAGE)
    with pytest.raises(NotFoundError):
        place.backend.show(place.job())
    assert list(place.backend.list(place.experiment, Kind.JOB)) == []
