"""The process manager's side of PMI-1: what ranks are answered, in whatever pieces they ask. Nothing runs."""

from __future__ import annotations

import os
import selectors

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node.ranks import pmi
from batchai_magics.backends.node.ranks.pmi import (
    MAX_LINE,
    Abort,
    Connections,
    ProcessManager,
    Reply,
)
from batchai_magics.launch.plan import LogPaths, Output, Plan, PlanNode, Process


def manager(size: int = 2) -> ProcessManager:
    return ProcessManager("kvs", size, "(vector,(0,1,2))")


def replies_to(to: ProcessManager, *lines: str, rank: int = 0) -> list[str]:
    """What a rank is answered to each line."""
    data = "".join(f"{line}\n" for line in lines).encode()
    return [reply.data.decode().removesuffix("\n") for reply in to.receive(rank, data)]


@pytest.mark.parametrize(
    ("nodes", "mapping"),
    [
        ([0], "(vector,(0,1,1))"),
        ([0, 0, 1, 1], "(vector,(0,2,2))"),
        ([0, 0, 1], "(vector,(0,1,2),(1,1,1))"),
        ([0, 1, 2, 3], "(vector,(0,4,1))"),
    ],
)
def test_the_nodes_of_ranks_are_told_in_blocks(nodes, mapping):
    assert pmi.mapping(nodes) == mapping


INIT = "cmd=init pmi_version=1 pmi_subversion=1"


def test_requests_of_a_rank_are_answered():
    asked = ("cmd=get_maxes", "cmd=get_appnum", "cmd=get_my_kvsname", "cmd=get_universe_size", "cmd=finalize")
    assert replies_to(manager(), INIT, *asked) == [
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
        "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=4096",
        "cmd=appnum rc=0 appnum=0",
        "cmd=my_kvsname rc=0 kvsname=kvs",
        "cmd=universe_size rc=0 size=2",
        "cmd=finalize_ack rc=0",
    ]


def test_another_version_of_the_protocol_is_refused():
    to = manager()
    assert "rc=-1" in replies_to(to, "cmd=init pmi_version=2 pmi_subversion=0")[0]
    assert not to.initialized


def test_values_put_by_one_rank_are_read_by_the_others():
    to = manager()
    put = "cmd=put kvsname=kvs key=a value=x=1#y"
    assert replies_to(to, put) == ["cmd=put_result rc=0 msg=success"]
    found = replies_to(to, "cmd=get kvsname=kvs key=a", "cmd=get kvsname=kvs key=PMI_process_mapping", rank=1)
    assert found == [
        "cmd=get_result rc=0 msg=success value=x=1#y",
        "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))",
    ]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("cmd=get kvsname=kvs key=nope", "cmd=get_result rc=-1 msg=key_not_found"),
        ("cmd=get kvsname=other key=PMI_process_mapping", "cmd=get_result rc=-1 msg=kvsname_unknown"),
        ("cmd=put kvsname=kvs value=x", "cmd=put_result rc=-1 msg=no_key"),
        (f"cmd=put kvsname=kvs key={'k' * 65} value=x", "cmd=put_result rc=-1 msg=too_long"),
        (f"cmd=put kvsname=kvs key=k value={'v' * 4097}", "cmd=put_result rc=-1 msg=too_long"),
        ("cmd=make_coffee", "cmd=error rc=-1 msg=unknown_command_make_coffee"),
        ("rubbish", "cmd=error rc=-1 msg=unknown_command_rubbish"),
    ],
)
def test_invalid_requests_are_refused_with_the_reason(line, answer):
    assert replies_to(manager(), line) == [answer]


@given(st.permutations(range(4)))
def test_a_barrier_opens_for_all_when_the_last_rank_comes_and_then_again(order):
    to = manager(4)
    for _ in range(2):
        replies = [to.receive(rank, b"cmd=barrier_in\n") for rank in order]
        assert replies[:-1] == [[]] * 3
        assert replies[-1] == [Reply(rank, b"cmd=barrier_out rc=0\n") for rank in range(4)]


def test_starting_more_processes_is_refused():
    to = manager()
    spawn = ("mcmd=spawn", "nprocs=1", "execname=/bin/true", "endcmd")
    (answer,) = replies_to(to, *spawn)
    assert answer.startswith("cmd=spawn_result rc=-1 msg=MPI_Comm_spawn_is_not_possible_here")
    assert replies_to(to, "cmd=get_appnum") == ["cmd=appnum rc=0 appnum=0"]


def test_the_first_abort_counts():
    to = manager()
    assert replies_to(to, "cmd=abort exitcode=42 message=out of luck", rank=1) == []
    replies_to(to, "cmd=abort exitcode=7")
    assert to.abort == Abort(1, 42, "out of luck")
    other = manager()
    replies_to(other, "cmd=abort exitcode=x")
    assert other.abort == Abort(0, 1, "")


def test_all_is_read_that_a_rank_has_sent_before_its_end_although_a_helper_keeps_its_connection(
    monkeypatch,
):
    monkeypatch.setattr(pmi, "_READ_SIZE", 16)
    output = Output(LogPaths(""), LogPaths(""))
    plan = Plan(
        "g", (PlanNode("n0", "/", "/tmp", {}),), (Process(0, 0, "true"),), output, exits="", python=""
    )
    with selectors.DefaultSelector() as selector:
        connections = Connections(plan, selector)
        with connections.environment(0) as environment:
            helper = os.dup(environment.descriptors[0])
        with open(helper, "wb") as sent:  # noqa: PTH123 a descriptor
            sent.write(b"cmd=get_appnum\ncmd=abort exitcode=42 message=out of luck\n")
            sent.flush()
            connections.drain(0)
        connections.close()
    assert connections.manager.abort == Abort(0, 42, "out of luck")


def test_ended_rank_is_missed_once_another_one_waits():
    to = manager(3)
    for rank in range(3):
        replies_to(to, INIT, rank=rank)
    assert to.missed({1}) == {1}
    replies_to(to, "cmd=finalize", rank=1)
    assert to.missed({1}) == set()
    replies_to(to, "cmd=barrier_in", rank=0)
    assert to.missed({1}) == {1}
    assert (to.initialized, to.attached) == ({0, 1, 2}, {0, 2})


LINES = st.sampled_from(
    [
        *(
            INIT,
            "cmd=get_maxes",
            "cmd=put kvsname=kvs key=a value=1",
            "cmd=get kvsname=kvs key=a",
            "mcmd=spawn",
        ),
        *("endcmd", "cmd=barrier_in", "cmd=finalize", "=", "cmd=", "cmd=put", "é=\xff"),
    ]
)


@given(st.lists(LINES, max_size=8), st.data())
def test_pieces_make_no_difference(lines, data):
    whole = "".join(f"{line}\n" for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    at_once, by_pieces = manager(), manager()
    assert at_once.receive(0, whole) == [reply for piece in pieces for reply in by_pieces.receive(0, piece)]


def test_a_line_without_end_is_let_go_of():
    to = manager()
    assert replies_to(to, "x" * 10)[0].startswith("cmd=error")
    assert to.receive(0, b"x" * (MAX_LINE + 1)) == [Reply(0, b"cmd=error rc=-1 msg=a_line_is_too_long\n")]
    assert replies_to(to, "cmd=get_appnum") == ["cmd=appnum rc=0 appnum=0"]
