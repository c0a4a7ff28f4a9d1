"""Properties: how a log is cut never matters, interleaving keeps each rank's series, no input raises."""

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchai_magics.metrics import Fact, Measurement, Parser
from batchai_magics.metrics.measurement import lines_of
from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES
from batchai_magics.metrics.reading.log_parser import read_table
from batchai_magics.metrics.timestamps import json_timestamp, parse_timestamp
from tests.metrics.log_text import step, step_lines
from tests.metrics.reading.log_parts import (
    LOGS,
    PATTERNS,
    clocks,
    grown,
    losses,
    parsed,
    ranks,
    same,
    steps,
    table_of,
)
from tests.metrics.reading.program_lines import KNOWN_LINES

cuts = st.lists(st.integers(0, 3000), max_size=9) | st.sampled_from(["line", "byte"])


@pytest.mark.parametrize("kind", LOGS)
@given(st.data(), cuts, ranks, clocks, st.sampled_from([{}, PATTERNS]))
def test_any_parts_of_a_log_give_the_records_of_the_whole(kind, data, cuts, rank, clock, patterns):
    same(data.draw(LOGS[kind]), cuts, rank, clock, patterns)


EPOCH, LOSS = "Epoch 1/12", "Minibatch loss: 1.652, learning rate: 0.006302"
BAR = "48/48 [==============================] - 1s 5ms/step - loss: 0.9490 - accuracy: 0.4954"
PLACED, RATE = "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.310000", "Iter #3: 101.2 img/sec per GPU"
BELOW = "I0608 01:25:32.246443   551 solver.cpp:397]     Test net output #0: accuracy = 0.9913"
GLUED = f"{KNOWN_LINES[-1]}INFO:root:Epoch[0] Batch [20]\tSpeed: 13681.57 samples/sec"
TAG = "[1,0]<stdout>:"


@pytest.mark.parametrize(
    "log",
    [
        f"{TAG}{EPOCH}\n{TAG}{BAR}\n{EPOCH}\n{LOSS}\n",  # with and without a tag
        f"{PLACED}\n{RATE}\nx{BELOW}\n",  # the epoch is not the last line's
        f"{TAG}{GLUED}\n{BAR}\n{GLUED}\nValidation error: 1.0%\n",
        "step 5: loss 0.5\n  acc: 0.25\n  time: 0.1\n  f1: 0.75\n",
        "[1,1]<stdout>:[0] Epoch 5: loss=0.5\n1: [1] Epoch 5: loss=0.25\n",  # the second tells a rank
        "[1,0]<stdout>:Epoch 1/9\n[0] ------------\n  - loss: 0.5\n",  # the blank is of no tag
    ],
)
@pytest.mark.parametrize("patterns", [{}, PATTERNS])
def test_block_gives_the_records_of_its_single_lines(log, patterns):
    same(log.encode(), "line", patterns=patterns)


@pytest.mark.parametrize("rare", ["", "\x1b[38:2::1:2:3m", "\x1b]0;title\x07"])
def test_a_long_log_in_colours_is_read_as_one_without(rare):
    lines = [f"step {number}: {{}}loss{{}} 0.{number}" for number in range(1, 301)]
    coloured = "\n".join(line.format("\x1b[1;33m", "\x1b[0m") for line in lines) + f"{rare}\n"
    plain = "\n".join(line.format("", "") for line in lines) + "\n"
    assert numbers(parsed(coloured.encode())) == numbers(parsed(plain.encode()))
    assert len(numbers(parsed(plain.encode()))) == 300


@given(st.binary(max_size=3000), st.binary(max_size=3000))
def test_no_bytes_raise(head, tail):
    same(head + tail, [len(head)], patterns={"any": r"(\S+)"})


@given(st.text(alphabet="0123456789-:/TZ+. JanFebSat[]<>stdou,\n", max_size=200))
def test_no_text_that_resembles_a_time_raises(text):
    parse_timestamp(text.encode())
    json_timestamp(text)
    parsed(f"{text}{step(10)}\n{text}<stdout>:{step(10)}\n".encode())


T = 1551522300.0  # 10:25 on March 2, 2019
lines_of_a_rank = st.lists(st.tuples(st.integers(1, 999), losses, st.integers(0, 59)), max_size=8)


