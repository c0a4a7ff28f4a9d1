"""What a preflight's measurements mean: which node is bad or slow, compared with the others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.records.preflight import (
    Finding,
    FindingKind,
    GpuHealth,
    NodeCheck,
    PairCheck,
    PreflightReport,
    pairs_to_repeat,
    size_text,
)

BAD, SLOW = FindingKind.BAD, FindingKind.SLOW
PACKAGES = {f"p{number}": "1.0" for number in range(8)}
WELL = NodeCheck(
    "n",
    machine="m",
    clock_offset_s=0.01,
    disk_free_bytes=1 << 40,
    memory_bytes=64 << 30,
    memory_free_bytes=60 << 30,
    processor_rate=1e9,
    memory_rate=1e10,
    disk_rate=1e8,
    python="3.11.7",
    packages=PACKAGES,
    gpus=(GpuHealth(0, 80 << 30, 80 << 30),),
)


def findings(changes: dict[str, object], *, count: int = 4) -> list[tuple[str, FindingKind, str]]:
    """What is found if the third of some equal nodes has other values."""
    nodes = [WELL._replace(node=f"n{number}") for number in range(count)]
    nodes[2] = nodes[2]._replace(**changes)
    return [tuple(finding) for finding in PreflightReport.of(nodes, ()).findings]


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"problem": "it did not answer"}, BAD, "it did not answer"),
        ({"clock_offset_s": -61.5}, BAD, "its clock is 61.5 s behind"),
        ({"clock_offset_s": 2.0}, BAD, "its clock is 2.0 s ahead"),
        ({"disk_free_bytes": 5 << 20}, BAD, "only 5.24 MB are free on its disk"),
        ({"memory_free_bytes": 1 << 20}, BAD, "only 1.05 MB of its memory are free"),
        ({"memory_bytes": 32 << 30}, BAD, "it has 34.4 GB of memory, the others 68.7 GB"),
        ({"python": "3.10.1"}, BAD, "it has Python 3.10.1, the others 3.11.7"),
        ({"gpus": ()}, BAD, "it has 0 GPU(s), the others 1"),
        ({"packages": {**PACKAGES, "p1": "2.0"}}, BAD, "other packages: p1 2.0 (the others: 1.0)"),
        (
            {"packages": {"torch": "2"}},
            BAD,
            "other packages: p0 missing (the others: 1.0), p1 missing (the others: 1.0),"
            " p2 missing (the others: 1.0), p3 missing (the others: 1.0), p4 missing (the others: 1.0)"
            " and 4 more",
        ),
        (
            {"gpu_problem": "the driver is not loaded"},
            BAD,
            "its GPUs cannot be used: the driver is not loaded",
        ),
        ({"gpus": (GpuHealth(0, 1, 1, ecc_errors=3),)}, BAD, "GPU 0 has 3 uncorrected memory error(s)"),
        (
            {"gpus": (GpuHealth(0, 1, 1, is_slowed=True),)},
            BAD,
            "GPU 0 is slowed down by heat or a lack of power",
        ),
        ({"processor_rate": 4e8}, SLOW, "its processor does 400 MB/s, the median is 1 GB/s"),
        ({"memory_rate": 4e9}, SLOW, "its memory copies 4 GB/s, the median is 10 GB/s"),
        ({"disk_rate": 1e7}, SLOW, "its disk writes 10 MB/s, the median is 100 MB/s"),
    ],
)
def test_the_one_node_that_differs_is_named(changes: dict[str, object], kind: FindingKind, text: str) -> None:
    assert findings(changes) == [("n2", kind, text)]


@pytest.mark.parametrize(
    "changes", [{}, {"processor_rate": 6e8}, {"disk_rate": 3e7}, {"memory_bytes": 60 << 30}]
)
def test_small_differences_are_none(changes: dict[str, object]) -> None:
    assert findings(changes) == []


def test_two_nodes_that_differ_have_no_majority() -> None:
    nodes = [WELL._replace(node="a", python="3.10"), WELL._replace(node="b", python="3.12")]
    assert PreflightReport.of(nodes, ()).findings == ()


def test_a_slow_node_makes_no_other_one_look_slow() -> None:
    nodes = [WELL._replace(node=name) for name in "abc"]
    pairs = [PairCheck("a", "b", 1e9), PairCheck("a", "c", 1e8), PairCheck("b", "c", 1e8)]
    (finding,) = PreflightReport.of(nodes, pairs).findings
    assert finding == Finding("c", SLOW, "it exchanges 100 MB/s, the median is 1 GB/s")


def test_the_best_pair_of_each_node_that_exchanges_slowly_is_repeated() -> None:
    nodes = [WELL._replace(node=name, processor_rate=1.0 if name == "a" else 1e9) for name in "abc"]
    pairs = [PairCheck("a", "b", 1e9), PairCheck("a", "c", 2e8), PairCheck("b", "c", 1e8)]
    assert pairs_to_repeat(nodes, pairs) == {("a", "c")}
    assert pairs_to_repeat(nodes, [*pairs[:1], PairCheck("a", "c", 9e8), pairs[2]]) == set()


def test_a_node_that_only_met_a_slow_one_is_not_slow() -> None:
    pairs = [PairCheck("a", "b", rate=1e9), PairCheck("c", "d", rate=1e8)]
    report = PreflightReport.of([NodeCheck(name) for name in "abcd"], pairs)
    assert report.findings == ()


def test_a_node_that_reaches_no_other_one_is_bad() -> None:
    nodes = [WELL._replace(node=name) for name in "abc"]
    lost = [PairCheck("a", "c", problem="refused"), PairCheck("b", "c", problem="refused")]
    report = PreflightReport.of(nodes, [PairCheck("a", "b", 1e9), *lost])
    assert report.findings == (Finding("c", BAD, "it could exchange data with no other node: refused"),)


@given(st.lists(st.floats(1e6, 1e10), min_size=1, max_size=9))
def test_never_more_than_half_of_the_nodes_are_slow(rates: list[float]) -> None:
    nodes = [WELL._replace(node=f"n{i}", processor_rate=rate) for i, rate in enumerate(rates)]
    assert len(PreflightReport.of(nodes, ()).flagged) <= len(rates) / 2


def test_a_report_is_the_same_after_a_file() -> None:
    nodes = [WELL._replace(node="a"), WELL._replace(node="b", problem="it did not answer")]
    report = PreflightReport.of(nodes, [PairCheck("a", "b", 1e9, 1e-5, 0.01)], 3.0)
    read = PreflightReport.from_text(json.dumps(report.to_json()))
    assert read == report._replace(nodes=tuple(node._replace(packages={}) for node in report.nodes))
    assert report.to_json()["nodes"][1]["result"] == "bad"
    assert read.sentence == "preflight: 2 nodes checked in 3.0 s: b is bad: it did not answer"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (999_950, "1 MB"), (12_340_000, "12.3 MB"), (2e12, "2 TB")],
)
def test_a_size_has_three_digits_in_the_unit_that_fits(size_bytes: float, text: str) -> None:
    assert size_text(size_bytes) == text
