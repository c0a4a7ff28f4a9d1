"""Notifications and live exports: where the job runs, on every backend whose runs are watched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchai_magics.errors import CapabilityError, NotFoundError
from batchai_magics.metrics.reading.event_files import EventFileReader
from tests.contract.place import Place
from tests.webhook import SECRET, Webhook, webhook
from tests.world import until

__all__ = ["webhook"]
pytestmark = [pytest.mark.slow, pytest.mark.decided_by("engine")]

SCRIPT = """print('{"step": 3, "loss": 0.5}')"""


@pytest.mark.sample
@pytest.mark.needs("notifications")
def test_the_end_is_told_and_numbers_are_exported(place: Place, webhook: Webhook, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    job = place.run_cell(f"told --notify {webhook.url} --export tensorboard={runs}", SCRIPT)
    (body,) = until(lambda: webhook.received)
    assert (body["job"], body["state"], body["headline"]["value"]) == ("told", "succeeded", 0.5)
    (file,) = (runs / "told").iterdir()
    assert [(point.step, point.value) for point in EventFileReader(file).read()] == [(3, 0.5)]
    names = ["watch.json", "notify.json", "deliveries/"]
    kept = until(lambda: len(found := place.backend.records.read(job.id, names)) == 2 and found)
    assert SECRET.encode() not in b"".join(kept.values())
    (delivery,) = [json.loads(text) for name, text in kept.items() if name.startswith("deliveries/")]
    assert (delivery["channel"], delivery["kind"]) == ("webhook", "ended")


@pytest.mark.sample
@pytest.mark.lacks("notifications")
def test_where_nothing_would_send_them_a_job_that_asks_for_them_is_refused(place: Place) -> None:
    for option in ("--notify true", "--export tensorboard=runs"):
        with pytest.raises(CapabilityError, match=option.partition(" ")[0]):
            place.submit(f"told {option}", SCRIPT)
        with pytest.raises(NotFoundError):
            place.backend.show(place.job("told"))
