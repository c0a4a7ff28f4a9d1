"""Printed dicts without a step are at the count of their bar, whether it was drawn before or after them."""

import pytest

from batchai_magics.metrics import Parser

BAR = "\r 9%|#         | {}/30 [00:02<00:10,  4.19it/s]"


def steps(text, cut=None):
    parser = Parser()
    chunks = [text] if cut is None else [text[:cut], text[cut:]]
    records = [record for chunk in chunks for record in parser.feed(chunk.encode())]
    return [(record.step, record.epoch) for record in (*records, *parser.finish())]


def bars(*counts):
    return "".join(map(BAR.format, counts))


def printed(epoch):
    return f"\r        \r{{'loss': 0.5, 'epoch': {epoch}}}\n"


def test_a_bar_that_lags_behind_is_drawn_again_below_the_dict():
    log = bars(0, 3) + printed(0.5) + bars(5, 8) + printed(1.0) + bars(10, 11) + "\n"
    assert steps(log) == [(5, 0.5), (10, 1.0)]
    assert {str(steps(log, cut)) for cut in range(len(log))} == {str(steps(log))}


def test_a_bar_that_is_only_above_the_dict_has_its_step():
    log = bars(0, 5) + printed(0.5) + bars(6, 7, 10) + printed(1.0) + bars(11, 12, 15) + printed(1.5)
    assert steps(log) == [(5, 0.5), (10, 1.0), (15, 1.5)]


def test_text_that_follows_the_bar_does_not_hide_it():
    log = bars(0, 3) + printed(0.5) + bars(5) + "Saving model checkpoint to out\n" + bars(6, 7) + "\n"
    assert steps(log) == [(5, 0.5)]


def test_a_bar_far_below_is_another_step():
    assert steps(bars(0, 5) + printed(0.5) + "\n" * 30 + bars(10, 11) + "\n") == [(5, 0.5)]


def test_the_last_dict_is_not_lost():
    assert steps(bars(0, 30) + printed(3.0)) == [(30, 3.0)]


@pytest.mark.parametrize("between", ["step 5: loss: 0.4\n", "Epoch 3\n"])
def test_other_lines_do_not_wait_for_a_bar(between):
    assert steps(bars(0, 5) + printed(0.5) + between + bars(9, 10) + "\n")[0] == (5, 0.5)
