"""Blocks where a line is more than itself: each case alone, against the parser."""

import pytest

from batchai_magics.metrics import Fact, Measurement
from batchai_magics.metrics.measurement import lines_of
from tests.metrics.log_text import HEADER, step, step_lines, total
from tests.metrics.reading.test_log_reader import by_blocks, parsed, same

LINE = step(10)
CUT = LINE.index(" +/-")
NOISE = "noise\n"
STEPS = "".join(f"{step(number)}\n" for number in range(10, 600, 10))


def both(log, **options):
    """The records, which both readers agree on."""
    records = by_blocks(log.encode(), **options)
    assert repr(records) == repr(parsed(log.encode()))
    return records


def steps_of(records):
    return [(record.rank, record.step) for record in step_lines(records)]


@pytest.mark.parametrize("noise", [NOISE * 5000, STEPS * 90, f"{NOISE}{LINE}\n" * 3000])
def test_a_header_that_is_long_over_takes_no_more_lines(noise):
    records = both(f"{HEADER}{noise}Optimizer:   adam\n")
    assert [r.value for r in records if isinstance(r, Fact) and r.key == "optimizer"] == ["sgd"]


@pytest.mark.parametrize("noise", [NOISE * 3000, STEPS * 50])
def test_a_header_that_begins_late_is_read_to_its_end(noise):
    records = both(f"{noise}{HEADER}{noise}Optimizer:   adam\n{noise}Optimizer:   lars\n")
    values = [r.value for r in records if isinstance(r, Fact) and r.key == "optimizer"]
    assert values == ["sgd", "adam", "lars"]


def test_the_rows_of_an_open_table_are_read():
    rows = "".join(f"{epoch:<13}0.5         0.25\n" for epoch in range(1, 40))
    records = both(f"{NOISE * 99}epoch        main/loss   main/accuracy\n{rows}{NOISE * 999}")
    assert sum(isinstance(record, Measurement) for record in records) == 2 * 39


@pytest.mark.parametrize("noise", ["", NOISE * 300])
def test_a_line_that_other_streams_interrupt_goes_on_where_nothing_tells_a_record(noise):
    log = f"{noise}[1,0]<stdout>:{LINE[:CUT]}[1,1]<stdout>:hello\n[1,0]<stdout>:{LINE[CUT:]}\n{noise}"
    assert steps_of(both(log)) == [(0, 10)]


@pytest.mark.parametrize("block_bytes", range(20, 2 * len(LINE), 3))
def test_a_line_longer_than_the_buffer_goes_on_where_nothing_tells_a_record(block_bytes):
    assert steps_of(both(f"{LINE}\n{step(20)}\n", block_bytes=block_bytes)) == [(None, 10), (None, 20)]


@pytest.mark.parametrize("line", ["hello", LINE, total(5.25), "step=1 loss=0.5"])
def test_untagged_text_belongs_to_the_last_tag_before(line):
    for rank in (3, 4):
        log = f"[1,7]<stdout>:{LINE}\n[1,{rank}]<stderr>:{line.splitlines()[0]}\n{LINE}\n"
        assert steps_of(both(log))[-1] == (rank, 10)
        assert steps_of(both(f"{log}{NOISE}{log}"))[-1] == (rank, 10)


@pytest.mark.parametrize("block_bytes", [1 << 17, 1 << 20])
def test_a_long_line_of_steps_alone_is_cut_where_the_parser_cuts_it(block_bytes):
    line = step(120) * 4000
    assert len(both(f"{step(1)}\n{line}\n{step(10)}\n", block_bytes=block_bytes)) > 3900


def test_a_carriage_return_ends_a_line():
    log = f"[1,0]<stdout>:{LINE}\r[1,1]<stdout>:{step(20)}\r\nstep=1\rloss=1\n"
    assert steps_of(both(log)) == [(0, 10), (1, 20)]
    same(f"{LINE}\rnoise\r\n{step(20)}\rmore\n".encode())


@pytest.mark.parametrize("control", ["\x1b[0m", "\0", "\b"])
def test_control_characters_are_taken_out_before_a_line_is_read(control):
    for place in range(len(LINE)):
        same(f"{step(1)}\n{LINE[:place]}{control}{LINE[place:]}\n{step(20)}\n".encode())


def test_a_rank_of_too_many_digits_is_none():
    log = "".join(f"[1,{10**width}]<stdout>:{LINE}\n[{10**width}]<stdout>:{LINE}\n" for width in range(9))
    assert max(rank or 0 for rank, _ in steps_of(both(log))) == 100_000


@pytest.mark.parametrize("tag", ["x[1,3]<stdout>:", " [1,3]<stdout>:", "x 1,3]<stdout>:", "[1,3)<stdout>:"])
def test_what_is_no_tag_at_the_start_of_a_line_tells_what_the_parser_says(tag):
    same(f"[1,1]<stdout>:{LINE}\n{tag}{LINE}\n{step(20)}\n".encode())


@pytest.mark.parametrize("digits", ["0", "00", "010", "12345678", "123456789", "1" * 19])
def test_a_step_of_any_digits_is_what_the_parser_says(digits):
    same(f"{LINE}\n{digits}{LINE[2:]}\n{LINE}{digits}{LINE[2:]}\n".encode())


ACCURACIES = [
    "\t0.125\t0.500",
    "\t0.125\t0.50",
    "\t0.125\t10.500",
    "\t10.125\t0.500",
    "\tnan\tnan",
    "\t0.125",
]


@pytest.mark.parametrize("tail", [*ACCURACIES, "\t", " x", " 1587077440", "\t0.125\t0.500 1587077440.5"])
def test_what_follows_a_loss_is_what_the_parser_says(tail):
    same(f"{LINE}{tail}\n{LINE}{tail}{LINE}{tail}\n".encode())


def test_the_first_step_is_no_rhythm():
    log = f"{step(1)}\n{step(30)}\n{step(60)}\n{step(90)}\nversion 1.81{step(60)}\n"
    assert steps_of(both(log))[-1] == (None, 60)


def test_a_time_of_zero_seconds_is_a_time():
    log = f"1970-01-01T00:00:00Z {LINE}\n{LINE}\n"
    assert [line[0].wall_time for line in lines_of(both(log))] == [0.0, None]
