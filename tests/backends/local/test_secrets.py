"""Secrets are in one process's memory: it keeps them while the job waits, and when it starts again."""

from __future__ import annotations

import json

import pytest

from batchai_magics.backends.local import reconciler
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.process import Secrets
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.models.states import ExecutionState
from tests.world import World, until

pytestmark = pytest.mark.slow

CODE = "import os, time\nprint(len(os.environ['TOKEN']), flush=True)\ntime.sleep(1000)"


def test_a_job_that_starts_again_has_its_secrets_again(world: World, monkeypatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    cluster = world.make_cluster(vmPriority="lowpriority").id
    job = world.submit("j --cluster c --secret TOKEN", CODE)
    for times in (1, 2):
        until(lambda times=times: job.log().count("9\n") == times)
        world.backend.preemption.preempt(cluster, world.backend.nodes(cluster)[0].id)
    until(lambda: job.log().count("9\n") == 3)
    world.supervisor(job).kill()  # who knew them is gone
    until(lambda: job.is_done)
    assert job.state is ExecutionState.FAILED


def test_nobody_else_starts_a_job_before_its_secrets_are_held(world: World, monkeypatch) -> None:
    spawn = reconciler.spawn

    def slow(store, layout, row, secrets):
        other = LocalBackend(LocalSettings(home=world.home))  # another process looks in between
        assert other.show(world.job_id("j")).state is ExecutionState.QUEUED
        reconciler.reconcile_if_due(other.store, other.layout, is_due=True)
        other.close()
        return spawn(store, layout, row, secrets)

    monkeypatch.setattr(reconciler, "spawn", slow)
    monkeypatch.setenv("TOKEN", "hush-hush")
    assert world.run("j --secret TOKEN", "import os; print(len(os.environ['TOKEN']))").log() == "9\n"


def test_secrets_are_not_shown() -> None:
    held = Secrets({"TOKEN": "hush-hush"}, "password")
    assert "hush" not in repr(held)
    assert "password" not in repr(held).replace("registry_password", "")
    assert Secrets(**json.loads(json.dumps(held._asdict()))) == held