@given(st.lists(lines_of_a_rank, min_size=1, max_size=4), st.randoms())
def test_any_interleaving_of_whole_lines_keeps_each_ranks_series_and_times(series, random):
    order = [rank for rank, lines in enumerate(series) for _ in lines]
    random.shuffle(order)
    rest = [iter(lines) for lines in series]
    log = "".join(
        f"Sat Mar  2 10:25:{second:02d} 2019[1,{rank}]<stdout>:{step(number, 1.0, loss)}\n"
        for rank in order
        for number, loss, second in [next(rest[rank])]
    )
    found = [{each.name: each for each in line} for line in lines_of(Parser().feed(log.encode()))]
    for rank, lines in enumerate(series):
        own = [
            (each["loss"].step, each["loss"].value, each["loss"].wall_time)
            for each in found
            if each["loss"].rank == rank
        ]
        assert repr(own) == repr([(number, float(loss), T + second) for number, loss, second in lines])


@given(st.lists(steps.filter(lambda line: not line.startswith("0\t")), max_size=30))
def test_glued_lines_give_as_many_records_as_whole_ones(lines):
    def shown(log):
        return [
            (r.images_per_sec, repr(r.loss), repr(r.top_5)) for r in step_lines(Parser().feed(log.encode()))
        ]

    assert shown("".join(lines) + "\n") == shown("".join(f"{line}\n" for line in lines))


def test_a_stream_without_newlines_costs_no_memory():
    parser = Parser()
    parser.feed(b"x")  # what has to be imported is imported
    tracemalloc.start()
    try:
        for _ in range(200):
            parser.feed(b"x" * 50_000)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes <= 8 * MAX_LINE_BYTES  # of 10 MB


def test_a_line_of_10_mb_hides_nothing_around_it():
    log = f"{step(1)}\n{'7' * 10_000_000}\n{step(10)}\n".encode()
    assert [r.step for r in step_lines(Parser().feed(log))] == [1, 10]


def test_an_overlong_line_is_never_cut_within_a_step_number():
    line = ("x" * 100 + step(123_450)).encode() * 2000
    records = Parser().feed(line + b"\n")
    assert {r.step for r in records} == {123_450}
    assert len(records) > 1900


def test_rest_of_an_overlong_line_is_not_read_as_a_line():
    assert parsed(("y" * 2 * MAX_LINE_BYTES + "step=1 loss=0.5\n").encode()) == []


def test_offsets_follow_a_jump_in_the_file():
    log = "".join(f"{step(10 * number)}\n" for number in range(1, 60)).encode()
    line_bytes = len(step(10)) + 1
    cut = 3 * line_bytes
    records = step_lines(table_of(Parser(), [(2, log[:cut], 1000), (2, log[cut:], 90_000)]))
    assert [record.offset for record in records][2:4] == [1000 + cut, 90_000 + line_bytes]


def test_parts_of_several_files_are_in_the_order_of_reading():
    lines = f"{step(10)}\n{step(20)}\n".encode()
    pieces = [(0, lines, 0), (1, lines[:30], 1000), (0, lines, 2000), (1, lines[30:], 3000)]
    assert [(line.rank, line.step) for line in step_lines(table_of(Parser(), pieces))] == [
        (rank, number) for rank in (0, 0, 1) for number in (10, 20)
    ]


@pytest.mark.parametrize(
    "line", ["step {0}, loss: 0.5, images/sec: 99", "step {0}/30 loss: 0.5 images/sec: 99.5"]
)
def test_the_rate_of_a_script_is_read_as_the_benchmarks_would_be(line):
    log = "".join(f"{line.format(number)}\n" for number in range(1, 30)).encode()
    records = grown(log, cuts=(100, 333))
    assert [each.name for each in records if isinstance(each, Measurement)] == ["loss", "images_per_sec"] * 29


def test_the_rows_of_an_open_table_are_read():
    rows = "".join(f"{epoch:<13}0.5         0.25\n" for epoch in range(1, 40))
    noise = "noise\n"
    log = f"{noise * 99}epoch        main/loss   main/accuracy\n{rows}{noise * 999}".encode()
    assert sum(isinstance(record, Measurement) for record in grown(log, range(0, len(log), 100))) == 2 * 39


def test_a_step_beyond_any_number_stops_no_reading():
    records = parsed(b"step: 3.0998e+344 loss: 0.5\nstep: 3.0998e+02 loss: 0.25\n")
    assert [(record.step, record.value) for record in records][-1] == (310, 0.25)


def test_any_number_of_attempts_is_read_at_once():
    mark = b"[batchai] attempt 2 begins on node2: Slurm took its nodes for another job\n"
    log = (mark + b"step 1: loss 0.5\n") * 1500
    assert len(parsed(log)) == 2 * 1500
    same(log, "line")


