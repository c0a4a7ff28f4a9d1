"""What our own server tells beyond the published API: the queue, and what a new cluster lacks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.base.protocol import MAX_EXPERIMENTS
from batchai_magics.backends.service.runner import ClusterWarning
from batchai_magics.errors import NotFoundError
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState
from tests.server.running import WORKSPACE, Running, connected
from tests.wire_bodies import plain_cluster
from tests.world import until

pytestmark = pytest.mark.slow
SLEEPS = "import time; time.sleep(1000)"


@pytest.fixture
def backend(server: Running) -> Iterator[ArmBackend]:
    with contextlib.closing(connected(server.url)) as made:
        yield made


@pytest.fixture
def queued(server: Running) -> Iterator[list[ResourceId]]:
    """Jobs that wait for the same node, each in an experiment of its own, in their turn."""
    first = server.world.submit("first --nodes 2", SLEEPS)
    until(lambda: first.state is ExecutionState.RUNNING)
    names = [f"waits-{number}" for number in range(MAX_EXPERIMENTS + 3)]
    jobs = [server.world.submit(f"{name} --nodes 2 --experiment {name}", SLEEPS) for name in names]
    yield [job.id for job in jobs]
    for job in [*reversed(jobs), first]:
        job.cancel()


def test_all_jobs_before_one_are_known_however_many_experiments_there_are(
    backend: ArmBackend, server: Running, queued: list[ResourceId]
) -> None:
    *before, last = queued
    shown = backend.show(last)
    server.watched.seen.clear()
    assert list(backend.jobs_ahead_of(shown)) == before
    assert server.watched.seen == set()  # no list of what may be ten thousand jobs


def test_deleted_job_has_no_jobs_before_it_and_says_so(backend: ArmBackend, server: Running) -> None:
    job = server.world.run("gone")
    shown = backend.show(job.id)
    backend.delete(job.id)
    with pytest.raises(NotFoundError):
        backend.jobs_ahead_of(shown)


def test_what_the_creator_of_a_job_should_know_of_its_cluster_is_told_over_the_wire(
    backend: ArmBackend, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = server.world.backend.context.facts
    before = server.world.run("before")
    monkeypatch.setattr(facts, "warnings", lambda cluster: [ClusterWarning("PartitionDiffers", "of batch")])
    there = before.id.parent.child(Kind.JOB, "after")
    made = backend.create(there, before.show().spec)
    assert made.notes == ("of batch",)
    assert backend.show(there).notes == ()
    assert "notes" not in str(made.to_wire()).lower()


def test_notes_on_a_new_cluster_are_given_to_its_creator_only(backend: ArmBackend, server: Running) -> None:
    spec = ClusterSpec.from_wire(plain_cluster(2, vmSize="STANDARD_NC6"))
    there, here = (ResourceId.parse(WORKSPACE).child(Kind.CLUSTER, name) for name in ("there", "here"))
    made = backend.create(there, spec)
    assert made.notes == server.world.backend.create(here, spec).notes
    assert backend.show(there).notes == ()
    assert made.notes
    assert "notes" not in str(made.to_wire()).lower()
