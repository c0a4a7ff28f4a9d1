"""What launchers and log collectors do to lines: their tags tell the rank, and lines find together again."""

import pytest

from batchai_magics.metrics import Fact, Measurement, Parser
from batchai_magics.metrics.reading.log_parser import read_table
from tests.metrics.log_text import HEADER, step, step_lines, total
from tests.metrics.reading.log_parts import grown
from tests.metrics.shapes import SHAPES, dressed

LINE = step(10)
TIME = "Sat Nov 21 00:19:42 2026"
STEPS = "".join(f"{step(number)}\n" for number in range(10, 60, 10))


def read(*texts, rank=None):
    parser = Parser()
    return [record for text in texts for record in parser.feed(text.encode(), rank)] + parser.finish()


def found(*texts, rank=None):
    return [(r.rank, r.step) for r in step_lines(read(*texts, rank=rank))]


def tagged(text, rank):
    return "".join(f"[1,{rank}]<stdout>:{line}\n" for line in text.splitlines())


def tells_rank(shape):
    return (
        any(
            tag in SHAPES[shape]
            for tag in ("[1,{rank}]", "[{rank}]", "@1,{rank}]", "mpirank:{rank}", "default{rank}")
        )
        or shape == "srun"
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_a_log_of_one_shape_is_read_to_its_end_with_its_ranks(shape):
    log = "".join(f"{dressed(shape, step(10 * n), rank=n % 4)}\n" for n in range(1, 200)).encode()
    records = [*read_table([log])]
    ranks = [n % 4 if tells_rank(shape) else None for n in range(1, 200)]
    steps = [(r.step, r.rank) for r in step_lines(records)]
    assert sorted(steps) == [(10 * n, rank) for n, rank in enumerate(ranks, 1)]
    assert repr(records) == repr(grown(log, "line"))


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if tells_rank(shape)])
def test_a_tag_tells_the_rank_of_a_header_and_a_total(shape):
    told = read(
        "".join(f"{dressed(shape, line)}\n" for line in [*HEADER.splitlines(), "total images/sec: 12.34"])
    )
    entries = {fact.key: fact.value for fact in told if isinstance(fact, Fact) and fact.rank == 3}
    assert (entries["model"], entries["batch_size_per_device"], len(entries)) == ("resnet50", "32", 16)


@pytest.mark.parametrize(
    "prefix",
    [
        f"{TIME}<stdout>:",
        "INFO|2019-02-13T23:06:31|/opt/launcher.py|27| ",
        "<p>",
        "node-1:20:24 [0] NCCL ",
        "# ",
    ],
)
def test_a_prefix_without_a_rank_leaves_it_unknown(prefix):
    assert found(f"{prefix}{step(1)}\n{prefix}{LINE}\n") == [(None, 1), (None, 10)]


@pytest.mark.parametrize(
    ("label", "is_rank"),
    [
        ("3: ", True), ("   3: ", True), ("[3] ", True), (" [123456] ", True), ("123456: ", True),
        ("3:", False), ("[3]: ", False), ("1234567: ", False), ("x3: ", False),
    ],
)  # fmt: skip
def test_number_in_front_is_a_rank_after_a_line_with_one_and_a_position(label, is_rank):
    text = f"Using 4 devices\n5: loss 0.75 acc 0.5\n{label}Epoch 2: loss 0.5\n6: loss 0.25 acc 0.6\n"
    assert [record.step for record in read(text) if record.name == "acc"] == ([5] if is_rank else [5, 6])


def test_a_tag_in_the_middle_switches_to_that_ranks_stream():
    text = f"[1,0]<stdout>:3180[1,1]<stdout>:10[1,0]<stdout>:{step(1)[1:]}[1,1]<stdout>:{LINE[2:]}\n"
    assert found(f"{text}[1,0]<stdout>:\n") == [(1, 10), (0, 3180)]


def test_a_blank_that_belongs_to_the_text_is_kept():
    cut = LINE.index(" +/-")
    assert found(f"[1,0]<stdout>:{LINE[:cut]}[1,0]<stdout>:{LINE[cut:]}\n") == [(0, 10)]


def test_a_time_before_a_tag_in_the_middle_belongs_to_the_tag():
    text = f"{TIME}[1,0]<stdout>:{step(10)}{TIME}[1,1]<stdout>:{step(20)}{TIME}[1,0]<stdout>:\n"
    assert found(f"{text}{TIME}[1,1]<stdout>:\n") == [(0, 10), (1, 20)]


def test_stdout_and_stderr_of_a_rank_are_two_streams():
    text = f"[1,0]<stdout>:{LINE[:9]}[1,0]<stderr>:W0701 careful\n[1,0]<stdout>:{LINE[9:]}\n"
    assert found(text) == [(0, 10)]


