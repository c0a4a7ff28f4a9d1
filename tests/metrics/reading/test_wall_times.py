"""When a record was printed: by its line's stamp, by the launcher's tag, or as the caller knows."""

from datetime import datetime, timezone

import pytest

from batchai_magics.metrics import Fact, Parser
from batchai_magics.metrics.measurement import TOTAL, lines_of
from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES
from batchai_magics.metrics.timestamps import WriteTimes
from tests.metrics.log_text import run, step

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


WHOLE_SECONDS = {
    "Open MPI 4": f"Sat Mar  2 10:25:35 2019[1,3]<stdout>:{LINE}",
    "Open MPI 5": f"[Sat Mar  2 10:25:35 2019][1,3]<stdout>: {LINE}",
    "Open MPI without a rank": f"Sat Mar  2 10:25:35 2019<stdout>:{LINE}",
    "Open MPI before a total": "Sat Mar  2 10:25:35 2019[1,3]<stdout>:total images/sec: 12.34",
    "Open MPI before an evaluation": "Sat Mar  2 10:25:35 2019[1,3]<stdout>:10\t123.4 examples/sec",
    "Kubeflow": f"INFO|2019-03-02T10:25:35|/opt/launcher.py|27| {LINE}",
    "CNTK": "03/02/2019 10:25:35:  Epoch[ 1 of 3]-Minibatch[   1- 100]: ce = 1.2 * 6400;"
    " time = 0.1s; samplesPerSecond = 51863.9",
    "glog with a year": "I20190302 10:25:35.000000   551 solver.cpp:218] Iteration 100, loss = 0.22",
}


@pytest.mark.parametrize("line", [*STAMPED.values(), *WHOLE_SECONDS.values()], ids=[*STAMPED, *WHOLE_SECONDS])
def test_a_line_tells_its_time_and_the_caller_knows_better_where_it_names_no_zone(line):
    told = T + 0.25 * (line in STAMPED.values())
    assert set(times(f"{line}\n")) == {told}
    if line in WHOLE_SECONDS.values() or line == STAMPED["kubectl"]:
        known = told if line == STAMPED["kubectl"] else T + 7
        assert set(times(f"{line}\n{LINE}\n", clock=WriteTimes([0], [T + 7]))) == {known, T + 7}


MOMENTS = {
    **{f"{T}": T, f"{T:.0f}": T, f"{T * 1e3:.0f}": T, f"{T * 1e6:.0f}": T, f"{T * 1e9:.0f}": T},
    **{f'"{T}"': T, f'"{T * 1000:.0f}"': T, '"2019-03-02T10:25:35+00:00"': T, '"2019-03-02T10:25:35"': T},
    **{"100000000": 1e8, "100000000000": 1e8, "8900000000": 8.9e9, "9000000000": None, "50000000000": None},
    **{"12.3": None, '"12.3"': None, f"{-T}": None, "true": None, "null": None, "NaN": None, f"[{T}]": None},
    '"yesterday at about a quarter past ten"': None,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_time_in_json_is_in_seconds_or_fractions_since_1970(moment):
    (time,) = times(f'{{"step": 1, "loss": 0.5, "time": {moment}}}\n')
    assert time == (None if MOMENTS[moment] is None else pytest.approx(MOMENTS[moment]))


NO_DAYS = (
    "2019-13-02T10:25:35",
    "2019-02-30 10:25:35",
    "0000-01-01 00:00:00",
    "9999-12-31 23:59:59",
    "1066-10-14 09:00:00",
)


@pytest.mark.parametrize("form", ["{} INFO {}", "{} {}", "[{},000] {{bash.py:1}} INFO - {}"])
def test_times_of_many_lines_equal_those_of_single_lines_and_invalid_dates_are_none(form):
    days = [
        "2026-03-02 10:05:07",
        "2026-12-02 10:05:59",
        *NO_DAYS,
        "2255-03-14 15:59:59",
        "2255-03-14 16:00:00",
    ]
    lines = [f"{form.format(day, LINE)}\n" for day in days]
    each = [time for line in lines for time in times(line)]
    assert times("".join(lines)) == each
    assert [time and time - 1772445907 for time in each[:2]] == [0, 23_760_052]
    assert each[2:] == [None] * 5 + [9e9 - 1, None]  # no time is later than pandas can hold


def test_each_line_has_the_time_at_which_the_byte_before_its_end_was_written():
    log = f"\x1b[33m{step(1)}\x1b[0m\n{step(10)}\nx" * 2000
    assert len(log) > 2 * MAX_LINE_BYTES
    ends = [record.offset for record in read(log)]
    clock = WriteTimes([end - 2 for end in ends], [T + end for end in ends])
    assert [record.wall_time for record in read(log, clock=clock)] == [T + end for end in ends]


def test_lines_without_a_time_have_none():
    assert times(run(ranks=2)) == [None] * len(times(run(ranks=2)))


@pytest.mark.parametrize("accuracies", ["", "\t0.125\t0.500"])
def test_a_time_that_a_wrapper_appends_is_taken(accuracies):
    line = step(10, accuracies=accuracies)
    assert times(f"{line} {T:.0f}\n{line} {T + 0.25}\n{line} 17\n{line} {T:.0f}") == [T, T + 0.25, None, T]


def test_glued_records_have_the_time_of_their_line():
    assert times(f"2019-03-02T10:25:35Z {LINE}{step(20)}\n{step(30)}{step(40)}\n") == [T, T, None, None]


def test_a_tags_time_is_that_of_the_line_it_ends():
    text = f"Sat Mar  2 10:25:30 2019[1,0]<stdout>:{LINE}Sat Mar  2 10:25:35 2019[1,0]<stdout>:\n{step(20)}\n"
    assert times(text) == [T, None]


def test_a_stamp_before_a_tag_is_that_of_its_own_line():
    stamps = [f"2019-03-02T10:25:3{second}Z" for second in (5, 6, 7)]
    log = "".join(f"{stamp} [1,{place % 2}]<stdout>:{LINE}\n" for place, stamp in enumerate(stamps))
    assert times(log) == [T, T + 1, T + 2]


class TestGlog:
    LINE = "I{} 10:25:35.000000   551 solver.cpp:218] Iteration 100, loss = 0.22\n"

    def test_unknown_year_is_not_guessed(self):
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


@pytest.mark.parametrize("last", [LINE, "10\t123.4 examples/sec", "48/48 - 1s - loss: 0.7414", "version 3"])
def test_the_caller_is_asked_for_the_time_of_a_line_as_it_stands_in_the_file(last):
    first, second = f"\x1b[33m{LINE}\x1b[0m\n", f"\x1b[33m{last}\x1b[0m\n"
    found = read(first + second, clock=WriteTimes([0, len(first)], [T, T + 5]))
    assert {record.offset: record.wall_time for record in found} == {
        len(first): T,
        len(first + second): T + 5,
    }


def test_an_offset_may_be_told_where_processes_share_a_file():
    parser = Parser()
    parser.feed(LINE[:7].encode(), 0, offset=100)
    (line,) = lines_of(parser.feed(f"{LINE[7:]}\n".encode(), 0, offset=500))
    assert line[0].offset == 500 + len(LINE) - 7 + 1
