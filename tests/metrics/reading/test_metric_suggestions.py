"""Numbers that no format reads are noticed, and the option that is told for them reads them."""

from __future__ import annotations

import shlex

import pytest

from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading.metric_suggestions import MAX_SCAN_BYTES, LogStart, Suggestion
from batchai_magics.metrics.runs.log_metrics import read_log
from tests.metrics.program_samples import DECOYS, NAMES, PROGRAMS

LINES = {
    "after {i} rounds: {v:.2f} dB": ("rounds", True),
    "[1,0]<stdout>:after {i} rounds: {v:.2f} dB": ("rounds", True),
    "2024-01-01 12:00:0{i},123 INFO trainer: psnr {v:.3f} at {i}": ("psnr", True),
    "went to {v:.2f} at {i}": ("went", True),
    "psnr {v:.2f} dB (best 31.5) after {i}": ("psnr", True),
    "psnr {v:.2f}, {i} in all": ("psnr", False),
    "psnr {v:.2f} at {back}": ("psnr", False),
    "psnr: {v:.3f}": ("psnr", False),
    "lap {i}: f(x)= {v:.3f}": ("f", True),
    "time 0.5{i} lr 0.00{i} psnr {v:.3f}": ("psnr", False),
    "worker {i} (psnr={v:.2f}; n={i})": ("psnr", True),
    "Signal-to-noise is {v:.2f} [dB]": ("signal_to_noise", False),
    "MAX PSNR: {v:.2f}": ("psnr", False),
    "[{i}] psnr: {v:.3f}": ("psnr", False),
    "INFO 12:00:0{i},12{i} psnr {v:.3f}": ("psnr", False),
    "lap {back} psnr: {v:.3f}": ("psnr", False),
    "lap {half} psnr: {v:.3f}": ("psnr", False),
    "host {odd} round {i} psnr {v:.2f}": ("psnr", True),
    "{{'psnr': {v:.3f}}}": ("psnr", False),
    '{{"psnr": {v:.3f}, "n": {i}}}': ("psnr", False),
    "(Trainer pid={i}, ip=10.0.0.4) psnr {v:.3f}": ("psnr", False),
    "[pod/worker-0/pytorch] 2024-01-01T12:00:0{i}Z INFO psnr {v:.3f}": ("psnr", False),
    "lap of worker: psnr {v:.3f}": ("psnr", False),
    "gpu {odd} host {odd} round {i} psnr {v:.2f}": ("psnr", True),
    "Lap {i}: psnr {v:.2f}, took 1{i}.5s": ("psnr", True),
    "[10.0.0.{odd}/0{odd}] lap {i}, took 1{i}.5s: psnr {v:.2f}": ("psnr", True),
    "lap {i} gave psnr {v:.2f}. Total time 0.5 h": ("psnr", True),
    "measured 1,{i}06 widgets, psnr {v:.2f}": ("psnr", False),
}
NOTHING = [
    "2018-06-12 10:00:00.00000{i}: I tensorflow/core: x",
    "pid {i}: hello",
    "progress {i}/100",
    "{i} {v:.3f}",
    "always 3.5 of it",
    "file-{i}.{i}.txt",
    "total images/sec: {v:.2f}",
]


def lines(form: str) -> bytes:
    """Five lines: `i` rises, `v` is the measure, `back` falls, `half` rises now and then, `odd` changes."""
    return "".join(
        form.format(i=i, v=27.1 + i / 3, back=9 - i, half=i // 2, odd=i % 2) + "\n" for i in range(1, 6)
    ).encode()


def suggestion_for(*chunks: bytes) -> Suggestion | None:
    start = LogStart()
    for chunk in chunks:
        start.add(chunk)
    start.search()
    return start.suggestion


def is_noticed(*chunks: bytes) -> bool:
    return suggestion_for(*chunks) is not None


@pytest.mark.parametrize("form", LINES)
def test_suggested_option_reads_the_numbers(form):
    found = suggestion_for(lines(form))
    assert found
    _, option = shlex.split(found.option)
    name, _, regex = option.partition("=")
    records = Parser({name: regex}).feed(lines(form))
    wanted, has_step = LINES[form]
    assert [record.name for record in records] == [wanted] * 5
    assert [record.value for record in records] == [
        pytest.approx(27.1 + i / 3, abs=0.01) for i in range(1, 6)
    ]
    assert [record.step for record in records] == ([1, 2, 3, 4, 5] if has_step else [None] * 5)


@pytest.mark.parametrize("form", NOTHING)
def test_number_that_is_not_a_measure_is_not_suggested(form):
    assert not is_noticed(lines(form))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("drag", [False, False, True]), ("Epoch 7, drag", [False, True, True]), ("psnr", [False, True, True])],
)
def test_three_lines_are_a_series_and_two_of_a_word_of_training(name, wanted):
    lines = [f"{name}: 27.{number}\n".encode() for number in (1, 2, 3)]
    assert [is_noticed(b"".join(lines[:count])) for count in (1, 2, 3)] == wanted


