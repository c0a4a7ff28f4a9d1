"""Many jobs, supervisors killed at random: every job ends honestly, runs at most once, and none is lost.

benchmarks/chaos/kills.py does it with two hundred jobs and a hundred kills.
"""

from __future__ import annotations

import contextlib
import random
import time

import psutil
import pytest

from batchai_magics.backends.local import process
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.world import World, processes_of, until

pytestmark = [pytest.mark.slow]

NODES = 4
NOTE = "echo {name} >> $AZ_BATCHAI_MOUNT_ROOT/autoafs/ran; sleep 0.05"
HOLD = NOTE + "; until [ -e $AZ_BATCHAI_MOUNT_ROOT/autoafs/go ]; do sleep 0.05; done"
KILLS = 12


def submit_all(world: World, count: int, *, holding: int = 0) -> list[str]:
    """Of the first ones, `holding` in all, every other does not end by itself."""
    world.resize(world.cluster, NODES)
    names = [f"j{number:03}" for number in range(count)]
    for number, name in enumerate(names):
        line = HOLD if number % 2 and number < 2 * holding else NOTE
        world.start(line.format(name=name), name)
    return names


def started(world: World) -> list[str]:
    return world.backend.storage.download("batchaishare", "ran").decode().split()


def jobs(world: World):
    return world.backend.list(world.experiment, Kind.JOB)


def supervisors(world: World) -> list[str]:
    with world.backend.store.read() as db:
        rows = db.execute("SELECT supervisor FROM job WHERE supervisor != '' AND ended IS NULL").fetchall()
    return [name for (name,) in rows if process.is_alive(name)]


def kill_some(world: World, count: int) -> None:
    """Kills supervisors at random moments, one after the other."""
    dice = random.Random(20180501)
    while count:
        alive = until(lambda: jobs(world) and supervisors(world))  # who looks at the jobs recovers them
        time.sleep(dice.uniform(0.0, 0.05))
        with contextlib.suppress(psutil.Error):
            psutil.Process(process.pid_of(dice.choice(alive))).kill()
            count -= 1


def test_random_kills_lose_no_job(world: World) -> None:
    names = submit_all(world, 40, holding=KILLS + NODES)
    kill_some(world, KILLS)
    world.backend.storage.upload("batchaishare", {"go": b""})
    until(lambda: all(job.state.is_final for job in jobs(world)))
    ended = {job.id.name: job for job in jobs(world)}
    assert sorted(ended) == names
    ran = started(world)
    assert len(ran) == len(set(ran))  # nothing ran twice
    for name, job in ended.items():
        if job.state is ExecutionState.SUCCEEDED:
            assert name in ran
        else:
            assert job.execution.errors[0].code in ("JobSupervisorLost", "JobLaunchFailed"), job.execution
    assert world.backend.show(world.cluster).node_states.idle_node_count == NODES
    until(lambda: not processes_of(world.home))
