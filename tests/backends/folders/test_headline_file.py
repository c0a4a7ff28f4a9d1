"""The headline metric of a run that notifications have."""

import json

import pytest

from batchai_magics.backends.folders.run_watch import MAX_RECENT, HeadlineFile
from batchai_magics.metrics import read_metrics
from batchai_magics.metrics.runs.positions import MetricPoints
from tests.metrics.log_text import run


@pytest.fixture
def told(tmp_path):
    """Writes the headline of a log; returns what the file then has."""

    def write(text, chosen=""):
        file, records = HeadlineFile(tmp_path / "headline.json", chosen), read_metrics(text.encode()).records
        file.add(records, list(MetricPoints(0.0).of(records)))
        file.write()
        return json.loads((tmp_path / "headline.json").read_text())

    return write


def lines(*names, count=3, ranks=1):
    values = ((step, rank, rank + 1) for step in range(1, count + 1) for rank in range(ranks))
    return "".join(
        f"[1,{rank}]<stdout>:step {step}: {', '.join(f'{name}={value}' for name in names)}\n"
        for step, rank, value in values
    )


def test_a_rate_that_each_rank_has_for_itself_is_the_sum(told):
    assert told(lines("samples_per_sec", ranks=2))["value"] == 3
    assert told(lines("tokens_per_sec", ranks=2)) == {"name": "tokens_per_sec", "value": 1.5, "step": 3}


def test_the_total_that_the_program_prints_is_its_rate(told):
    assert told(run(ranks=4), "images/sec") == {"name": "images_per_sec", "value": 400, "step": 20}


def test_a_rarely_printed_metric_stays_the_headline(told):
    text = f"step 1: val_loss=0.5\n{lines('loss', count=2 * MAX_RECENT)}"
    assert told(text) == {"name": "val_loss", "value": 0.5, "step": 1}


def test_non_finite_headline_is_written_as_a_word(told):
    assert told("step 1: loss=nan\n")["value"] == "nan"
