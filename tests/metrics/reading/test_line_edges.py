"""Lines that are more than themselves: each case alone, read whole and in parts."""

from batchai_magics.metrics import Measurement
from batchai_magics.metrics.measurement import lines_of
from tests.metrics.log_text import step, step_lines
from tests.metrics.reading.test_log_reader import grown, parsed, same

LINE = step(10)
NOISE = "noise\n"


def both(log):
    """The records of the whole and of its parts."""
    records = parsed(log.encode())
    assert repr(grown(log.encode(), range(0, len(log), 100))) == repr(records)
    return records


def steps_of(records):
    return [(record.rank, record.step) for record in step_lines(records)]


def test_the_rows_of_an_open_table_are_read():
    rows = "".join(f"{epoch:<13}0.5         0.25\n" for epoch in range(1, 40))
    records = both(f"{NOISE * 99}epoch        main/loss   main/accuracy\n{rows}{NOISE * 999}")
    assert sum(isinstance(record, Measurement) for record in records) == 2 * 39


def test_a_carriage_return_ends_a_line():
    log = f"[1,0]<stdout>:{LINE}\r[1,1]<stdout>:{step(20)}\r\nstep=1\rloss=1\n"
    assert steps_of(both(log)) == [(0, 10), (1, 20)]
    same(f"{LINE}\rnoise\r\n{step(20)}\rmore\n".encode())


def test_a_step_beyond_any_number_stops_no_reading():
    records = both("step: 3.0998e+344 loss: 0.5\nstep: 3.0998e+02 loss: 0.25\n")
    assert [(record.step, record.value) for record in records][-1] == (310, 0.25)


def test_a_rank_of_too_many_digits_is_none():
    log = "".join(f"[1,{10**width}]<stdout>:{LINE}\n[{10**width}]<stdout>:{LINE}\n" for width in range(9))
    assert max(rank or 0 for rank, _ in steps_of(both(log))) == 100_000


def test_a_time_of_zero_seconds_is_a_time():
    log = f"1970-01-01T00:00:00Z {LINE}\n{LINE}\n"
    assert [line[0].wall_time for line in lines_of(both(log))] == [0.0, None]
