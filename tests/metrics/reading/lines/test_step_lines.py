import math

import pytest

from batchai_magics.metrics import Fact, Measurement, Parser
from batchai_magics.metrics.measurement import LENGTH
from tests.metrics.log_text import step, step_lines, total


def read(text):
    parser = Parser()
    return parser.feed(text.encode()) + parser.finish()


def steps_of(text):
    return step_lines(read(text))


def steps(text):
    return [(record.step, record.loss) for record in step_lines(read(text))]


def test_a_step_line_gives_all_its_numbers():
    line = "110\timages/sec: 2296.2 +/- 3.4 (jitter = 12.5)\t7.916\n"
    assert read(line) == [
        Measurement("images_per_sec", 2296.2, "images/sec", 110, offset=len(line)),
        Measurement("uncertainty", 3.4, "images/sec", 110, offset=len(line)),
        Measurement("jitter", 12.5, "images/sec", 110, offset=len(line)),
        Measurement("loss", 7.916, "", 110, offset=len(line)),
    ]


def test_accuracies_are_read_where_they_are_printed():
    (record,) = steps_of(step(10, accuracies="\t0.125\t0.500") + "\n")
    assert (record.top_1, record.top_5) == (0.125, 0.5)


@pytest.mark.parametrize("blanks", ["\t", " ", "    ", " \t "])
def test_tabs_may_have_become_blanks(blanks):
    (record,) = steps_of(step(10, accuracies="\t0.125\t0.500").replace("\t", blanks) + "\n")
    assert (record.step, record.loss, record.top_5) == (10, 7.087, 0.5)


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf", "0.000", "-1.500", "502216779393662976.000"])
def test_a_loss_may_be_any_number(loss):
    (record,) = steps_of(step(10, loss=loss) + "\n")
    assert math.isnan(record.loss) if loss == "nan" else record.loss == float(loss)


def test_nan_accuracies_are_read():
    (record,) = steps_of(step(10, loss="nan", accuracies="\tnan\tnan") + "\n")
    assert math.isnan(record.top_1)
    assert math.isnan(record.top_5)


def test_what_a_wrapper_appends_is_not_the_loss():
    assert steps(step(10) + " 1587077440\n") == [(10, 7.087)]


def test_the_offset_is_the_end_of_the_line():
    text = f"noise\n{step(1)}\r\nmore\n{step(10)}\n"
    offsets = [record.offset for record in steps_of(text)]
    assert offsets == [text.index("\r") + 1, len(text)]


def test_totals_are_read():
    text = total(1740.38) + "\n"
    assert read(text) == [Fact("total_images_per_sec", "1740.38", None, text.index("38") + 3)]


class TestUnfinishedLines:
    def test_a_line_counts_only_when_it_has_ended(self):
        parser = Parser()
        assert parser.feed(step(10).encode()) == []
        assert [record.step for record in step_lines(parser.feed(b"\n"))] == [10]

    def test_a_whole_last_line_counts_at_the_end(self):
        assert steps(step(1) + "\n" + step(10)) == [(1, 7.087), (10, 7.087)]

    def test_a_cut_line_gives_nothing(self):
        assert [length for length in range(len(step(10))) if read(step(10)[:length])] == []

    @pytest.mark.parametrize("tail", ["\t", "\t0", "\t0.", "\t0.12", "\t0.125", "\t0.125\t", "\t0.125\t0.50"])
    def test_cut_accuracies_give_nothing(self, tail):
        assert read(step(10) + tail) == []

    def test_missing_accuracies_give_nothing_where_others_have_them(self):
        assert steps(step(1, accuracies="\t0.125\t0.500") + "\n" + step(10)) == [(1, 7.087)]

    def test_missing_accuracies_of_an_ended_line_are_missing(self):
        assert steps(f"{step(1, accuracies=chr(9) + '0.125	0.500')}\n{step(10)} x\n") == [
            (1, 7.087),
            (10, 7.087),
        ]

    @pytest.mark.parametrize("text", ["total images/sec: 17", "total images/sec: 1740.3"])
    def test_a_cut_total_gives_nothing(self, text):
        assert read(text) == []

    def test_finishing_makes_the_parser_new(self):
        parser = Parser()
        parser.feed(b"10\timages/sec: ")
        parser.finish()
        assert parser.feed(b"61.9 +/- 1.8 (jitter = 8.0)\t7.087\n") == []


class TestNearMisses:
    @pytest.mark.parametrize(
        "line",
        [
            "Total images/sec: 1134.505",
            "Total images/sec: 1134.50",
            "INFO:__main__:2:  Total images/sec: 1134.50",
            "total images/sec: 1134.505",
            "total images/sec: 1134.5",
            "subtotal images/sec: 1134.50",
            "images/sec: 1134.50",
            "images/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000",
            "\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000",
            "0\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000",
            "10images/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000",
            "10\timages/sec: 105 +/- 1.0 (jitter = 1.0)\t7.000",
            "10\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.00",
            "10\timages/sec: 105.6",
            "step 50/50, iter_time(ms)=4.7, images/sec=211",
            "step 10, loss = 4.66 (123.4 examples/sec; 0.104 sec/batch)",
            "speed: 123.4 examples/sec",
            "Accuracy @ 1 = 0.12 Accuracy @ 5 = 0.50 [100 examples]",
            "9" * 5000 + "\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000",
        ],
    )
    def test_a_similar_line_of_another_program_is_none_of_this_one(self, line):
        records = read(f"{line}\n")
        assert step_lines(records) == []
        assert {record.key for record in records if isinstance(record, Fact)} <= {LENGTH}

    def test_a_step_on_the_line_before_is_not_taken(self):
        assert read("10\n\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000\n") == []


class TestEvaluation:
    def test_examples_per_second_are_no_training_rate(self):
        (record,) = read("20\t412.7 examples/sec\n")
        assert record[:4] == ("eval_examples_per_sec", 412.7, "examples/sec", 20)
        assert record.phase == "val"

    @pytest.mark.parametrize(
        "line",
        [
            "Accuracy @ 1 = 0.1234 Accuracy @ 5 = 0.5678 [50000 examples]",
            "Precision @ 1 = 0.1234 recall @ 5 = 0.5678 [50000 examples]",
        ],
    )
    def test_both_eras_accuracies_are_read(self, line):
        found = {record.name: record.value for record in read(f"{line}\n")}
        assert found == {"eval_top_1": 0.1234, "eval_top_5": 0.5678, "eval_examples": 50000}

    def test_evaluation_and_steps_keep_their_order(self):
        text = f"{step(10)}\n10\t412.7 examples/sec\n{step(20)}\n"
        steps = [(record.step, record.phase) for record in read(text)]
        assert steps == [(10, "train")] * 4 + [(10, "val")] + [(20, "train")] * 4
