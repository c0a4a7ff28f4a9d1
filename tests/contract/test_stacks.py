"""Where the ranks of a running job are."""

from __future__ import annotations

import pytest

from batchai_magics.errors import ConflictError
from batchai_magics.follow import Follower, Standstill
from batchai_magics.models.job_execution import node_name
from batchai_magics.models.runs.watch_request import WatchRequest
from tests.contract.place import Place
from tests.patience import PATIENCE_S
from tests.webhook import Webhook, webhook
from tests.world import until

__all__ = ["webhook"]
pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]

# Once a rank has printed, it stays in the same functions: what it waits in is not written in Python.
HANG = """
import os, time

def wait_for_the_others():
    print("up", flush=True)
    time.sleep(1000)

def read_a_batch():
    print("up", flush=True)
    os.read(os.pipe()[0], 1)

read_a_batch() if os.environ["AZ_BATCHAI_TASK_INDEX"] == "2" else wait_for_the_others()
"""


@pytest.mark.decided_by("engine")
@pytest.mark.sample
@pytest.mark.needs("node_commands")
def test_hanging_rank_is_named_to_followers_and_the_job_continues(place: Place) -> None:
    job = place.submit("hang --nodes 2 --processes 3 --toolkit custom", HANG)
    until(lambda: job.log().count("up") == 3)
    stacks = job.stacks()
    assert [rank.rank for rank in stacks.ranks] == [0, 1, 2]
    assert stacks.different == (2,)
    assert stacks.sentence.startswith("Rank 2 differs from the others: rank 2 is in read_a_batch (")
    assert "wait_for_the_others" in str(stacks)
    nodes = {node_name(node.id) for node in place.backend.nodes(job.id)}
    assert {rank.node for rank in stacks.ranks} == nodes
    follower = Follower(job.backend, job.id, stalled_s=1)
    (found,) = until(lambda: [each for each in follower.poll() if isinstance(each, Standstill)])
    assert found.sentence.startswith(
        "Nothing was printed for 1 s. Rank 2 differs from the others: rank 2 is in read_a_batch ("
    )
    assert not job.is_done
    if place.backend.records:
        kept = place.backend.records.read(job.id, ["stacks/"])
        assert kept["stacks/2.txt"].count(b"read_a_batch") >= 2
    job.cancel()
    job.wait(PATIENCE_S)
    with pytest.raises(ConflictError, match="only a running job has stacks"):
        job.stacks()


@pytest.mark.decided_by("nodes")
@pytest.mark.needs("notifications")
@pytest.mark.needs("node_commands")
def test_the_notification_of_a_standstill_says_where_the_ranks_are(
    place: Place, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = WatchRequest.to_json
    monkeypatch.setattr(WatchRequest, "to_json", lambda self: whole(self._replace(stalled_s=3.0)))
    job = place.submit(f"hang --nodes 2 --processes 3 --toolkit custom --notify {webhook.url}", HANG)
    finding = "it has printed nothing for 3 s. Rank 2 differs from the others: rank 2 is in read_a_batch ("
    told = until(lambda: [body for body in webhook.received if body["reason"].startswith(finding)])
    assert told[0]["kind"] == "stalled"
    job.cancel()
    job.wait(PATIENCE_S)
    until(lambda: [body for body in webhook.received if body["kind"] == "ended"])
