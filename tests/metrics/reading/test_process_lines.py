"""How far below its heading a line may stand: counted in lines of its process, where a prefix names one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from tests.metrics.reading import test_log_reader as reader

PREFIXES = (
    "[1,{}]<stdout>:",
    "[rank{}]: ",
    "[default{}]:",
    "{}: ",
    "2026-03-02T10:25:35Z [rank{}]: ",
    "[{}] ",
)
MEMBER = "  - loss: 0.5"
TOLD = "step 1: loss 2.5"  # beside which a bare number in front is a rank


def log_of(prefix, *lines):
    return "".join(f"{prefix.format(rank)}{text}\n" for rank, text in lines).encode()


def epochs(log):
    parser = Parser()
    records = [*parser.feed(log), *parser.finish()]
    return {record.rank: record.epoch for record in records if record.value == 0.5}


def words(rank, count):
    return [(rank, f"some words {number} about nothing") for number in range(count)]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("others", [1, 5, 100])
def test_lines_of_other_processes_part_no_number_from_its_heading(prefix, others):
    lines = [(2, TOLD), (0, "Epoch 3/5"), *words(1, others), *words(12, others), (0, MEMBER)]
    log = log_of(prefix, *lines)
    assert epochs(log) == {0: 3}
    reader.same(log)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_lines_of_its_own_process_part_a_number_from_its_heading(prefix):
    own = [line for number in range(20) for line in (*words(0, 1), *words(1, number % 3))]
    log = log_of(prefix, (2, TOLD), (0, "Epoch 3/5"), *own, (0, MEMBER))
    assert 0 not in epochs(log)
    reader.same(log)


def test_lines_without_a_prefix_are_nobody_elses():
    below = b"".join(b"some words about nothing\n" for _ in range(20))
    assert epochs(b"[rank0]: Epoch 3/5\n" + below + b"[rank0]: " + MEMBER.encode() + b"\n") == {}
    assert epochs(b"Epoch 3/5\n" + below + MEMBER.encode() + b"\n") == {}


def test_a_block_ends_after_many_lines_of_other_processes():
    lines = [(0, "Epoch 3/5"), *words(1, 5000), (0, MEMBER)]
    assert epochs(log_of("[rank{}]: ", *lines)) == {}
    reader.same(log_of("[rank{}]: ", *lines))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_block_may_begin_far_below_one_of_another_process(prefix):
    far = log_of(prefix, (2, TOLD), (0, "Epoch 2/5"), *[(0, "")] * 3000, (1, "Epoch 3/5"))
    below = log_of(prefix, *words(2, 30), (1, MEMBER), *[(2, "")] * 3000)
    assert [record.epoch for record in reader.parsed(far + below) if record.value == 0.5] == [3]
    reader.same(far + below, [len(far)])


TEXTS = (
    "Epoch {}/9",
    "Validation results:",
    MEMBER,
    "accuracy: 0.25",
    "val_loss: 0.25",
    "-" * 12,
    "",
    "words",
    TOLD,
)
turns = st.tuples(st.integers(0, 2), st.sampled_from(TEXTS), st.integers(1, 9))


@given(
    st.lists(turns, max_size=60),
    st.sampled_from([*PREFIXES, "mixed"]),
    reader.cut_places,
    st.integers(0, 1 << 16),
)
def test_no_cut_changes_what_belongs_to_a_heading(lines, prefix, cuts, seed):
    rng = random.Random(seed)
    log = b"".join(
        log_of(rng.choice([*PREFIXES, ""]) if prefix == "mixed" else prefix, (rank, text.format(number)))
        for rank, text, number in lines
        for _ in range(40 if text == "words" and number > 7 else 1)
    )
    reader.same(log, cuts)
