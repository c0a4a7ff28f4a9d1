"""Numbers that no format reads are noticed, and the option that is told for them reads them."""

from __future__ import annotations

import shlex

import pytest

from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading.unread import UnreadNumbers

LINES = {
    "after {i} rounds: {v:.2f} dB": ("rounds", True),
    "[1,0]<stdout>:after {i} rounds: {v:.2f} dB": ("rounds", True),
    "2024-01-01 12:00:0{i},123 INFO trainer: psnr {v:.3f} at {i}": ("psnr", False),
    "psnr: {v:.3f}": ("psnr", False),
    "worker {i} (psnr={v:.2f}; n={i})": ("psnr", True),
    "Signal-to-noise is {v:.2f} [dB]": ("signal_to_noise", False),
}
NOTHING = [
    "2018-06-12 10:00:00.00000{i}: I tensorflow/core: x",
    "pid {i}: hello",
    "progress {i}/100",
    "{i} {v:.3f}",
    "{{'psnr': {v:.3f}}}",
    "always 3.5 of it",
    "file-{i}.{i}.txt",
]


def lines(form: str) -> bytes:
    return "".join(form.format(i=i, v=27.1 + i / 3) + "\n" for i in range(1, 6)).encode()


@pytest.mark.parametrize("form", LINES)
def test_the_option_that_is_told_reads_the_numbers(form):
    unread = UnreadNumbers()
    unread.look(lines(form))
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


@pytest.mark.parametrize("form", NOTHING)
def test_what_is_no_measure_is_not_suggested(form):
    unread = UnreadNumbers()
    unread.look(lines(form))
    assert unread.suggestion is None


def test_one_line_is_no_series():
    unread = UnreadNumbers()
    unread.look(b"psnr: 27.1\n")
    assert unread.suggestion is None


def test_lines_may_come_one_by_one():
    unread = UnreadNumbers()
    for line in lines("psnr: {v:.3f}").splitlines(keepends=True):
        unread.look(line)
    assert unread.suggestion
    assert unread.suggestion.line.startswith("psnr: 2")


def test_only_the_beginning_of_a_log_is_looked_through():
    unread = UnreadNumbers()
    unread.look(b"nothing here\n" * 100_000)
    unread.look(lines("psnr: {v:.3f}"))
    assert unread.suggestion is None
