import math

import pytest

from batchai_magics.errors import UsageError
from batchai_magics.metrics import Measurement, Parser


def read(regex, text, rank=None):
    return Parser({"loss": regex}).feed(text.encode(), rank)


def test_the_first_group_is_the_value():
    assert read(r"loss=(\S+)", "loss=1.5\n") == [Measurement("loss", 1.5, offset=9)]


def test_named_groups_are_the_value_and_the_step():
    (record,) = read(r"(?P<value>\S+) after (?P<step>\d+)", "0.25 after 30\n")
    assert (record.value, record.step) == (0.25, 30)


def test_a_group_named_value_is_the_value_though_another_comes_first():
    assert [r.value for r in read(r"(\d+) of (?P<value>\d+)", "1 of 2\n")] == [2]


@pytest.mark.parametrize("step", ["1.5", "x", "inf", "nan"])
def test_a_step_is_a_whole_number(step):
    assert [(r.value, r.step) for r in read(r"(?P<step>\S+): (\S+)", f"{step}: 7\n")] == [(7, None)]


def test_a_group_named_step_is_not_the_value():
    (record,) = read(r"(?P<step>\d+): loss (\S+)", "30: loss 0.25\n")
    assert (record.value, record.step) == (0.25, 30)


def test_the_first_alternative_that_took_part_is_the_value():
    assert [r.value for r in read(r"a=(\d+)|b=(\d+)", "a=1 b=2\n")] == [1, 2]


def test_tags_tell_the_rank():
    assert [r.rank for r in read(r"loss=(\S+)", "[4] loss=2\n[1,3]<stdout>:loss=1\n")] == [4, 3]
    assert [r.rank for r in read(r"loss=(\S+)", "loss=1\n", rank=5)] == [5]


def test_a_pattern_sees_one_line_without_its_end():
    assert [r.value for r in read(r"^(\d+)$", "1\n2\r\n3 x\n4\n")] == [1, 2, 4]
    assert [r.value for r in read(r"(\d+)[ X]$", "1 \n2X\n3\n")] == [1, 2]


def test_a_line_begins_behind_its_tag_and_the_blank_that_goes_with_it():
    tags = "[1,3]<stdout>:loss=1\n[1,3]<stdout>: loss=2\n[1,3]<stdout>:  loss=3\n"
    assert [r.value for r in read(r"^loss=(\S+)", tags)] == [1, 2]


@pytest.mark.parametrize("text", ["nan", "inf", "1e-5", "-3", "0"])
def test_any_number_is_a_value(text):
    (record,) = read(r"loss=(\S+)", f"loss={text}\n")
    assert record.value == float(text) or math.isnan(record.value)


@pytest.mark.parametrize(("text", "value"), [("7,282", 7282), ("1,234,567.5", 1234567.5), ("-1,000", -1000)])
def test_thousands_may_have_commas(text, value):
    assert [record.value for record in read(r"loss=(\S+)", f"loss={text}\n")] == [value]


def test_what_is_no_number_is_no_record():
    assert read(r"loss=(\S*)", "loss=big\nloss=\n") == []
    assert read(r"loss(\d+)?", "loss\n") == []
    assert read(r"loss=(\S*)", "loss=1,2\nloss=1,2345\n") == []


def test_patterns_read_beside_the_built_in_formats():
    records = read(r"jitter = ([\d.]+)", "10\timages/sec: 1.0 +/- 0.0 (jitter = 2.5)\t7.000\n")
    assert {r.name: r.value for r in records} == {
        "images_per_sec": 1,
        "uncertainty": 0,
        "jitter": 2.5,
        "loss": 2.5,
    }


def test_a_json_lines_own_number_wins_over_a_pattern_of_that_name():
    (record,) = read(r'"loss": ([\d.]+)', '{"step": 1, "loss": 0.5}\n')
    assert (type(record).__name__, record.value) == ("Measurement", 0.5)


@pytest.mark.parametrize(
    ("regex", "reason"),
    [("loss=(", "not a valid expression"), ("loss", "no group"), ("(?u)(x)", "not a valid")],
)
def test_a_pattern_that_cannot_work_is_refused_by_name(regex, reason):
    with pytest.raises(UsageError, match=reason) as caught:
        Parser({"accuracy": regex})
    assert "accuracy" in str(caught.value)


def test_lines_between_those_of_a_pattern_are_read_as_without_it():
    step = "{}\timages/sec: 1.0 +/- 0.0 (jitter = 2.5)\t7.000\n"
    log = "".join(f"{step.format(n)}noise\n" + "loss=3\n" * (n % 7 == 0) for n in range(10, 900, 10))
    log = f'Model:       lenet\n{log}step=1 acc=0.5\n{{"step": 2, "acc": 1}}\n'.encode()
    records = Parser({"own": r"loss=(\S+)"}).feed(log)
    own = [r for r in records if getattr(r, "name", "") == "own"]
    assert [r for r in records if r not in own] == Parser().feed(log)
    assert [r.offset for r in records] == sorted(r.offset for r in records)
    assert len(own) == log.count(b"loss=3\n") > 9


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("10\timages/sec: 9.0 +/- 0.0 (jitter = 0.0)\t3.000 psnr 27.5", 10),
        ("step 20 is done, psnr 27.5 dB", 20),
        ("[1,3]<stdout>:iter 30/90 psnr 27.5 dB", 30),
        ("Epoch 2, step 5 has psnr 27.5 dB", 5),
        ("2019-03-02T10:25:35Z step 20 is done, psnr 27.5 dB", 20),
        ("[3] step 20 is done, psnr 27.5 dB", 20),
        ("step=30 loss=0.5 psnr 27.5", 30),
        ("Epoch 2, step 5: loss: 0.5, psnr 27.5", 5),
        ("Epoch 2 has psnr 27.5 dB", None),
        ("steps 20 psnr 27.5", None),
        ("psnr 27.5", None),
    ],
)
def test_a_number_of_ones_own_stands_where_its_line_says(line, step):
    parser = Parser({"psnr": r"psnr ([\d.]+)"})
    found = [record for record in parser.feed(f"{line}\n".encode()) if getattr(record, "name", "") == "psnr"]
    assert [(record.value, record.step) for record in found] == [(27.5, step)]


def test_the_first_match_of_a_pattern_that_is_no_number_is_remembered():
    parser = Parser({"loss": r"loss=(\S*)", "psnr": r"psnr=(\S+)", "lr": r"lr(=\d+)?"})
    parser.feed(b"[1,3]<stdout>:at 3 loss=big\nloss=1\nloss=huge psnr=?\nlr\n")
    assert [str(mismatch) for mismatch in parser.mismatches] == [
        '--metric loss matched "big", which is not a number, in the line: at 3 loss=big',
        '--metric psnr matched "?", which is not a number, in the line: loss=huge psnr=?',
    ]


def test_a_long_line_is_quoted_in_part():
    parser = Parser({"loss": r"loss=(\S*)"})
    parser.feed(b"loss=big " + b"x" * 500 + b"\n")
    assert len(str(parser.mismatches[0])) < 220
