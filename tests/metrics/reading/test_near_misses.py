import pytest

from batchai_magics.metrics import Fact, Parser
from tests.metrics.program_samples import NEAR_MISSES, PRINTED
from tests.metrics.reading.program_lines import KNOWN_LINES


def read(text):
    parser = Parser()
    records = parser.feed(text.encode()) + parser.finish()
    return [record for record in records if not isinstance(record, Fact)]


def test_a_line_that_is_no_metric_gives_none():
    assert [line for line in (*NEAR_MISSES, *PRINTED) if read(f"{line}\n")] == []


@pytest.mark.parametrize("prefix", ["[1,3]<stdout>:", "2019-03-02T10:25:35Z ", "INFO:root:"])
def test_a_prefix_makes_no_metric_of_it(prefix):
    below_a_position = ("epoch   ", "Minibatch loss: ")  # there they are metrics
    lines = [line for line in (*NEAR_MISSES, *PRINTED) if not line.startswith(below_a_position)]
    assert [line for line in lines if read(f"{prefix}{line}\n")] == []


def test_the_rest_of_an_overlong_line_is_no_line():
    for size in range(65_514, 65_540, 5):  # the line is cut within what follows, or right before it
        assert read(f"{'x' * size} step=100 loss=0.25\n") == []
        assert read("x" * size + '{"step": 1, "loss": 0.25}\n') == []


PARTS = ("1", " ", "a=1 ", " - a: 1", "a : 1 ", "[", "{", "- loss: ", "\ta (1)", "# ")


@pytest.mark.parametrize("part", PARTS)
def test_no_line_takes_long_however_it_goes_on(part):
    for line in KNOWN_LINES[PARTS.index(part) % 3 : -3 : 3]:  # each goes on in three or four ways
        for sample in (line, line[: len(line) // 2]):
            assert len(read(f"{sample}{part * 100} - loss: step=1 epoch=1 !\n")) <= 20
