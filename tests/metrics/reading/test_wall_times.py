"""When a record was printed: by its line's stamp, by the launcher's tag, or as the caller knows."""

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Fact, Parser, tidy
from batchai_magics.metrics.measurement import TOTAL, lines_of
from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES
from batchai_magics.metrics.reading.timestamps import WriteTimes, json_timestamp, parse_timestamp
from tests.metrics.log_text import run, step, total

T = datetime(2019, 3, 2, 10, 25, 35, tzinfo=timezone.utc).timestamp()
LINE = step(10)


def read(text, **told):
    parser = Parser({"version": r"version (\d+)"})
    return parser.feed(text.encode(), **told) + parser.finish()


def times(text, **told):
    """The times of lines with measurements, and of totals: of a header, nobody asks."""
    records = read(text, **told)
    totals = [each.wall_time for each in records if isinstance(each, Fact) and each.key == TOTAL]
    return [line[0].wall_time for line in lines_of(records)] + totals


STAMPED = {
    "kubectl": f"2019-03-02T10:25:35.25Z {LINE}",
    "kubectl far from UTC": f"2019-03-02T15:55:35.25+05:30 {LINE}",
    "kubectl west of UTC": f"2019-03-02T02:25:35.25-08:00 {LINE}",
    "kubectl half around the world": f"2019-03-02T23:10:35.25+12:45 {LINE}",
    "kubectl before a tag": f"2019-03-02T10:25:35.25000000Z [1,3]<stdout>:{LINE}",
    "docker compose": f"svc-1  | 2019-03-02T10:25:35.25Z {LINE}",
    "behind a tag": f"[1,3]<stdout>:2019-03-02T10:25:35.25Z {LINE}",
    "Airflow": f"[2019-03-02 10:25:35,250] {{bash.py:173}} INFO - {LINE}",
    "DLLogger": "DLL 2019-03-02 10:25:35.250000 - Epoch: 0 Iteration: 10  train.loss : 6.9 None",
    "DLLogger JSON": f'DLLL {{"timestamp": "{T + 0.25}", "type": "LOG", "step": [0, 1], "data": {{"x": 1}}}}',
    "MLPerf": f':::MLPv0.5.0 resnet {T + 0.25} (run.py:1) eval_accuracy: {{"epoch": 1, "value": 0.1}}',
    "MLPerf in ms": f':::MLL {{"time_ms": {T * 1000 + 250:.0f}, "key": "eval_accuracy", "value": 0.7}}',
    "JSON": f'{{"step": 1, "loss": 0.5, "time": {T + 0.25}}}',
    "metric.log": '{"name": "x", "value": 1, "global_step": 7, "timestamp": "2019-03-02T10:25:35.250000Z"}',
    "pairs": f"step=1 loss=0.5 ts={T + 0.25}",
    "mnist_replica": f"{T + 0.25:f}: Worker 0: training step 1 done (global step: 10)",
    "total": "2019-03-02T10:25:35.25Z total images/sec: 12.34",
    "evaluation": "2019-03-02T10:25:35.25Z 10\t123.4 examples/sec",
    "accuracies": "2019-03-02T10:25:35.25Z Accuracy @ 1 = 0.1234 Accuracy @ 5 = 0.5678 [500 examples]",
    "Keras": "2019-03-02T10:25:35.25Z 48/48 - 1s - loss: 0.7414",
    "user's own": "2019-03-02T10:25:35.25Z version 3",
}


@pytest.mark.parametrize("line", STAMPED.values(), ids=STAMPED)
def test_a_line_tells_its_time(line):
    assert set(times(f"{line}\n")) == {T + 0.25}


WHOLE_SECONDS = {
    "Open MPI 4": f"Sat Mar  2 10:25:35 2019[1,3]<stdout>:{LINE}",
    "Open MPI 5": f"[Sat Mar  2 10:25:35 2019][1,3]<stdout>: {LINE}",
    "Open MPI without a rank": f"Sat Mar  2 10:25:35 2019<stdout>:{LINE}",
    "Kubeflow": f"INFO|2019-03-02T10:25:35|/opt/launcher.py|27| {LINE}",
    "CNTK": "03/02/2019 10:25:35:  Epoch[ 1 of 3]-Minibatch[   1- 100]: ce = 1.2 * 6400;"
    " time = 0.1s; samplesPerSecond = 51863.9",
    "glog with a year": "I20190302 10:25:35.000000   551 solver.cpp:218] Iteration 100, loss = 0.22",
}


