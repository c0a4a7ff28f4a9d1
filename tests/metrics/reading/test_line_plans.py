"""Plans depend on the skeletons of lines alone: any order and any subset of lines give the same numbers."""

from hypothesis import example, given
from hypothesis import strategies as st

from batchai_magics.metrics import Fact, Measurement, Parser
from batchai_magics.metrics.reading.log_parser import read_table

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

lines = st.builds(
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
@given(st.lists(lines, max_size=20), st.booleans())
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


@given(st.lists(lines, max_size=20))
def test_a_total_is_told_where_a_rank_first_prints_it_however_its_log_is_read(chosen):
    parts = [f"{line}\n".encode() for line in chosen]
    parser = Parser()
    live = [record for part in parts for record in parser.feed(part)]
    whole = list(read_table([b"".join(parts)]))
    assert whole == live
    told = lengths(live)
    assert len({(value, rank) for value, rank, _ in told}) == len(told)
    alone = [(value, rank) for part in parts for value, rank, _ in lengths(Parser().feed(part))]
    assert [(value, rank) for value, rank, _ in told] == list(dict.fromkeys(alone))
