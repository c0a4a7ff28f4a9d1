"""What blocks of lines tell when they are read at once: what they would tell line by line."""

import pytest

from batchai_magics.metrics import Fact, Measurement, Parser
from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES
from tests.metrics.log_text import HEADER, step, step_lines, total

LINE = step(10)
CUT = LINE.index(" +/-")
STEPS = "".join(f"{step(number)}\n" for number in range(10, 60, 10))


def read(*chunks):
    parser = Parser()
    return [record for chunk in chunks for record in parser.feed(chunk.encode())] + parser.finish()


def tagged(text, rank):
    return "".join(f"[1,{rank}]<stdout>:{line}\n" for line in text.splitlines())


def step_ranks(records):
    return [(record.rank, record.step) for record in step_lines(records)]


BLOCKS = {
    "text": "hello\n",
    "a step": f"{step(1)}\n",
    "steps": STEPS,
    "steps and a total": f"{STEPS}{total(12.34)}\n{STEPS}",
    "steps and a glued one": f"{STEPS}hello {step(20)}\n{STEPS}",
    "another program": "step=1 loss=0.5\n",
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_untagged_text_belongs_to_the_last_tag_of_the_block_before(block):
    assert step_ranks(read(tagged(block, 4) + tagged("hello", 5), f"{LINE}\n"))[-1] == (5, 10)
    assert step_ranks(read(tagged("hello", 5) + tagged(block, 4), f"{LINE}\n"))[-1] == (4, 10)


def test_a_tag_without_a_rank_means_the_rank_of_the_file_and_not_of_the_tag_before():
    parser = Parser()
    parser.feed(tagged("hello", 3).encode(), rank=7)
    lines = "".join(f"Sat Mar  2 10:25:35 2019<stdout>:{line}\n" for line in STEPS.splitlines())
    assert {rank for rank, _ in step_ranks(parser.feed(lines.encode(), rank=7))} == {7}


def test_a_line_of_another_stream_than_the_current_one_goes_on_in_an_even_block():
    first = f"[1,0]<stdout>:{LINE[:CUT]}[1,1]<stdout>:hello\n"
    assert step_ranks(read(first, f"[1,0]<stdout>:{LINE[CUT:]}\n[1,1]<stdout>:more\n")) == [(0, 10)]


def test_a_line_of_the_current_stream_goes_on_in_an_even_block():
    first = f"[1,1]<stdout>:hello\n[1,0]<stdout>:{LINE[:CUT]}"
    assert step_ranks(read(first, f"{LINE[CUT:]}\n{STEPS}"))[0] == (0, 10)


def test_a_record_at_the_cut_of_an_overlong_line_is_read():
    text = "y" * (MAX_LINE_BYTES - CUT) + "#" + step(70)
    assert step_ranks(read(f"{text}\n{STEPS}"))[0] == (None, 70)


def test_what_follows_the_cut_of_an_overlong_line_is_no_line_of_its_own():
    assert read("y" * 2 * MAX_LINE_BYTES + "step=1 loss=0.5\n") == []


def test_the_rhythm_of_steps_read_at_once_tells_where_a_glued_step_begins():
    steps = "".join(f"{step(number)}\n" for number in range(25, 150, 25))
    assert step_ranks(read(steps, f"version 1.8{step(75)}\n"))[-1] == (None, 75)
    assert step_ranks(read(f"{steps}version 1.8{step(75)}\n{steps}"))[5] == (None, 75)


def test_the_first_step_is_no_rhythm():
    steps = "".join(f"{step(number)}\n" for number in (1, 30, 60, 90, 120))
    assert step_ranks(read(steps, f"version 1.81{step(60)}\n"))[-1] == (None, 60)
    assert step_ranks(read(*steps.splitlines(keepends=True), f"version 1.81{step(60)}\n"))[-1] == (None, 60)


def test_after_accuracies_were_read_at_once_a_last_line_without_them_is_cut():
    steps = "".join(f"{step(number, accuracies=chr(9) + '0.125	0.500')}\n" for number in range(10, 80, 10))
    assert step_ranks(read(f"{steps}{steps}", step(80))) == 2 * [(None, n) for n in range(10, 80, 10)]


@pytest.mark.parametrize("noise", ["noise\n", f"{step(20)}\n", f"{STEPS}10\t412.7 examples/sec\n"])
@pytest.mark.parametrize("size", [1, 4])
def test_a_header_that_is_long_over_takes_no_more_lines(noise, size):
    block = noise * (5000 // size)
    records = read(HEADER, *[block] * size, "Optimizer:   adam\n")
    assert [r.value for r in records if isinstance(r, Fact) and r.key == "optimizer"] == ["sgd"]


@pytest.mark.parametrize("noise", ["noise\n", f"{step(20)}\n"])
def test_a_header_that_goes_on_takes_its_lines(noise):
    records = read(HEADER, noise * 3000, "Optimizer:   adam\n", noise * 3000, "Optimizer:   lars\n")
    values = [r.value for r in records if isinstance(r, Fact) and r.key == "optimizer"]
    assert values == ["sgd", "adam", "lars"]


def test_lines_around_one_of_the_header_have_the_ranks_of_their_tags():
    around = f"[1,0]<stdout>:{LINE}\n"
    assert step_ranks(read(f"{around}[1,1]<stdout>:Model:       lenet\n{around}")) == [(0, 10), (0, 10)]


OPTIMIZER = "[1,1]<stdout>:Optimizer:   adam\n"


@pytest.mark.parametrize("text", ["hello world ", "version 1.8"])
def test_steps_behind_other_text_around_one_of_the_header_have_the_ranks_of_their_tags(text):
    glued = f"[1,0]<stdout>:{text}{step(20)}\n"
    assert step_ranks(read(HEADER, f"{glued}{OPTIMIZER}{glued}")) == [(0, 20), (0, 20)]


def test_untagged_text_belongs_to_the_last_tag_behind_one_of_the_header_too():
    assert step_ranks(read(HEADER, f"{OPTIMIZER}[1,4]<stdout>:hello\n", f"{LINE}\n")) == [(4, 10)]


TABLE = "epoch        main/loss   main/accuracy\n1            0.5         0.25\n"


def values_of(records):
    return [(record.rank, record.value) for record in records if isinstance(record, Measurement)]


def test_a_table_that_opens_within_a_header_is_read():
    assert values_of(read(f"{HEADER}noise\n{TABLE}")) == [(None, 0.5), (None, 0.25)]


def test_a_row_that_nothing_ended_is_no_row():
    assert values_of(read(f"{TABLE}2            0.25        0.5")) == [(None, 0.5), (None, 0.25)]


def test_a_number_of_a_rank_without_a_table_is_no_row():
    log = tagged(TABLE, 0) + tagged("5", 1) + tagged("2            0.25        0.5", 0)
    assert values_of(read(log)) == [(0, 0.5), (0, 0.25), (0, 0.25), (0, 0.5)]


def test_a_line_that_may_go_on_counts_only_when_it_has_ended():
    assert values_of(read("step=1 loss=0.5")) == []
    assert values_of(read('{"step": 1, "loss": 0.5}')) == [(None, 0.5)]


def test_a_finished_parser_knows_neither_ranks_nor_offsets():
    parser = Parser()
    parser.feed(f"[1,3]<stdout>:{LINE}\n".encode())
    parser.finish()
    (record,) = step_lines(parser.feed(f"{LINE}\n".encode()))
    assert (record.rank, record.offset) == (None, len(LINE) + 1)