@pytest.mark.parametrize("line", WHOLE_SECONDS.values(), ids=WHOLE_SECONDS)
def test_a_stamp_without_a_zone_is_taken_as_utc(line):
    assert set(times(f"{line}\n")) == {T}


@pytest.mark.parametrize("line", WHOLE_SECONDS.values(), ids=WHOLE_SECONDS)
def test_what_the_caller_knows_is_better_than_a_stamp_without_a_zone(line):
    assert set(times(f"{line}\n", clock=WriteTimes([0], [T + 7]))) == {T + 7}


def test_a_stamp_with_a_zone_is_better_than_what_the_caller_knows():
    assert times(f"{STAMPED['kubectl']}\n{LINE}\n", clock=WriteTimes([0], [T + 7])) == [T + 0.25, T + 7]


def test_lines_without_a_time_have_none():
    assert times(run(ranks=2)) == [None] * len(times(run(ranks=2)))


@pytest.mark.parametrize("accuracies", ["", "\t0.125\t0.500"])
def test_a_time_that_a_wrapper_appends_is_taken(accuracies):
    line = step(10, accuracies=accuracies)
    assert times(f"{line} {T:.0f}\n{line} {T + 0.25}\n{line} 17\n{line} {T:.0f}") == [T, T + 0.25, None, None]


def test_glued_records_have_the_time_of_their_line():
    assert times(f"2019-03-02T10:25:35Z {LINE}{step(20)}\n{step(30)}{step(40)}\n") == [T, T, None, None]


def test_a_tags_time_is_that_of_the_line_it_ends():
    text = f"Sat Mar  2 10:25:30 2019[1,0]<stdout>:{LINE}Sat Mar  2 10:25:35 2019[1,0]<stdout>:\n{step(20)}\n"
    assert times(text) == [T, None]


def test_a_tag_without_a_time_leaves_the_line_that_of_the_tag_before():
    assert times(f"Sat Mar  2 10:25:35 2019[1,0]<stdout>:{LINE}[1,0]<stdout>:\n") == [T]


def test_a_stamp_before_a_tag_is_that_of_its_own_line():
    stamps = [f"2019-03-02T10:25:3{second}Z" for second in (5, 6, 7)]
    log = "".join(f"{stamp} [1,{place % 2}]<stdout>:{LINE}\n" for place, stamp in enumerate(stamps))
    assert times(log) == [T, T + 1, T + 2]


class TestGlog:
    LINE = "I{} 10:25:35.000000   551 solver.cpp:218] Iteration 100, loss = 0.22\n"

    def test_a_year_that_nothing_tells_is_not_guessed(self):
        assert times(self.LINE.format("0302")) == [None]

    def test_the_files_first_line_tells_it(self):
        text = "Log file created at: 2018/12/31 23:59:58\n"
        days = "".join(self.LINE.format(day) for day in ("1231", "0101", "1231", "0302"))
        found = [datetime.fromtimestamp(time, timezone.utc) for time in times(text + days)]
        assert [(time.year, time.month) for time in found] == [(2018, 12), (2019, 1), (2018, 12), (2019, 3)]

    @pytest.mark.parametrize(
        ("created", "month", "year"), [(1, 7, 2018), (1, 8, 2017), (7, 1, 2018), (8, 1, 2019)]
    )
    def test_a_line_is_of_the_year_in_which_it_is_nearest_to_the_line_before(self, created, month, year):
        text = f"Log file created at: 2018/{created:02}/15 23:59:58\n{self.LINE.format(f'{month:02}15')}"
        (time,) = times(text)
        assert datetime.fromtimestamp(time, timezone.utc).year == year


