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


STRAGGLING = """
from mpi4py import MPI
rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
print("TensorFlow:  1.12")
print("Model:       lenet")
print("Dataset:     imagenet (synthetic)")
print(f"Batch size:  {8 * ranks} global")
print("             8 per device")
print(f"Devices:     {[f'horovod/cpu:{each}' for each in range(ranks)]}")
print("Variables:   horovod")
print("==========", flush=True)
seconds = 0.0  # a clock of its own: the rates are those of any machine
for step in range(1, 41):
    seconds += (0.05 if rank == 2 else 0.002) * (3 if step <= 10 else 1)
    if step == 1 or step % 2 == 0:
        rate = 8 * step / seconds
        loss = "nan" if step == 40 else f"{5 - step / 10:.3f}"
        print(f"{step}\\timages/sec: {rate:.1f} +/- 0.5 (jitter = 1.5)\\t{loss}", flush=True)
total = MPI.COMM_WORLD.allreduce(8 * 40 / seconds)
print(f"total images/sec: {total:.2f}", flush=True)
"""


def test_a_summary_of_real_ranks_tells_all_of_the_run_and_names_the_straggler(world: World) -> None:
    summary = world.run("straggling --nodes 2 --processes 4", STRAGGLING).summary()
    assert (summary.model, summary.dataset, summary.variable_update) == (
        "lenet",
        "imagenet (synthetic)",
        "horovod",
    )
    assert (summary.batch_size_global, summary.batch_size_per_device) == (32, 8)
    assert (summary.device_count, summary.ranks, summary.steps) == (4, 4, 40)
    assert summary.warm_up_steps is not None
    assert summary.stragglers == (2,)
    assert summary.skew is not None
    assert summary.skew > 0.5
    assert (summary.loss_trend, summary.first_loss, summary.has_nan) == ("falling", 4.9, True)
    rates = summary.rates or {}
    assert summary.steady is not None
    assert summary.steady.images_per_sec == pytest.approx(sum(rates.values()))
    assert summary.per_device == summary.per_process == pytest.approx(sum(rates.values()) / 4)
    assert sum((summary.per_node or {}).values()) == pytest.approx(sum(rates.values()))
    assert "rank 2 (" in str(summary)
