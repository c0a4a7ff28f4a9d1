"""Step lines that look alike are read by one search, and only the others one by one."""

from dataclasses import replace

import pytest

from batchai_magics.metrics import Parser
from batchai_magics.metrics.formats import format_table
from tests.metrics.log_text import step, total
from tests.metrics.shapes import dressed

ALIKE = ("plain", "time behind", "Open MPI tag", "tags at both ends", "Airflow", "ANSI", "MPICH")


def block(shape, *texts):
    return "".join(f"{dressed(shape, text, rank=place % 3)}\n" for place, text in enumerate(texts)).encode()


def steps_of(records):
    return [record.step for record in records]


@pytest.fixture
def read_singly(monkeypatch):
    """The matches that are read one by one."""
    matches, rate = [], format_table._RATE
    counting = replace(rate, read=lambda view, match: matches.append(match[0]) or rate.read(view, match))
    monkeypatch.setattr(format_table, "_RATE", counting)
    return matches


@pytest.mark.parametrize("shape", ALIKE)
def test_behind_a_first_one_no_line_is_read_singly(read_singly, shape):
    parser = Parser()
    parser.feed(block(shape, step(1)))
    read_singly.clear()
    records = parser.feed(block(shape, step(10), "noise", step(20, accuracies="\t0.125\t0.500"), step(30)))
    assert (steps_of(records), read_singly) == ([10, 20, 30], [])
    assert [record.top_5 for record in records] == [None, 0.5, None]


@pytest.mark.parametrize("shape", ALIKE)
def test_only_lines_that_look_different_are_read_singly_and_all_come_in_their_order(read_singly, shape):
    parser = Parser()
    parser.feed(block(shape, step(1)))
    read_singly.clear()
    glued = step(30) + step(40)
    texts = (step(10), "noise", step(20), glued, step(50), f"hello {step(60)}", step(70))
    assert steps_of(parser.feed(block(shape, *texts))) == [10, 20, 30, 40, 50, 60, 70]
    assert len(read_singly) == 3


def test_other_leads_are_read_singly_once(read_singly):
    parser = Parser()
    assert steps_of(parser.feed(block("MPICH", step(10), step(20)))) == [10, 20]
    assert len(read_singly) == 2
    assert steps_of(parser.feed(block("MPICH", step(30), step(40)))) == [30, 40]
    assert len(read_singly) == 2


def test_the_rhythm_and_the_accuracies_of_lines_alike_are_learnt():
    parser = Parser()
    parser.feed(block("plain", *(step(number) for number in (1, 25, 50, 75))))
    parser.feed(block("plain", step(100, accuracies="\t0.125\t0.500")))
    pace = parser.file_of(None).cadence
    assert (pace.interval, pace.has_accuracy) == (25, True)


def test_a_step_of_zero_is_none_and_a_total_between_lines_alike_is_read(read_singly):
    records = Parser().feed(block("plain", step(10), step(0), *total(5.25).splitlines(), step(20)))
    assert [getattr(record, "step", None) for record in records] == [10, None, 20]
    assert [record.images_per_sec for record in records] == [61.9, 5.25, 61.9]


def test_what_ends_as_a_lead_but_is_none_is_read_singly(read_singly):
    parser = Parser()
    parser.feed(block("MPICH", step(1)))
    read_singly.clear()
    assert steps_of(parser.feed(f"a [word] {step(10)}\n".encode())) == [10]
    assert len(read_singly) == 1