BLOCKS = {
    "text": "hello\n",
    "steps and a total": f"{STEPS}{total(12.34)}\n{STEPS}",
    "steps and a glued one": f"{STEPS}hello {step(20)}\n{STEPS}",
    "another program": "step=1 loss=0.5\n",
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_untagged_text_belongs_to_the_last_tag_before_it(block):
    assert found(tagged(block, 4) + tagged("hello", 5), f"{LINE}\n")[-1] == (5, 10)
    assert found(tagged("hello", 5) + tagged(block, 4) + f"{LINE}\n")[-1] == (4, 10)


def test_text_that_looks_like_a_tag_does_not_hide_a_tag_after_it():
    assert found(f"see <stdout>: for more\n{LINE}\n") == [(None, 10)]
    assert found(f"[1,0]<stdout>:see <stdout>: or [1,1]<stdout>:{LINE}\n[1,0]<stdout>:\n") == [(1, 10)]


def test_a_rank_of_too_many_digits_is_none():
    log = "".join(f"[1,{10**width}]<stdout>:{LINE}\n[{10**width}]<stdout>:{LINE}\n" for width in range(9))
    assert max(rank or 0 for rank, _ in found(log)) == 100_000


def test_ranks_fed_in_turn_have_their_own_unfinished_lines():
    parser = Parser()
    parser.feed(LINE[:8].encode(), 0)
    parser.feed(step(20)[:12].encode(), 1)
    records = parser.feed(LINE[8:].encode() + b"\n", 0) + parser.feed(step(20)[12:].encode() + b"\n", 1)
    assert [(r.rank, r.step, r.offset) for r in step_lines(records)] == [
        (0, 10, len(LINE) + 1),
        (1, 20, len(LINE) + 1),
    ]


def test_every_ranks_text_comes_back_whole_from_chunks_cut_anywhere():
    texts = {rank: "".join(step(n, rank + 10) + "\n" for n in range(10, 600, 10)) for rank in range(4)}
    pieces = [(r, texts[r][i : i + 97]) for i in range(0, len(texts[0]), 97) for r in texts]
    records = read("".join(f"[1,{rank}]<stdout>:{piece}" for rank, piece in pieces))
    series = {r: [x.step for x in step_lines(records) if x.rank == r] for r in texts}
    assert series == {rank: list(range(10, 600, 10)) for rank in range(4)}
    assert not [r for r in records if isinstance(r, Fact)]


def test_rank_of_a_tag_takes_precedence_over_the_callers():
    text = f"{step(1)}\n[1,3]<stdout>:{LINE}\n[1,2]<stdout>:{step(20)}\n{TIME}<stdout>:{step(30)}\n"
    assert found(text, rank=7) == [(7, 1), (3, 10), (2, 20), (7, 30)]
    in_pieces = (
        f"{TIME}<stdout>:{step(10)}{TIME}[1,1]<stdout>:{step(20)}{TIME}<stdout>:\n{TIME}[1,1]<stdout>:\n"
    )
    assert found(in_pieces, rank=7) == [(7, 10), (1, 20)]


def test_lines_that_nothing_ends_come_in_the_order_of_their_ranks():
    ended = "".join(f"[1,{rank}]<stdout>:{LINE}\n" for rank in (9, 1, 5))
    unended = "".join(f"[1,{rank}]<stdout>:{step(20 + rank)}[1,0]<stdout>:\n" for rank in (5, 9, 1))
    assert [number for _, number in found(ended + unended)] == [10, 10, 10, 21, 25, 29]
    assert found(f"{step(30)}[1,0]<stdout>:{step(20)}") == [(None, 30), (0, 20)]


def test_a_coloured_line_ends_where_its_bytes_end():
    tagged, coloured = "[1,2]<stdout>:step=1 loss=0.5\n", "\x1b[33mstep=2 loss=0.5\x1b[0m\n"
    assert [record.offset for record in read(tagged + coloured)] == [len(tagged), len(tagged + coloured)]


@pytest.mark.parametrize("text", ["", "hello world ", "version 1.8"])
def test_lines_around_one_of_the_header_have_the_ranks_of_their_tags(text):
    around = f"[1,0]<stdout>:{text}{step(20)}\n"
    optimizer = "[1,1]<stdout>:Optimizer:   adam\n"
    assert found(HEADER, f"{around}{optimizer}{around}{LINE}\n") == [(0, 20), (0, 20), (0, 10)]


def test_a_row_that_nothing_ended_and_a_number_without_a_table_are_no_rows():
    table = "epoch        main/loss   main/accuracy\n1            0.5         0.25\n"
    log = tagged(table, 0) + tagged("5", 1) + tagged("2            0.25        0.5", 0)
    rows = [
        (each.rank, each.value)
        for each in read(log + "3            0.1        0.75")
        if isinstance(each, Measurement)
    ]
    assert rows == [(0, 0.5), (0, 0.25), (0, 0.25), (0, 0.5)]


def test_a_line_that_a_launcher_tags_twice_is_read_whole_although_only_tagged_lines_follow():
    parser = Parser()
    records = parser.feed(f"[1,0]<stdout>:{LINE[:9]}[1,1]<stdout>:{LINE}\n".encode())
    records += parser.feed(f"[1,0]<stdout>:{LINE[9:]}\n[1,1]<stdout>:{LINE}\n".encode())
    assert [record.rank for record in step_lines(records)] == [1, 0, 1]


def test_a_finished_parser_knows_neither_ranks_nor_offsets_nor_a_line_that_was_begun():
    parser = Parser()
    parser.feed(f"[1,3]<stdout>:{LINE}\n[1,3]<stdout>:{LINE[:9]}".encode())
    parser.finish()
    assert parser.feed(f"{LINE[9:]}\n".encode()) == []
    (record,) = step_lines(parser.feed(f"{LINE}\n".encode()))
    assert (record.rank, record.offset) == (None, len(LINE[9:]) + len(LINE) + 2)


def test_redraws_that_repeat_the_last_one_in_another_form_are_read_once():
    def drawn(rank, number):
        picture = "#" * (number % 7)
        return f"{number}%|{picture:7}| {number}/100 [00:01<00:09, 9.00it/s, loss={rank}.{number}]"

    lines = [  # each begins with the redraw that ended the one before
        f"[rank{rank}]:\r" + "\r".join(drawn(rank, number) for number in range(first, first + 6))
        for first in range(10, 90, 5)
        for rank in (2, 0, 1)
    ]
    records = [record for record in read("\n".join(lines) + "\n") if isinstance(record, Measurement)]
    for rank in range(3):
        series = [(record.step, record.value) for record in records if record.rank == rank]
        assert series == [(number, float(f"{rank}.{number}")) for number in range(10, 91)]
