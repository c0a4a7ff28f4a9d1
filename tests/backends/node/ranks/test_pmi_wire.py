"""What PMI's lines say beside the commands."""

from __future__ import annotations

import pytest

from batchai_magics.backends.node.ranks import pmi


@pytest.mark.parametrize(
    ("nodes", "mapping"),
    [
        ([0], "(vector,(0,1,1))"),
        ([0, 0, 1, 1], "(vector,(0,2,2))"),
        ([0, 0, 1], "(vector,(0,1,2),(1,1,1))"),
        ([0, 1, 2, 3], "(vector,(0,4,1))"),
    ],
)
def test_the_nodes_of_ranks_are_told_in_blocks(nodes: list[int], mapping: str) -> None:
    assert pmi.mapping(nodes) == mapping


@pytest.mark.parametrize(
    ("line", "id"), [(b"cmd=initack pmiid=12", "12"), (b"cmd=init pmiid=12", ""), (b"\xff", ""), (b"", "")]
)
def test_who_comes_over_a_port_says_by_which_id(line: bytes, id: str) -> None:
    assert pmi.claimed_id(line) == id
