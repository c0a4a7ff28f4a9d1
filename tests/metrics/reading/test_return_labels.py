r"""A label at the start of a line stands for all parts of it that a progress bar separates by `\r`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from tests.metrics.log_text import measurements, step
from tests.metrics.reading import test_log_reader as reader

LABELS = ("[rank3]:", "[default3]:", "3: ", "[3] ", "[gpu01:3/8] ", "(3/8) ", "[1,3]<stdout>:")


def bar(done):
    return f"Epoch 1: {done}0%|##   | {done}/10 [00:0{done}<00:09,  1.00it/s, loss=0.{done}]"


def drawn(*done, end="\n"):
    return "".join(f"\r{bar(number)}" for number in done) + end


def ranks_of(log):
    parser = Parser()
    records = parser.feed(log.encode()) + parser.finish()
    return {record.step: record.rank for record in measurements(records)}


@pytest.mark.parametrize("label", LABELS)
def test_the_label_before_a_carriage_return_is_that_of_all_draws(label):
    assert ranks_of(label + drawn(1, 2, 3)) == {1: 3, 2: 3, 3: 3}


@pytest.mark.parametrize("prefix", ["2026-03-02T10:25:35.03Z ", "worker-1  | "])
def test_a_collectors_prefix_may_stand_before_the_label(prefix):
    assert ranks_of(prefix + "[rank3]:" + drawn(1, 2)) == {1: 3, 2: 3}


def test_the_first_draw_may_follow_the_label_at_once():
    assert ranks_of(f"[rank3]:{bar(1)}{drawn(2, 3)}") == {1: 3, 2: 3, 3: 3}


def test_a_number_in_brackets_before_text_may_be_a_step_and_gives_no_rank():
    assert ranks_of(f"[3] loading{drawn(2, 3)}") == {2: None, 3: None}


def test_a_label_ends_with_its_line():
    assert ranks_of(f"[rank3]:{drawn(1)}{bar(2)}\n{drawn(3)}") == {1: 3, 2: None, 3: None}


def test_each_ranks_line_has_its_own():
    assert ranks_of(f"3: {drawn(1, 2)}0: {drawn(3, 4)}3: {drawn(5)}") == {1: 3, 2: 3, 3: 0, 4: 0, 5: 3}


@pytest.mark.parametrize("other", ["[rank2]:\r", "\r[rank2]:loading\r", "\r[rank2]:\r"])
def test_behind_another_ranks_label_within_the_line_no_rank_is_certain(other):
    ranks = ranks_of(f"[rank3]:{drawn(1, end=f'{chr(13)}text{other}')}{bar(4)}{drawn(5)}")
    assert ranks == {1: 3, 4: None, 5: None}


def test_windows_line_ends_are_no_parts():
    assert ranks_of(f"[rank3]:{bar(1)}\r\n{bar(2)}\r\n") == {1: 3, 2: None}
    assert ranks_of(f"[rank3]:\r\n{bar(2)}\r\n") == {2: None}


def test_the_rank_of_a_file_precedes_that_of_labels():
    records = measurements(Parser().feed(f"[rank3]:{drawn(1, 2)}".encode(), rank=7))
    assert [record.rank for record in records] == [7, 7]


pieces = st.one_of(
    st.sampled_from(LABELS),
    st.sampled_from(["\r", "\r", "\r", "\n", "\r\n", " ", "\x1b[A", "[1,1]<stdout>:", "text"]),
    st.integers(1, 9).map(bar),
    st.just(step(10)),
)
logs = st.lists(pieces, max_size=40).map(lambda parts: "".join(parts).encode())
cuts = st.lists(st.integers(0, 1500), max_size=9)


@given(logs, cuts, reader.ranks, reader.clocks)
def test_how_a_log_is_cut_changes_nothing(log, cuts, rank, clock):
    reader.same(log, cuts, rank, clock)
