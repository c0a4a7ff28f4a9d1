"""What jobs' handles tell about their runs, alone and side by side."""

from __future__ import annotations

import pytest

from batchai_magics import compare, scaling
from tests.world import World

pytestmark = pytest.mark.slow

BENCHMARK = """
from mpi4py import MPI
ranks = MPI.COMM_WORLD.size
print("Model:       lenet")
print(f"Batch size:  {8 * ranks} global")
print("             8 per device")
print(f"Devices:     {[f'horovod/cpu:{rank}' for rank in range(ranks)]}")
for step in (1, 10, 20):
    print(f"{step}\\timages/sec: 50.0 +/- 0.5 (jitter = 1.0)\\t{3 - step / 10:.3f}")
print(f"total images/sec: {50 * ranks:.2f}")
"""


def test_jobs_are_compared_and_scaled_by_their_handles(world: World) -> None:
    jobs = [world.run(f"run{ranks} --processes {ranks} --nodes {ranks}", BENCHMARK) for ranks in (1, 2)]
    assert compare(jobs).frame()["images_per_sec"].to_dict() == {"run1": 50, "run2": 100}
    assert scaling(jobs).frame()["efficiency_percent"].tolist() == [100, 100]
    nodes = jobs[1].summary().per_node
    assert nodes is not None
    assert list(nodes.values()) == [50, 50]


def test_tidy_metrics_hold_totals_too(world: World) -> None:
    table = world.run("j", BENCHMARK).metrics(tidy=True)
    assert list(table.columns) == ["step", "rank", "metric", "value", "unit", "wall_time", "offset"]
    assert table.set_index("metric").loc["total_images_per_sec", "value"] == 50