def test_result_printed_once_after_training_is_noticed():
    log = b"Epoch 1 loss 0.5\nEpoch 2 loss 0.4\n2026-03-02 10:00:00,087 INFO Accuracy: 0.93\n"
    (notice,) = read_log(log, {}).notices
    assert shlex.split(notice[notice.index("--metric") :])[1] == r"accuracy=Accuracy: ([-+.\deE]+)"
    assert read_log(log, {"accuracy": r"Accuracy: ([-+.\deE]+)"}).notices == ()
    assert not read_log(log.replace(b"Accuracy: 0.93", b"momentum: 0.93"), {}).notices


@pytest.mark.parametrize("line", ["finished loss=0.5", "loss: 0.5", "[1,0]<stdout>:all done, loss = 0.5!"])
def test_a_quality_that_stands_alone_is_noticed_at_the_end_of_a_log(line):
    log = f"starting with lr=0.1, momentum: 0.9\n{line}".encode()
    (notice,) = read_log(log, {}).notices
    name, _, regex = shlex.split(notice[notice.index("--metric") :])[1].partition("=")
    (record,) = read_log(log, {name: regex}).records
    assert (record.name, record.value) == ("loss", 0.5)
    assert not is_noticed(log + b"\n")  # a series may begin with it
    assert not read_log(log + b"\ndone" * 5, {}).notices  # a setting


