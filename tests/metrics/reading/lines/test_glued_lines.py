import pytest

from batchai_magics.metrics import Fact, Parser
from batchai_magics.metrics.reading import plan_cache
from tests.metrics.log_text import HEADER, step, step_lines, total


def read(text):
    parser = Parser()
    return parser.feed(text.encode()) + parser.finish()


def found(text):
    return [(r.step, r.loss) for r in step_lines(read(text))]


def test_two_step_lines_on_one_line_are_split_after_three_decimals():
    assert found(step(30) + step(30, 74.3, "6.500") + "\n\n") == [(30, 7.087), (30, 6.5)]


@pytest.mark.parametrize("loss", ["nan", "inf", "0.000", "502216779393662976.000"])
def test_any_loss_may_be_glued_to_the_next_step(loss):
    assert [number for number, _ in found(step(30, loss=loss) + step(40) + "\n")] == [30, 40]


def test_accuracies_are_split_after_three_decimals():
    text = step(7, accuracies="\t0.125\t0.000") + step(8, accuracies="\t0.250\t0.500") + "\n"
    assert [(r.step, r.top_5) for r in step_lines(read(text))] == [(7, 0.0), (8, 0.5)]


def test_a_version_number_before_a_step_is_taken_off():
    records = read("TensorFlow:  1.8" + step(1) + "\n")
    assert [(r.key, r.value) for r in records if isinstance(r, Fact)] == [("tensorflow", "1.8")]
    assert [r.step for r in step_lines(records)] == [1]


def test_a_version_of_two_digits_is_taken_off():
    assert found("TensorFlow:  1.15" + step(10) + "\n") == [(10, 7.087)]


def test_a_number_of_batches_before_a_step_is_taken_off():
    records = read(HEADER + "Num batches: 100" + step(10) + "\n")
    assert [r.value for r in records if isinstance(r, Fact) and r.key == "num_batches"] == ["100"] * 2
    assert [r.step for r in step_lines(records)] == [10]


def test_a_year_before_a_step_is_taken_off():
    text = f"{HEADER}{step(1)}\nFinishing real work at step 109 at time Fri Feb 10 09:00:00 2017{step(20)}\n"
    assert [number for number, _ in found(text)] == [1, 20]


def test_text_before_a_step_leaves_the_number_as_it_is():
    assert found("Done warm up" + step(120) + "\nsvc-1  | " + step(101) + "\n") == [
        (120, 7.087),
        (101, 7.087),
    ]


def test_the_last_step_may_be_that_of_the_last_batch():
    header = HEADER.replace("Num batches: 100", "Num batches: 101")
    assert found(f"{header}{step(10)}\nhello {step(101)}\n")[-1] == (101, 7.087)
    assert found(f"{HEADER}{step(10)}\nversion 1.8{step(100)}\n")[-1] == (100, 7.087)


def test_before_any_step_the_first_one_or_a_tenth_one_is_expected():
    assert found(f"version 1.85{step(1)}\n") == [(1, 7.087)]


def test_step_0_behind_text_is_none():
    assert found(f"hello {step(0)}\n") == []


def test_a_total_and_a_step_are_split_after_two_decimals():
    total_record, first, *_ = read("total images/sec: 1740.38" + step(10) + "\n")
    assert (total_record.value, first.step) == ("1740.38", 10)


def test_two_totals_on_one_line_are_both_read():
    text = "total images/sec: 1740.38total images/sec: 1740.41\n"
    assert [r.value for r in read(text)] == ["1740.38", "1740.41"]


def test_a_total_behind_a_dashed_line_is_read():
    assert [r.value for r in read(total(55.5).replace("\n", "") + "\n")] == ["55.50"]


def test_a_library_message_may_follow_at_once():
    text = "total images/sec: 1740.382018-06-12 10:00:00.000001: I tensorflow/core/x.cc:1] hello\n"
    assert [r.value for r in read(text)] == ["1740.38"]


def test_a_splice_inside_a_record_loses_only_that_record():
    assert found("810\timages/sec: 230.0 +/" + step(10) + "\n") == [(10, 7.087)]


def test_a_record_without_its_step_still_ends_where_it_ends():
    spliced = "\timages/sec: 230.0 +/- 0.3 (jitter = 1.0)\t7.916" + step(30)
    assert found(f"{spliced}\n") == [(30, 7.087)]


def test_two_header_lines_on_one_line_are_both_read():
    text = HEADER + "Num batches: 100Num batches: 100\nModel:       vgg16Dataset:     cifar10==========\n"
    entries = [(r.key, r.value) for r in read(text) if isinstance(r, Fact)]
    assert entries[-4:] == [("num_batches", "100")] * 2 + [("model", "vgg16"), ("dataset", "cifar10")]


ACCURACY = "Accuracy @ 1 = 0.1234 Accuracy @ 5 = 0.5678 [500 examples]"


@pytest.mark.parametrize("before", [step(10), step(0), "total images/sec: 61.90"])
def test_what_is_glued_to_a_tagged_line_is_of_its_rank(before):
    log = "".join(f"[1,{rank}]<stdout>:{before}{ACCURACY}\n" for rank in (5, 6))
    assert [record.rank for record in read(log) if getattr(record, "name", "") == "eval_top_1"] == [5, 6]


@pytest.mark.parametrize(
    ("line", "place", "loss"),
    [
        ("Epoch 1: loss 0.5Number of GPUs: 8", 1, 0.5),
        ("Model: resnet50Epoch 3 loss 0.4", 3, 0.4),
    ],
)
def test_numbers_are_read_beside_a_fact_without_a_newline_between(line, place, loss):
    numbers = [record for record in read(f"{line}\n") if not isinstance(record, Fact)]
    assert [(record.epoch, record.name, record.value) for record in numbers] == [(place, "loss", loss)]


def test_a_line_of_dllogger_behind_its_parameters_is_read_without_a_newline():
    line = "DLL 2021-06-14 23:08:51.659718 - epoch    1 | iter   1/48 | loss 38.48 | mel loss 30.79"
    text = f"DLL 2021-06-14 23:08:50.000123 - PARAMETER | epochs 1000  batch_size 16{line}\n"
    numbers = [record for record in read(text) if not isinstance(record, Fact)]
    assert [(record.name, record.value) for record in numbers] == [("loss", 38.48), ("mel_loss", 30.79)]
    assert [(record.epoch, record.step) for record in numbers] == [(1, 1)] * 2


@pytest.mark.parametrize("words", ["", " warning"])
def test_the_grammar_reads_few_of_many_steps_without_a_newline(monkeypatch, words):
    """As `print(…, end=" ")` writes them; those with ever longer words differ in form."""
    read_by_grammar, count = [], 400
    told = plan_cache.read_line
    monkeypatch.setattr(
        plan_cache, "read_line", lambda line, **how: read_by_grammar.append(line) or told(line, **how)
    )
    lines = [f"step {i} loss 0.{i % 10}{words * (i % 400)} " for i in range(1, count + 1)]
    numbers = [(record.step, record.value) for record in read("".join(lines))]
    assert len(read_by_grammar) < 20
    if not words:
        assert numbers == [(i, i % 10 / 10) for i in range(1, count + 1)]
