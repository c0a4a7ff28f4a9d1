"""How many threads a process is told to have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.launch.job_site import THREADS, describe_threads
from batchai_magics.launch.planning import plan
from tests.launch.descriptions import SCRIPT, plan_nodes, site, spec


@pytest.mark.parametrize(
    ("processes", "cores", "expected"),
    [(2, 8, "8"), (4, 8, "4"), (3, 8, "4"), (64, 8, "1")],
)
def test_threads_are_a_processs_share_of_its_node(processes, cores, expected) -> None:
    settings = {**SCRIPT, "processCount": processes}
    made = plan(spec(horovodSettings=settings), plan_nodes(), replace(site(), core_count=cores))
    assert {node.env[name] for node in made.nodes for name in THREADS} == {expected}


def test_a_job_that_says_how_many_threads_it_wants_gets_them() -> None:
    variables = [{"name": "OMP_NUM_THREADS", "value": "7,2"}, {"name": "MKL_NUM_THREADS", "value": "5"}]
    given = spec(1, customToolkitSettings={"commandLine": "x"}, environmentVariables=variables)
    made = plan(given, plan_nodes(1), site(1))
    env = made.nodes[0].env
    assert [env[name] for name in THREADS] == ["7,2", "5", "7", "7", "7"]


def test_a_dry_run_says_how_many_threads_a_process_has() -> None:
    assert "its node's cores, shared by 4 processes (OMP_NUM_THREADS" in describe_threads({}, 4)
    assert (
        describe_threads({"MKL_NUM_THREADS": "2"}, 4)
        == "threads of a process: MKL_NUM_THREADS=2, as the job says"
    )
