import pytest

from batchai_magics.metrics import Fact, Parser
from tests.metrics.log_text import HEADER, step, step_lines

LINE = step(10)
ISO = "2019-03-02T10:25:35"


def read(text, rank=None):
    parser = Parser()
    return parser.feed(text.encode(), rank) + parser.finish()


def found(text, rank=None):
    return [(r.rank, r.step) for r in step_lines(read(text, rank))]


TAGGED = {
    "Open MPI 4": f"[1,3]<stdout>:{LINE}",
    "Open MPI 4 stderr": f"[1,3]<stderr>:{LINE}",
    "Open MPI 4 diagnostics": f"[1,3]<stddiag>:{LINE}",
    "Open MPI 4 with time": f"Sat Nov 21 00:19:42 2026[1,3]<stdout>:{LINE}",
    "Open MPI 4 on the 1st": f"Sun Nov  1 00:19:42 2026[1,3]<stdout>:{LINE}",
    "Open MPI 5 tag": f"[1,3]<stdout>: {LINE}",
    "Open MPI 5 rank": f"[3]<stdout>: {LINE}",
    "Open MPI 5 detailed": f"[1,3][node-1:4711]<stdout>: {LINE}",
    "Open MPI 5 with time": f"[Sat Nov 21 00:22:08 2026][1,3]<stdout>: {LINE}",
    "prterun": f"[prterun-node-100629@1,3]<stdout>: {LINE}",
    "Gloo": f"[3]<stdout>:{LINE}",
    "Gloo with time": f"Sat Nov 21 00:54:29 2026[3]<stdout>:{LINE}",
    "MPICH, Intel MPI": f"[3] {LINE}",
    "SageMaker": f"[1,mpirank:3,algo-1]<stdout>:{LINE}",
    "Airflow": f"[2021-05-14 19:43:45,087] {{bash.py:173}} INFO - [1,3]<stdout>:{LINE}",
    "kubectl": f"{ISO}.03856711Z [1,3]<stdout>:{LINE}\r",
    "srun": f"3: {LINE}",
    "torchrun": f"[default3]:{LINE}",
}


@pytest.mark.parametrize("line", TAGGED.values(), ids=TAGGED)
def test_the_tag_tells_the_rank(line):
    assert found(f"{line}\n") == [(3, 10)]


@pytest.mark.parametrize("line", TAGGED.values(), ids=TAGGED)
def test_the_tag_tells_the_rank_of_a_header(line):
    text = "".join(line.replace(LINE, entry) + "\n" for entry in HEADER.splitlines())
    entries = {r.key: r.value for r in read(text) if isinstance(r, Fact) and r.rank == 3}
    assert (entries["model"], entries["batch_size_per_device"], len(entries)) == ("resnet50", "32", 15)


@pytest.mark.parametrize("line", TAGGED.values(), ids=TAGGED)
def test_the_tag_tells_the_rank_of_a_total(line):
    assert read(line.replace(LINE, "total images/sec: 12.34") + "\n")[0].rank == 3


@pytest.mark.parametrize(
    "prefix",
    [
        "Sat Nov 21 00:19:42 2026<stdout>:",
        "INFO|2019-02-13T23:06:31|/opt/launcher.py|27| ",
        f"{ISO}.03856711Z ",
        f"{ISO}Z ",
        "# ",
        "> ",
        "   \t",
        "svc-1  | ",
        "[pod/trainer-0/main] ",
        "<p>",
        "node-1:20:24 [0] NCCL ",
    ],
)
def test_a_prefix_without_a_rank_leaves_it_unknown(prefix):
    assert found(f"{prefix}{step(1)}\n{prefix}{LINE}\n") == [(None, 1), (None, 10)]


def test_a_tag_may_stand_at_the_end_of_a_line():
    assert found(f"[1,2]<stdout>:{LINE}[1,2]<stdout>:\n") == [(2, 10)]