@pytest.mark.parametrize(
    "text",
    [
        '{{\n  "step": {},\n  "loss": 0.5\n}}\n',
        "{{'step': {},\n 'loss': 0.5}}\n",
        "+------+-----+\n| step | {} |\n| loss | 0.5 |\n+------+-----+\n",
        "step  loss  acc\n1  0.25  0.5\n{}  0.5  0.5\n",
    ],
)
@pytest.mark.parametrize("is_repeated", [False, True])
def test_step_of_a_table_is_exact_or_left_out_if_it_has_more_than_64_bits(text, is_repeated):
    exact, large = 123456789012345677, 10**30
    log = "".join(text.format(step) * (1 + is_repeated) for step in (exact, large, exact))
    steps = {record.step for record in parsed(log.encode()) if record.value == 0.5}
    assert steps - {1} == {exact}


TEMPLATES = (
    "step {a}: loss {b}",
    "step {a}: loss 0.{b}",
    "step={a},loss={b}",
    "step {a} acc{c}: {b}.5 acc{d}: 0.25",
    "[rank{c}] step {a} loss=0.{b}",
    "2026-03-0{c} 10:00:0{d} INFO step {a} layer{c}.loss={b} lr=1e-0{d}",
    '{{"step": {a}, "loss": {b}, "map{c}": 0.5}}',
    "I0405 01:30:0{d}.123456 140000 train.py:88] step = {a}, loss = 0.{b}",
    "step {a} Eval: {c}_acc=0.{b}, {d}_loss=0.2153",
    "step {a} loss=0.{b} optim/LR (group {c})=1e-{d}",
    "worker {c} of {d} wrote shard {a}",
    "epoch {c} step {a}/{d}000 loss 0.{b}",
    "[rank{c}] epoch 1 step {a}/{d}000 loss 0.{b}",
    "Train Epoch: {c} [{a}/{d}000 (1%)]\tLoss: 0.{b}",
)


SILENT = (
    "step=,loss=",
    "step : loss ",
    "step : loss .",
    "worker  of  wrote shard ",
    "",
)  # their skeletons without digits


form_lines = st.builds(
    lambda template, a, b, c, d: template.format(a=a, b=b, c=c, d=d),
    st.sampled_from(TEMPLATES),
    st.integers(1, 12_000),
    st.integers(1, 999),
    st.sampled_from((1, 3, 5)),
    st.sampled_from((2, 5, 9)),
) | st.sampled_from(SILENT)


def numbers(records):
    return [
        (each.name, each.unit, each.value, each.step, each.rank, each.phase)
        for each in records
        if isinstance(each, Measurement)
    ]


def lengths(records):
    return [(each.value, each.rank, each.offset) for each in records if isinstance(each, Fact)]


@example(["step 1 acc5: 1.5 acc5: 0.25", "step 1 acc5: 1.5 acc2: 0.25"], False)
@example([f"step 1 Eval: {i}_acc=0.3994, {i + 1}_loss=0.2153" for i in (0, 1)], False)
@example([f"step 1 loss=0.5 optim/LR (group {i})=1e-4" for i in (10, 12)], False)
@given(st.lists(form_lines, max_size=20), st.booleans())
def test_any_lines_around_a_line_leave_its_numbers_alone(chosen, is_growing):
    parser, read = Parser(), []
    parts = [f"{line}\n".encode() for line in chosen]
    if is_growing:
        read = [numbers(parser.feed(part)) for part in parts]
    else:
        records = list(read_table([b"".join(parts)]))
        ends = [sum(map(len, parts[: place + 1])) for place in range(len(parts))]
        read = [numbers(each for each in records if each.offset == end) for end in ends]
    assert read == [numbers(Parser().feed(part)) for part in parts]


@given(st.lists(form_lines, max_size=20))
def test_total_is_recorded_where_a_rank_first_prints_it_in_any_chunking(chosen):
    parts = [f"{line}\n".encode() for line in chosen]
    parser = Parser()
    live = [record for part in parts for record in parser.feed(part)]
    whole = list(read_table([b"".join(parts)]))
    assert whole == live
    told = lengths(live)
    assert len({(value, rank) for value, rank, _ in told}) == len(told)
    alone = [(value, rank) for part in parts for value, rank, _ in lengths(Parser().feed(part))]
    assert [(value, rank) for value, rank, _ in told] == list(dict.fromkeys(alone))


def test_invalid_date_does_not_hide_the_time_of_a_similar_line():
    form = '{{"step": {}, "loss": 0.5, "timestamp": "2026-11-23T18:{}:10.625181Z"}}'
    log = f"{form.format(1, 15)}{form.format(2, 915)}\n{form.format(3, 915)}\n".encode()
    same(log, "line")
    assert [each.wall_time is None for each in parsed(log)] == [False, True, True]
