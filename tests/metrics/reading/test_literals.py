"""Literals: what each stands for, and which may occur in a text."""

import pytest

from batchai_magics.metrics.reading.literals import Gate, spelled_out, stem


def test_a_number_sign_stands_for_each_digit():
    assert list(spelled_out(b"a#")) == [b"a%d" % digit for digit in range(10)]


def test_a_caret_stands_for_what_is_left_of_a_word():
    lefts = [b"\n", b" ", b"\t", b",", b":", b";", b"|", b">", b"#", b"["]
    assert list(spelled_out(b"^x")) == [left + b"x" for left in lefts]


def test_signs_are_spelled_out_in_all_combinations():
    strings = list(spelled_out(b"^loss=##"))
    assert len(strings) == len(set(strings)) == 1000
    assert {b"\nloss=00", b" loss=07", b"[loss=99"} <= set(strings)


def test_a_literal_without_signs_stands_for_itself():
    assert list(spelled_out(b"images/sec: ")) == [b"images/sec: "]


def test_a_stem_has_no_signs_at_its_ends_and_keeps_those_within():
    assert stem(b"^#loss#=^#") == b"loss#="
    assert stem(b"X = X") == b"X = X"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (b"", []),
        (b"nothing of it", []),
        (b"loss = 1", [0]),
        (b"the end of training loss", [0, 2]),
        (b"training, loss and accuracy", [0, 2, 3]),
        (b"accuracy, loss", [0, 3]),
    ],
)
def test_a_gate_tells_which_literals_may_occur_in_ascending_order(text, numbers):
    assert Gate([b"^loss", b"#epoch#", b"training", b"accuracy"]).open_for(text) == numbers


def test_literals_that_overlap_in_a_text_are_all_told():
    assert Gate([b"abcd", b"bcde", b"cdef"]).open_for(b"abcdef") == [0, 1, 2]


def test_a_literal_that_another_one_begins_with_is_told_with_it():
    gate = Gate([b"train", b"training", b"trainer"])
    assert gate.open_for(b"training") == [0, 1]
    assert gate.open_for(b"trainer") == [0, 2]
    assert gate.open_for(b"trains") == [0]


def test_literals_of_one_stem_are_told_together():
    assert Gate([b"^step", b"step#", b"epoch"]).open_for(b"a step") == [0, 1]


def test_a_literal_is_no_pattern():
    gate = Gate([b"loss(x)", b"a.b", b"[1]"])
    assert gate.open_for(b"lossx aab 1") == []
    assert gate.open_for(b"[1] a.b loss(x)") == [0, 1, 2]


def test_capital_letters_are_others():
    assert Gate([b"Loss"]).open_for(b"loss") == []


def test_literals_are_found_among_bytes_that_are_no_text():
    assert Gate([b"loss"]).open_for(b"\xff\xfe\x80loss\xc3") == [0]


def test_literals_are_found_at_both_ends_of_a_text():
    gate = Gate([b"loss", b"step"])
    assert gate.open_for(b"loss") == [0]
    assert gate.open_for(b"loss and step") == [0, 1]
    assert gate.open_for(b"x" * 100_000 + b"step") == [1]
