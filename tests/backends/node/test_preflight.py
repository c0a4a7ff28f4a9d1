"""The preflight's order of measurements, and what follows from its report."""

from __future__ import annotations

import json
import socket
import threading
import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node import preflight_program
from batchai_magics.backends.node.preflight import CODE, Preflight, conclusion_of, max_excluded, rounds
from batchai_magics.records.preflight import NodeCheck, PreflightReport
from tests.backends.node.test_outcome import plan


@given(st.integers(0, 17))
def test_rounds_have_every_pair_once_and_a_node_in_one_pair_each(count):
    nodes = range(10, 10 + count)
    all_rounds = list(rounds(nodes))
    met = [frozenset(pair) for pairs in all_rounds for pair in pairs]
    assert len(met) == len(set(met))
    assert set(met) == {frozenset(pair) for pair in combinations(nodes, 2)}
    for pairs in all_rounds:
        busy = [node for pair in pairs for node in pair]
        assert len(busy) == len(set(busy))


@pytest.mark.parametrize(("count", "excluded"), [(1, 0), (2, 1), (4, 1), (8, 2), (16, 4), (100, 4)])
def test_a_quarter_of_the_nodes_may_be_left_out(count, excluded):
    assert max_excluded(count) == excluded


def report(*bad: int) -> PreflightReport:
    """The report on four nodes, some of which did not answer."""
    problems = dict.fromkeys(bad, "it did not answer")
    return PreflightReport.of([NodeCheck(f"n{i}", problems.get(i, "")) for i in range(4)], ())


def test_a_job_runs_on_the_good_nodes_or_fails_if_too_many_are_bad():
    smaller = ("three", "two")
    assert conclusion_of(report(), smaller) == (None, (), "")
    assert conclusion_of(report(0), smaller) == (None, (1, 2, 3), "three")
    assert conclusion_of(report(1, 3), smaller) == (None, (0, 2), "two")
    (error,) = conclusion_of(report(1, 2, 3), smaller).outcome.errors
    assert error["code"] == CODE
    assert "n2 is bad: it did not answer" in error["message"]
    assert "At most 2 of its nodes can be left out." in error["message"]


class NodeStandIn:
    """A node's program that answers requests without measuring, and the processes that it is one of."""

    is_running = True

    def __init__(self, address: tuple[str, int], token: str) -> None:
        self._connection = socket.create_connection(address)
        self._stream = self._connection.makefile("rwb", buffering=0)
        self._send({"token": token, "node": 0, "address": "127.0.0.1", "port": 1})
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def poll(self, timeout_s: float) -> set[int]:
        return set()

    def _serve(self) -> None:
        with self._connection, self._stream:
            for line in self._stream:
                self._send({"time": time.time()} if json.loads(line)["do"] == "clock" else {})

    def _send(self, reply: dict[str, object]) -> None:
        self._stream.write(json.dumps(reply).encode() + b"\n")


@pytest.mark.parametrize("hello", ['{"token": "ä"}', "[1]", "5", "GET / HTTP/1.1"])
def test_a_connection_of_a_stranger_does_not_end_the_preflight(tmp_path, hello):
    on_one_node = plan("rank")._replace(nodes=plan("rank").nodes[:1])
    preflight = Preflight(on_one_node, "127.0.0.1", tmp_path / "exits")
    host, port = preflight.env[preflight_program.ADDRESS].split(":")
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(f"{hello}\n".encode())
        node = NodeStandIn((host, int(port)), preflight.env[preflight_program.TOKEN])
        assert preflight.follow(node, lambda signals: None) is None
        node.thread.join()
    assert preflight.report
    assert not preflight.report.flagged