def test_a_line_where_the_search_of_a_long_log_ends_is_no_result():
    assert not read_log(b"...\n" * (MAX_SCAN_BYTES // 4 - 4) + b"saw a loss=0.5\n" + b"...\n" * 9, {}).notices


@pytest.mark.parametrize("line", ["lr=0.5", "took: 1.5 s", "loss_weight=0.5", "loss=mse", "5 losses"])
def test_a_number_that_stands_alone_and_is_no_quality_is_not_noticed(line):
    assert read_log(f"{line}\n".encode(), {}).notices == ()


PARTLY_READ = {
    "Epoch {i}: loss: {v:.3f}\nwithout noise a psnr of {v:.2f} was seen\n": ("psnr", None),
    "Epoch {i}: loss: {v:.3f}\nfold {i} of 5 has come to dice {v:.2f} in all\n": ("dice", "rising"),
    "Epoch {i}: loss: {v:.3f}\nПроход {i} дал reward {i}{i} за всё\n": ("reward", "rising"),
}


@pytest.mark.parametrize("form", PARTLY_READ)
def test_unread_numbers_beside_read_ones_are_noticed(form):
    log = "".join(form.format(i=i, v=1 / i) for i in range(1, 6)).encode()
    (notice,) = read_log(log, {}).notices
    _, option = shlex.split(notice[notice.index("--metric") :])
    name, _, regex = option.partition("=")
    wanted, has_step = PARTLY_READ[form]
    read = read_log(log, {name: regex})
    found = [record for record in read.records if record.name == wanted]
    assert len(found) == 5
    assert not has_step or [record.step for record in found] == [1, 2, 3, 4, 5]
    assert read.notices == ()


@pytest.mark.parametrize("size", [0, MAX_SCAN_BYTES], ids=["small", "large"])
def test_lines_read_by_a_user_pattern_are_not_noticed_as_unread(size):
    form = "Epoch {i}: loss: {v:.3f}\nwithout noise a psnr of {v:.2f} was seen\n"
    log = "".join(form.format(i=i, v=1 / i) for i in range(1, 6)).encode() + b"." * size + b"\n"
    own = {"quality": r"psnr of ([\d.]+)"}
    assert [len(read_log(log, patterns).notices) for patterns in ({}, own)] == [1, 0]


def test_the_files_of_a_log_are_searched_apart():
    start = LogStart()
    for line in lines("a psnr of {v:.3f} was seen").splitlines(keepends=True):
        start.add(b"\r1/2 [===>  ]", "stderr.txt")
        start.add(line, "stdout.txt")
    start.search()
    assert start.suggestion
    assert start.suggestion.line.startswith("a psnr of 2")


def test_a_log_that_grows_is_searched_again_when_it_has_doubled():
    start = LogStart()
    start.add(b"a psnr\n")
    start.search()
    start.add(b"of 1\n")
    assert not start.is_due
    start.add(lines("a psnr of {v:.3f} was seen"))
    assert start.is_due
    start.search()
    assert start.suggestion


def test_a_log_that_is_read_has_no_notice():
    paths = [*(PROGRAMS / f"{name}.log" for name in NAMES), DECOYS]
    noticed = {path.stem: read_log(path.read_bytes(), {}).notices for path in paths}
    del noticed["torchreid"]  # whose mAP is printed where no position is told
    del noticed["time_series_library"]  # as are its final errors
    assert {name: notices for name, notices in noticed.items() if notices} == {}


def test_a_number_before_its_name_is_suggested_by_that_name():
    found = read_log(lines("{v:.4f} loss, 0.000016 LR, 8.8 GB used"), {}).notices
    assert [notice.rpartition("reads them: ")[2] for notice in found] == [
        "--metric 'loss=([-+.\\deE]+) loss'"
    ]


def test_broken_text_is_no_measure():
    assert not is_noticed(lines("psnr {v:.3f}").replace(b"psnr", b"psnr\xff"))


@pytest.mark.parametrize(("size", "is_read"), [(300, True), (301, False)])
def test_a_line_is_a_line_of_300_bytes_at_most(size, is_read):
    assert is_noticed(lines("x" * (size - len("psnr: 27.100") - 1) + " psnr: {v:.3f}")) is is_read


@pytest.mark.parametrize(("others", "is_read"), [(63, True), (64, False)])
def test_64_shapes_of_lines_are_remembered(others, is_read):
    shapes = b"".join(b"%b 1\n" % (b"x" * number) for number in range(1, others + 1))
    assert is_noticed(shapes, lines("psnr: {v:.3f}")) is is_read


@pytest.mark.parametrize(("left", "is_read"), [(40, True), (20, False)])  # of lines with 13 bytes
def test_only_the_first_mebibyte_of_a_log_is_looked_through(left, is_read):
    assert is_noticed(b"." * (MAX_SCAN_BYTES - left - 1) + b"\n", lines("psnr: {v:.3f}")) is is_read


PREFIXES = [
    "",
    "[1,0]<stdout>:",
    "2024-01-01 12:00:01,123 INFO trainer: ",
    "(Trainer pid=7, ip=10.0.0.4) ",
    "[rank0]:",
    "3: ",
    "worker-1  | ",
    "some host ",
]


@pytest.mark.parametrize("form", ["after {i} rounds: {v:.2f} dB", "psnr: {v:.3f}", "at {i}, psnr is {v:.2f}"])
def test_the_option_reads_lines_behind_any_prefix(form):
    log = b"".join(b"[pod/worker-0/pytorch] " + line for line in lines(form).splitlines(keepends=True))
    found = suggestion_for(log)
    assert found
    name, _, regex = shlex.split(found.option)[1].partition("=")
    for prefix in PREFIXES:
        log = b"".join(prefix.encode() + line for line in lines(form).splitlines(keepends=True))
        assert len(Parser({name: regex}).feed(log)) == 5, prefix


@pytest.mark.parametrize(
    "lines", ['{{\n  "epoch": {0},\n  "train_loss": 0.{0}\n}}\n', "{{'epoch': {0},\n 'train_loss': 0.{0}}}\n"]
)
def test_an_object_of_training_over_several_lines_is_read_without_a_notice(lines):
    log = read_log("".join(map(lines.format, range(1, 4))).encode(), {})
    assert log.to_dict()["summary"]["metrics"][0]["last"] == 0.3
    assert not log.notices
