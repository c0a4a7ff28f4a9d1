"""Literals: what each stands for, and which may occur in a text."""

import pytest

from batchai_magics.metrics.reading.literal_search import LiteralSearch, literal_stem


def test_a_stem_has_no_signs_at_its_ends_and_keeps_those_within():
    assert literal_stem(b"^#loss#=^#") == b"loss#="
    assert literal_stem(b"X = X") == b"X = X"


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
    assert LiteralSearch([b"^loss", b"#epoch#", b"training", b"accuracy"]).candidates(text) == numbers


def test_literals_that_overlap_in_a_text_are_all_told():
    assert LiteralSearch([b"abcd", b"bcde", b"cdef"]).candidates(b"abcdef") == [0, 1, 2]


def test_a_literal_that_another_one_begins_with_is_told_with_it():
    gate = LiteralSearch([b"train", b"training", b"trainer"])
    assert gate.candidates(b"training") == [0, 1]
    assert gate.candidates(b"trainer") == [0, 2]
    assert gate.candidates(b"trains") == [0]


def test_literals_of_one_stem_are_told_together():
    assert LiteralSearch([b"^step", b"step#", b"epoch"]).candidates(b"a step") == [0, 1]


def test_a_literal_is_no_pattern():
    gate = LiteralSearch([b"loss(x)", b"a.b", b"[1]"])
    assert gate.candidates(b"lossx aab 1") == []
    assert gate.candidates(b"[1] a.b loss(x)") == [0, 1, 2]


def test_capital_letters_are_others():
    assert LiteralSearch([b"Loss"]).candidates(b"loss") == []


def test_literals_are_found_among_bytes_that_are_no_text():
    assert LiteralSearch([b"loss"]).candidates(b"\xff\xfe\x80loss\xc3") == [0]


def test_literals_are_found_at_both_ends_of_a_text():
    gate = LiteralSearch([b"loss", b"step"])
    assert gate.candidates(b"loss") == [0]
    assert gate.candidates(b"loss and step") == [0, 1]
    assert gate.candidates(b"x" * 100_000 + b"step") == [1]
