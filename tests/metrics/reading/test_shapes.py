"""Every shape that launchers give to lines: one reading, whether whole, in blocks, or line by line."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading.log_parser import read_table
from batchai_magics.metrics.reading.timestamps import WriteTimes
from tests.metrics.log_text import HEADER, step, step_lines, total
from tests.metrics.reading.program_lines import KNOWN_LINES
from tests.metrics.reading.test_any_bytes import losses, rates
from tests.metrics.shapes import SHAPES, dressed, lines_in

steps = st.builds(step, st.integers(0, 999), rates, losses, st.sampled_from(["", "", "\t0.125\t0.500"]))
usual = st.one_of(
    steps,
    steps,
    steps.map(lambda line: line.replace("\t", "   ")),
    st.sampled_from(
        ["noise", "", "node:20:24 [0] NCCL INFO Ring 00", "I0612 10:00:03.360748 1 x.py:1] hello"]
    ),
)
cut_steps = st.builds(lambda line, place: line[:place], steps, st.integers(0, 60))
printed = [
    *(total(5.25).splitlines()[1], step(10) + step(20), "Done warm up" + step(10)),
    *("step=1 loss=0.5", "[1,7]<stdout>:", f"0{step(10)}", step(10**17), step(10**18), step(10)[2:]),
    *(step(10, accuracies="\t0.125"), f"{step(10)} 1587077440", f"{step(10)}\t{step(20)}"),
    *(*KNOWN_LINES, *HEADER.splitlines()),
]
others = cut_steps | st.sampled_from(printed)
texts = st.one_of(usual, usual, usual, others)
one_shape = st.sampled_from(sorted(SHAPES)).flatmap(
    lambda shape: st.lists(lines_in(st.just(shape), texts), max_size=20)
)
any_shape = st.lists(lines_in(st.sampled_from(sorted(SHAPES)), texts), max_size=20)
logs = st.lists(st.one_of(one_shape, one_shape, any_shape), max_size=4).map(
    lambda parts: "".join(line for part in parts for line in part).encode()
)


def read(*chunks, clock=None, rank=None):
    parser = Parser()
    return [r for chunk in chunks for r in parser.feed(chunk, rank, clock=clock)] + parser.finish()


def lines_of(log):
    return log.splitlines(keepends=True)


EPOCH, LOSS = "Epoch 1/12", "Minibatch loss: 1.652, learning rate: 0.006302"
BAR = "48/48 [==============================] - 1s 5ms/step - loss: 0.9490 - accuracy: 0.4954"
PLACED, RATE = "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.310000", "Iter #3: 101.2 img/sec per GPU"
BELOW = "I0608 01:25:32.246443   551 solver.cpp:397]     Test net output #0: accuracy = 0.9913"
GLUED = f"{KNOWN_LINES[-1]}INFO:root:Epoch[0] Batch [20]\tSpeed: 13681.57 samples/sec"
TAG = "[1,0]<stdout>:"


@given(logs, st.lists(st.integers(0, 3000), max_size=9), st.sampled_from([None, 7]), st.booleans())
@example(f"{TAG}{EPOCH}\n{TAG}{BAR}\n{EPOCH}\n{LOSS}\n".encode(), [], None, False)  # with and without a tag
@example(f"{PLACED}\n{RATE}\nx{BELOW}\n".encode(), [], None, False)  # the epoch is not the last line's
@example(f"{TAG}{GLUED}\n{BAR}\n{GLUED}\nValidation error: 1.0%\n".encode(), [], None, False)
def test_blocks_say_what_each_line_says_by_itself(log, cuts, rank, has_clock):
    clock = WriteTimes([0, 500, 1000], [1e9, 2e9, 3e9]) if has_clock else None
    chunks = [log[start:end] for start, end in pairwise([0, *sorted(cuts), len(log)])]
    lines = read(*lines_of(log), clock=clock, rank=rank)
    assert repr(read(*chunks, clock=clock, rank=rank)) == repr(lines)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_log_of_one_shape_is_read_to_its_end(shape):
    log = "".join(f"{dressed(shape, step(10 * n), rank=n % 4)}\n" for n in range(1, 200)).encode()
    records = [*read_table([log])]
    assert sorted(r.step for r in step_lines(records)) == [10 * n for n in range(1, 200)]
    assert repr(records) == repr(read(*lines_of(log))) == repr(read(log))


def test_lines_that_nothing_ends_come_in_the_order_of_their_ranks():
    ended = "".join(f"[1,{rank}]<stdout>:{step(10)}\n" for rank in (9, 1, 5))
    open_ = "".join(f"[1,{rank}]<stdout>:{step(20 + rank)}[1,0]<stdout>:\n" for rank in (5, 9, 1))
    log = (ended + open_).encode()
    for records in (read(log), read(*lines_of(log)), read_table([log])):
        assert [r.step for r in step_lines(records)] == [10, 10, 10, 21, 25, 29]


def test_a_coloured_line_ends_where_its_bytes_end():
    tagged, coloured = b"[1,2]<stdout>:step=1 loss=0.5\n", b"\x1b[33mstep=2 loss=0.5\x1b[0m\n"
    for records in (read(tagged + coloured), read(tagged, coloured)):
        assert [record.offset for record in records] == [len(tagged), len(tagged + coloured)]