@given(st.text(alphabet="0123456789-:/TZ+. JanFebSat[]<>stdou,\n", max_size=200))
def test_no_text_raises(text):
    parse_timestamp(text.encode())
    json_timestamp(text)
    read(f"{text}{LINE}\n{text}<stdout>:{LINE}\n")


def test_every_block_of_what_came_at_once_has_the_callers_times():
    log = f"\x1b[33m{LINE}\x1b[0m\n" * 3000
    assert len(log) > 2 * MAX_LINE_BYTES
    assert set(times(log, clock=WriteTimes([0], [T]))) == {T}


@pytest.mark.parametrize("last", [LINE, "10\t123.4 examples/sec", "48/48 - 1s - loss: 0.7414", "version 3"])
def test_the_caller_is_asked_for_the_time_of_a_line_as_it_stands_in_the_file(last):
    first, second = f"\x1b[33m{LINE}\x1b[0m\n", f"\x1b[33m{last}\x1b[0m\n"
    found = read(first + second, clock=WriteTimes([0, len(first)], [T, T + 5]))
    assert {record.offset: record.wall_time for record in found} == {
        len(first): T,
        len(first + second): T + 5,
    }


def test_the_tidy_table_has_the_times():
    found = tidy(read(f"{STAMPED['kubectl']}\n{LINE}\n"))
    assert found["wall_time"].iloc[0].isoformat() == "2019-03-02T10:25:35.250000+00:00"
    assert found["wall_time"].isna().tolist() == [False] * 4 + [True] * 4


def test_an_offset_may_be_told_where_processes_share_a_file():
    parser = Parser()
    parser.feed(LINE[:7].encode(), 0, offset=100)
    (line,) = lines_of(parser.feed(f"{LINE[7:]}\n".encode(), 0, offset=500))
    assert line[0].offset == 500 + len(LINE) - 7 + 1


LINES = [
    LINE,
    step(20, accuracies="\t0.125\t0.500"),
    "48/48 - 1s - loss: 0.7414",
    "noise",
    "version 3",
    total(5),
]
PREFIXES = ["", "[1,3]<stdout>:", "2019-03-02T10:25:35Z ", "Sat Mar  2 10:25:35 2019[1,1]<stdout>:"]


@given(
    st.lists(st.tuples(st.sampled_from(PREFIXES), st.sampled_from(LINES), st.sampled_from(["\n", "\n", ""]))),
    st.lists(st.integers(1, 900), max_size=9),
    st.integers(1, 400),
)
def test_any_chunking_gives_the_times_of_one_chunk(parts, starts, size):
    log = "".join(map("".join, parts)).encode()
    clock = WriteTimes(sorted(starts), [T + number for number in range(len(starts))])

    def records(size):
        parser = Parser({"version": r"version (\d+)"})
        found = [r for at in range(0, len(log), size) for r in parser.feed(log[at : at + size], clock=clock)]
        return repr(found + parser.finish())

    assert records(size) == records(len(log) + 1)


@given(st.lists(st.lists(st.integers(0, 59), max_size=6), min_size=1, max_size=3), st.randoms())
def test_any_interleaving_of_whole_lines_keeps_each_ranks_times(series, random):
    order = [rank for rank, seconds in enumerate(series) for _ in seconds]
    random.shuffle(order)
    rest = [iter(seconds) for seconds in series]
    log = "".join(
        f"Sat Mar  2 10:25:{next(rest[rank]):02d} 2019[1,{rank}]<stdout>:{LINE}\n" for rank in order
    )
    lines = [line[0] for line in lines_of(Parser().feed(log.encode()))]
    for rank, seconds in enumerate(series):
        assert [r.wall_time for r in lines if r.rank == rank] == [T - 35 + second for second in seconds]


def test_each_line_has_the_time_at_which_its_end_was_written():
    log = f"{step(1)}\n{step(10)}\nx".encode() * 9
    ends = [record.offset for record in Parser().feed(log)]
    clock = WriteTimes([end - 1 for end in ends], [T + end for end in ends])
    assert [record.wall_time for record in Parser().feed(log, clock=clock)] == [T + end for end in ends]
