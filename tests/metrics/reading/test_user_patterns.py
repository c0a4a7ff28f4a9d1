import math

import pytest

from batchai_magics.errors import UsageError
from batchai_magics.metrics import Parser


def read(regex, text, rank=None):
    return Parser({"loss": regex}).feed(text.encode(), rank)


FOUND = {
    ("the first group", r"loss=(\S+)", "loss=1.5\n"): [(1.5, None)],
    ("named groups", r"(?P<value>\S+) after (?P<step>\d+)", "0.25 after 30\n"): [(0.25, 30)],
    ("the group of the value", r"(\d+) of (?P<value>\d+)", "1 of 2\n"): [(2, None)],
    ("a step before it", r"(?P<step>\d+): loss (\S+)", "30: loss 0.25\n"): [(0.25, 30)],
    ("a whole step", r"(?P<step>\S+): (\S+)", "1.5: 7\nx: 7\ninf: 7\nnan: 7\n"): [(7, None)] * 4,
    ("an alternative", r"a=(\d+)|b=(\d+)", "a=1 b=2\n"): [(1, None), (2, None)],
    ("a line's end", r"^(\d+)$", "1\n2\r\n3 x\n4\n"): [(1, None), (2, None), (4, None)],
    ("blanks before it", r"(\d+)[ X]$", "1 \n2X\n3\n"): [(1, None), (2, None)],
    (
        "a tag and its blank",
        r"^loss=(\S+)",
        "[1,3]<stdout>:loss=1\n[1,3]<stdout>: loss=2\n[1,3]<stdout>:  loss=3\n",
    ): [
        (1, None),
        (2, None),
    ],
    ("any number", r"loss=(\S+)", "loss=1e-5\nloss=-3\nloss=-inf\n"): [
        (1e-5, None),
        (-3, None),
        (-math.inf, None),
    ],
    ("thousands", r"loss=(\S+)", "loss=7,282\nloss=1,234,567.5\nloss=-1,000\n"): [
        (7282, None),
        (1234567.5, None),
        (-1000, None),
    ],
    ("no number", r"loss=(\S*)", "loss=big\nloss=\nloss=1,2\nloss=1,2345\n"): [],
    ("no group", r"loss(\d+)?", "loss\n"): [],
    ("json's own", r'"loss": ([\d.]+)', '{"step": 1, "loss": 0.5}\n'): [(0.5, 1)],
}


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case[0])
def test_a_pattern_finds_values_and_steps(case):
    _, regex, text = case
    assert [(record.value, record.step) for record in read(regex, text)] == FOUND[case]


def test_tags_tell_the_rank():
    assert [r.rank for r in read(r"loss=(\S+)", "[4] loss=2\n[1,3]<stdout>:loss=1\n")] == [4, 3]
    assert [r.rank for r in read(r"loss=(\S+)", "loss=1\n", rank=5)] == [5]


def test_patterns_read_beside_the_built_in_formats():
    records = read(r"jitter = ([\d.]+)", "10\timages/sec: 1.0 +/- 0.0 (jitter = 2.5)\t7.000\n")
    assert {r.name: r.value for r in records} == {
        "images_per_sec": 1,
        "uncertainty": 0,
        "jitter": 2.5,
        "loss": 2.5,
    }


@pytest.mark.parametrize(
    ("regex", "reason"),
    [("loss=(", "not a valid expression"), ("loss", "no group"), ("(?u)(x)", "not a valid")],
)
def test_a_pattern_that_cannot_work_is_refused_by_name(regex, reason):
    with pytest.raises(UsageError, match=reason) as caught:
        Parser({"accuracy": regex})
    assert "accuracy" in str(caught.value)


def test_lines_between_matches_of_a_pattern_are_read_as_usual():
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
def test_number_of_a_user_pattern_has_the_position_of_its_line(line, step):
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
