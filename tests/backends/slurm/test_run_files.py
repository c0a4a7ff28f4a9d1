"""The files of a run: each written once, by whoever is first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchai_magics.backends.folders.run_end import RunEnd
from batchai_magics.backends.node.outcome import Outcome, stopped
from batchai_magics.backends.slurm.node.order import Order, address_stand_in, node_stand_in, port_stand_ins
from batchai_magics.backends.slurm.node.run_files import Begun, RunFiles, Stop, Submission
from batchai_magics.launch.plan import LogFile, Node, Output, Plan, Process


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path)


def test_the_latest_attempt_is_the_one_submitted_last(files: RunFiles) -> None:
    assert files.attempt == 0
    for number in (1, 2):
        assert files.note_submission(number, Submission(str(number), 1.0))
    assert (files.attempt, files.submission(2)) == (2, Submission("2", 1.0))
    assert not files.note_submission(2, Submission("3", 1.0))


def test_the_first_reason_to_stop_stands(files: RunFiles) -> None:
    assert files.ask_to_stop(1, Stop("terminate", 1.0))
    assert not files.ask_to_stop(1, Stop("another", 2.0))
    assert files.stop(1) == Stop("terminate", 1.0)
    assert files.stop(2) is None


def test_an_attempt_that_slurm_starts_again_has_begun_anew(files: RunFiles) -> None:
    files.note_begun(1, Begun("7", ("n1",), 1.0))
    files.note_begun(1, Begun("7", ("n2", "n3"), 2.0, restarts=1))
    assert files.begun(1) == Begun("7", ("n2", "n3"), 2.0, restarts=1)


def test_a_run_ends_once_and_its_secrets_go(files: RunFiles) -> None:
    files.secrets.write_text(json.dumps({"KEY": "hush"}))
    assert files.note_end(RunEnd(Outcome(0), 1.0))
    assert not files.note_end(RunEnd(stopped("terminate"), 2.0))
    assert files.end == RunEnd(Outcome(0), 1.0)
    assert [file.name for file in files.root.iterdir()] == ["end.json"]


def test_an_order_is_filled_in_with_the_nodes_and_ports_that_there_are() -> None:
    guid, port = "g", port_stand_ins(1)[0]
    nodes = tuple(
        Node(node_stand_in(guid, index), f"/h/{node_stand_in(guid, index)}", "", {}) for index in (0, 1, 10)
    )
    command = f"connect {address_stand_in(guid, 10)}:{port}"
    plan = Plan(guid, nodes, (Process(0, 2, command),), Output(LogFile("o"), LogFile("e")), "x", "python")
    order = Order(plan.to_json(), "", 3, 1, "pmi2", "/p")
    names = ["a", "b", *(f"x{number}" for number in range(2, 10)), "c"]
    filled, *others = order.filled_in(guid, names, [f"{name}.net" for name in names])
    assert [node.id for node in filled.nodes] == ["a", "b", "c"]
    assert [node.folder for node in filled.nodes] == ["/h/a", "/h/b", "/h/c"]
    host, _, number = filled.processes[0].command.partition(":")
    assert (host, 1024 <= int(number) < 65536, others) == ("connect c.net", True, [None, None])
