"""What this backend's jobs leave on this machine; see also the contract's `test_processes`."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import FileRef
from tests.patience import PATIENCE_S
from tests.world import World, until

pytestmark = pytest.mark.slow


def test_a_record_of_times_that_is_missing_leaves_them_unknown(world: World) -> None:
    job = world.run("j", "print('step=1 loss=0.5')")
    for path in world.home.rglob("stdout.times"):
        path.unlink()
    assert job.metrics(tidy=True)["wall_time"].isna().all()


def test_a_job_that_prints_without_pause_can_be_read_and_ended(world: World) -> None:
    code = "import sys\nwhile True: sys.stdout.write(('y' * 1023 + '\\n') * 1024)"
    job = world.submit("j", code)
    until(lambda: job.backend.read(FileRef(job.id, "stdout.txt"), 0, 1).size > 100 << 20)
    job.cancel()
    job.wait(PATIENCE_S)
    assert set(job.log(3).splitlines()) <= {"y" * 1023, *("y" * n for n in range(1023))}
