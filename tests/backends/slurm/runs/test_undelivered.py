"""Notifications that no node could deliver are delivered by the next client, once."""

import socket
from pathlib import Path

import pytest

from batchai_magics.backends.folders import notification_sending
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.outbox import Outbox
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.models.runs.notifications import Delivery
from batchai_magics.models.runs.watch_request import WatchRequest
from tests.webhook import Webhook, webhook

__all__ = ["webhook"]


@pytest.fixture
def files(tmp_path: Path, webhook: Webhook) -> RunFiles:
    """A run whose node was lost, so that its program sent nothing."""
    files = RunFiles(Layout(tmp_path).job("guid").root)
    files.records.mkdir(parents=True)
    (files.records / "watch.json").write_text(WatchRequest("resnet", "e").to_json())
    Outbox.of_run(files).open([webhook.url])
    return files


def test_a_client_delivers_what_a_lost_node_could_not(files, webhook):
    files.note_end(failed_with("NodeLost", "its node was lost")._replace(ended=1000.0))
    notification_sending.deliver_left(files)
    notification_sending.deliver_left(files)
    (body,) = webhook.received
    assert (body["job"], body["state"], body["reason"]) == ("resnet", "failed", "its node was lost")
    assert not Outbox.of_run(files).is_used
    (file,) = (files.records / "deliveries").iterdir()
    assert str(Delivery.from_text(file.read_bytes())).endswith(f" from {socket.gethostname()}")


def test_notification_is_not_sent_while_another_sender_has_the_lease(files, webhook):
    files.note_end(failed_with("NodeLost", "its node was lost")._replace(ended=1000.0))
    assert Outbox.of_run(files).claim("another", lambda _: False, lease_s=60.0)
    notification_sending.deliver_left(files)
    assert webhook.received == []


def test_a_run_that_goes_on_is_left_alone(files, webhook):
    notification_sending.deliver_left(files)
    assert webhook.received == []
    assert Outbox.of_run(files).is_used