def test_a_tag_in_the_middle_switches_to_that_ranks_stream():
    text = (
        "[1,0]<stdout>:3180[1,1]<stdout>:10[1,0]<stdout>:" + step(1)[1:] + "[1,1]<stdout>:" + LINE[2:] + "\n"
    )
    assert found(text + "[1,0]<stdout>:\n") == [(1, 10), (0, 3180)]


def test_a_blank_that_belongs_to_the_text_is_kept():
    cut = LINE.index(" +/-")
    assert found(f"[1,0]<stdout>:{LINE[:cut]}[1,0]<stdout>:{LINE[cut:]}\n") == [(0, 10)]


def test_a_time_before_a_tag_in_the_middle_belongs_to_the_tag():
    time = "Sat Nov 21 00:19:42 2026"
    text = f"{time}[1,0]<stdout>:{step(10)}{time}[1,1]<stdout>:{step(20)}{time}[1,0]<stdout>:\n"
    assert found(f"{text}{time}[1,1]<stdout>:\n") == [(0, 10), (1, 20)]


def test_stdout_and_stderr_of_a_rank_are_two_streams():
    text = f"[1,0]<stdout>:{LINE[:9]}[1,0]<stderr>:W0701 careful\n[1,0]<stdout>:{LINE[9:]}\n"
    assert found(text) == [(0, 10)]


def test_an_untagged_line_stays_in_the_current_stream():
    assert found(f"[1,5]<stdout>:{step(1)}\n{step(10)}\n") == [(5, 1), (5, 10)]


def test_a_stream_name_in_a_text_is_no_tag():
    assert found(f"see <stdout>: for more\n{LINE}\n") == [(None, 10)]


def test_gloo_splits_windows_line_ends():
    assert found(f"[0]<stdout>:{LINE}\r[0]<stdout>:\n") == [(0, 10)]


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


def test_even_and_broken_tagging_give_the_same():
    even = "".join(
        f"[1,{n % 4}]<stdout>:{step(n)}{step(n + 1)}\n[1,{n % 4}]<stdout>:\n" for n in range(1, 50)
    )
    broken = f"{even}[1,0]<stdout>:[1,1]<stdout>:\n[1,0]<stdout>:\n"
    assert found(even) == found(broken) == [(n % 4, m) for n in range(1, 50) for m in (n, n + 1)]


def test_a_tag_tells_more_than_the_caller_who_knows_the_launcher_as_one_process():
    text = f"{step(1)}\n[1,3]<stdout>:{LINE}\n[1,2]<stdout>:{step(20)}\n"
    text += f"Sat Nov 21 00:19:42 2026<stdout>:{step(30)}\n"
    assert found(text, rank=7) == [(7, 1), (3, 10), (2, 20), (7, 30)]


def test_a_line_in_pieces_whose_tags_tell_no_rank_is_the_callers():
    tag = "Sat Nov 21 00:19:42 2026<stdout>:"
    assert found(f"{tag}{LINE}[1,3]<stdout>:x\n{tag}\n", rank=7) == [(7, 10)]


def test_lines_that_nothing_ends_come_without_a_rank_first():
    assert found(f"{step(30)}[1,0]<stdout>:{step(20)}[1,1]<stdout>:{step(10)}") == [
        (None, 30),
        (0, 20),
        (1, 10),
    ]


def test_a_tag_that_tells_no_rank_leaves_that_of_the_caller():
    time = "Sat Nov 21 00:19:42 2026"
    text = f"{time}<stdout>:{step(10)}{time}[1,1]<stdout>:{step(20)}{time}<stdout>:\n{time}[1,1]<stdout>:\n"
    assert found(text, rank=7) == [(7, 10), (1, 20)]
    assert found(f"{time}<stdout>:{step(10)}\n{step(20)}\n", rank=7) == [(7, 10), (7, 20)]


def test_what_looks_like_a_tag_hides_no_tag_behind_it():
    assert found(f"[1,0]<stdout>:see <stdout>: or [1,1]<stdout>:{LINE}\n[1,0]<stdout>:\n") == [(1, 10)]
