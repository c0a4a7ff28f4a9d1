"""Numbers that no format reads are noticed, and the option that is told for them reads them."""

from __future__ import annotations

import shlex

import pytest

from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading.metric_suggestions import MAX_SCAN_BYTES, MetricSuggester

LINES = {
    "after {i} rounds: {v:.2f} dB": ("rounds", True),
    "[1,0]<stdout>:after {i} rounds: {v:.2f} dB": ("rounds", True),
    "2024-01-01 12:00:0{i},123 INFO trainer: psnr {v:.3f} at {i}": ("psnr", False),
    "psnr: {v:.3f}": ("psnr", False),
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
    "measured 1,{i}06 widgets, psnr {v:.2f}": ("psnr", False),
}
NOTHING = [
    "2018-06-12 10:00:00.00000{i}: I tensorflow/core: x",
    "pid {i}: hello",
    "progress {i}/100",
    "{i} {v:.3f}",
    "always 3.5 of it",
    "file-{i}.{i}.txt",
]


def lines(form: str) -> bytes:
    """Five lines: `i` rises, `v` is the measure, `back` falls, `half` rises now and then, `odd` changes."""
    return "".join(
        form.format(i=i, v=27.1 + i / 3, back=9 - i, half=i // 2, odd=i % 2) + "\n" for i in range(1, 6)
    ).encode()


@pytest.mark.parametrize("form", LINES)
def test_the_option_that_is_told_reads_the_numbers(form):
    unread = MetricSuggester()
    unread.scan(lines(form))
    assert unread.suggestion
    _, option = shlex.split(unread.suggestion.option)
    name, _, regex = option.partition("=")
    records = Parser({name: regex}).feed(lines(form))
    wanted, has_step = LINES[form]
    assert [record.name for record in records] == [wanted] * 5
    assert [record.value for record in records] == [
        pytest.approx(27.1 + i / 3, abs=0.01) for i in range(1, 6)
    ]
    assert [record.step for record in records] == ([1, 2, 3, 4, 5] if has_step else [None] * 5)


def test_the_option_has_all_of_the_text_up_to_the_number():
    unread = MetricSuggester()
    unread.scan(lines("after {i} rounds: {v:.2f} dB"))
    assert unread.suggestion.option == r"--metric 'rounds=after (?P<step>\d+) rounds: ([-+.\deE]+)'"


@pytest.mark.parametrize("form", NOTHING)
def test_what_is_no_measure_is_not_suggested(form):
    unread = MetricSuggester()
    unread.scan(lines(form))
    assert unread.suggestion is None


def is_noticed(*chunks: bytes) -> bool:
    unread = MetricSuggester()
    for chunk in chunks:
        unread.scan(chunk)
    return unread.suggestion is not None


def test_three_lines_are_a_series():
    two, three = b"psnr: 27.1\npsnr: 27.2\n", b"psnr: 27.1\npsnr: 27.2\npsnr: 27.3\n"
    assert [is_noticed(b"psnr: 27.1\n"), is_noticed(two), is_noticed(three)] == [False, False, True]


def test_broken_text_is_no_measure():
    assert not is_noticed(lines("psnr {v:.3f}").replace(b"psnr", b"psnr\xff"))


@pytest.mark.parametrize(("size", "is_read"), [(300, True), (301, False)])
def test_a_line_is_a_line_of_300_bytes_at_most(size, is_read):
    assert is_noticed(lines("x" * (size - len("psnr: 27.100") - 1) + " psnr: {v:.3f}")) is is_read


@pytest.mark.parametrize(("others", "is_read"), [(63, True), (64, False)])
def test_64_shapes_of_lines_are_remembered(others, is_read):
    shapes = b"".join(b"%b 1\n" % (b"x" * number) for number in range(1, others + 1))
    assert is_noticed(shapes, lines("psnr: {v:.3f}")) is is_read


def test_lines_may_come_one_by_one():
    unread = MetricSuggester()
    for line in lines("psnr: {v:.3f}").splitlines(keepends=True):
        unread.scan(line)
    assert unread.suggestion
    assert unread.suggestion.line.startswith("psnr: 2")


@pytest.mark.parametrize(("left", "is_read"), [(1, True), (0, False)])
def test_only_the_first_mebibyte_of_a_log_is_looked_through(left, is_read):
    assert is_noticed(b"\n" * (MAX_SCAN_BYTES - left), lines("psnr: {v:.3f}")) is is_read


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
    unread = MetricSuggester()
    unread.scan(b"".join(b"[pod/worker-0/pytorch] " + line for line in lines(form).splitlines(keepends=True)))
    assert unread.suggestion
    name, _, regex = shlex.split(unread.suggestion.option)[1].partition("=")
    for prefix in PREFIXES:
        log = b"".join(prefix.encode() + line for line in lines(form).splitlines(keepends=True))
        assert len(Parser({name: regex}).feed(log)) == 5, prefix
