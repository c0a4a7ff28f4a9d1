"""The parts of benchmarks/gpu.py that need no GPU: nvidia-smi's output, and what counts as agreement."""

import pytest

from benchmarks import gpu
from benchmarks.gpu import Comparison, SmiGpu

SMI = """0, GPU-5efc3a7e-70d7-750a-e943-dc5db632f589, NVIDIA H200, 100, 2075, Disabled
1, GPU-9f00, NVIDIA H100 80GB HBM3, [N/A], 14, Enabled
"""


def test_unknown_cells_of_nvidia_smi_are_none():
    assert gpu.parse_gpus(SMI) == [
        SmiGpu(0, "GPU-5efc3a7e-70d7-750a-e943-dc5db632f589", "NVIDIA H200", 100.0, 2075.0, False),
        SmiGpu(1, "GPU-9f00", "NVIDIA H100 80GB HBM3", None, 14.0, True),
    ]


def test_the_memory_of_a_process_is_summed_over_its_gpus():
    text = "4711, 518\n4711, 10\n4712, [N/A]\nNo running processes found\n"
    assert gpu.parse_apps(text) == {4711: 528.0}


def test_gpus_agree_within_the_tolerance_and_a_missing_one_does_not():
    theirs = gpu.parse_gpus(SMI)
    near = {0: {"percent": 90.0, "memory_mib": 2100.0}}
    assert [each.agrees for each in gpu.compare_gpus(near, theirs)] == [True, True]
    far = {0: {"percent": 10.0, "memory_mib": 2690.0}}  # with what the driver reserves
    assert [each.agrees for each in gpu.compare_gpus(far, theirs)] == [False, False]
    assert [each.agrees for each in gpu.compare_gpus({}, theirs)] == [False, False]


def test_the_memory_of_a_rank_is_that_of_its_process():
    found = list(gpu.compare_ranks({0: 520.0, 1: 100.0}, {0: 11, 1: 12}, {11: 518.0, 12: 518.0}))
    assert [each.agrees for each in found] == [True, False]
    assert "rank 1 memory" in found[1].line
    assert found[1].line.endswith("DIFFERS")


@pytest.mark.parametrize(
    ("uuids", "is_shared", "is_right"),
    [
        (["GPU-a", "GPU-a"], True, True),
        (["GPU-a", "GPU-b"], True, False),
        (["GPU-a", "GPU-b"], False, True),
        (["GPU-a", "GPU-a"], False, False),
        (["GPU-a"], True, False),
    ],
)
def test_ranks_share_a_gpu_exactly_where_they_must(uuids, is_shared, is_right):
    assert (not gpu.sharing_problem(uuids, is_shared=is_shared)) is is_right


def test_what_neither_knows_agrees():
    assert Comparison("GPU 0 use", None, None, 1.0, "%").agrees


def test_ranks_are_found_in_tagged_lines():
    log = '[1,1]<stdout>:gpu-rank {"rank": 1, "uuid": "b"}\ngpu-rank {"rank": 0, "uuid": "a"}'
    assert [each["uuid"] for each in gpu.ranks_in(log)] == ["a", "b"]


def test_without_a_gpu_it_says_so(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "DRIVER", tmp_path / "missing")
    assert gpu.main() == 0
    assert "no GPU here" in capsys.readouterr().out
