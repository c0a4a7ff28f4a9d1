"""What is measured of a run for its stop conditions, with a clock of the test's own."""

import json
import time

import pytest

from batchai_magics.backends.folders.rank_files import VERSION
from batchai_magics.backends.folders.run_measures import RunMeasures, UsageSamples
from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.runs.stop_evaluation import StopEvaluation
from batchai_magics.models.prices import NodeTime, Price
from batchai_magics.models.stop_conditions import MEASURED, stop_condition


class Measured:
    """The measures of a run with one condition."""

    def __init__(self, folder, text, price=None, times=()):
        self.stopping = StopEvaluation([stop_condition(text)], MEASURED, 0.0)
        self.measures = RunMeasures(self.stopping, folder, price, times)
        self.parser, self.size_bytes = Parser(), 0

    def prints(self, text, now_s):
        """The reason for which the job is stopped after it has printed this."""
        data = text.encode()
        self.size_bytes += len(data)
        self.measures.take(self.parser.feed(data), data, "stdout.txt")
        return self.at(now_s)

    def at(self, now_s):
        self.measures.measure(self.size_bytes, now_s)
        return self.stopping.reason(now_s)


@pytest.fixture
def samples(tmp_path):
    """Appends a sample of one machine: CPU seconds by rank, and the use of its GPUs."""
    first = time.time() + 10

    def append(cpu_s, gpus=(), *, after_s=0.0, file="0"):
        ranks = [[rank, used, *[0] * 7] for rank, used in enumerate(cpu_s)]
        rows = [[number, percent, 0] for number, percent in enumerate(gpus)]
        sample = {"t": first + after_s, "ranks": ranks, "machine": [0, 0, 0, 0], "gpus": rows}
        with (tmp_path / f"{file}.jsonl").open("a") as stream:
            if not stream.tell():
                stream.write(json.dumps({"version": VERSION, "machine": file}) + "\n")
            stream.write(json.dumps(sample) + "\n")

    return append


def test_idle_gpus_stop_a_job_once_they_were_idle_for_the_time(tmp_path, samples):
    run = Measured(tmp_path, "gpu < 5% for 30m")
    assert run.stopping.unmet(()) == [
        'stop-if "gpu < 5% for 30m" had nothing to check: no GPU use was sampled'
    ]
    samples([0], [1, 3])
    assert run.at(0) == ""
    samples([0], [0, 80], after_s=900)
    assert run.at(900) == ""
    samples([0], [2, 4], after_s=1000)
    assert run.at(1000) == ""
    samples([0], [2, 4], after_s=2790)
    assert run.at(2790) == ""
    samples([0], [2, 4], after_s=2800)
    reason = run.at(2800)
    assert reason == 'stop-if "gpu < 5% for 30m": its GPUs were used at 3 % on average'


def test_last_sample_is_not_used_again_without_new_ones(tmp_path, samples):
    run = Measured(tmp_path, "gpu < 5% for 30m")
    samples([0], [1])
    run.at(0)
    assert run.at(1e6) == ""


def test_cpu_use_is_the_mean_over_the_ranks_of_all_nodes(tmp_path, samples):
    for file, used in (("0", [5, 5]), ("2", [0])):
        samples([0] * len(used), file=file)
        samples(used, after_s=10, file=file)
    means = UsageSamples(tmp_path, time.time())
    assert means.new_means() == {"cpu": pytest.approx(100 / 3, rel=0.01)}
    assert means.new_means() == {}


def test_a_torn_sample_is_skipped_and_an_unfinished_one_awaited(tmp_path, samples):
    (tmp_path / "0.jsonl").write_text('{"version": 1}\n{"t": 1\n')
    samples([0], [1], after_s=-100)  # of an earlier attempt
    samples([0], [7])
    means = UsageSamples(tmp_path, time.time())
    assert means.new_means() == {"gpu": 7}
    with (tmp_path / "0.jsonl").open("a") as stream:
        stream.write('{"t": 99')
    assert means.new_means() == {}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("step 1 loss: 0.5\n", "step 2 loss: 0.4\n"),
        ("Epoch 1/9 loss: 0.5\n", "Epoch 2/9 loss: 0.5\n"),
        (
            " 10%|#         | 10/100 [00:01<00:09, 9.9it/s]\r",
            " 11%|#         | 11/100 [00:01<00:09, 9.9it/s]\r",
        ),
        ("loss: 0.5\n", "loss: 0.4\n"),
        ("preparing\n", "still preparing\n"),
    ],
    ids=["step", "epoch", "bar", "number without a step", "any output"],
)
def test_progress_begins_the_time_again(tmp_path, first, then):
    run = Measured(tmp_path, "no progress for 15m")
    assert run.prints(first, 10) == ""
    assert run.at(900) == ""
    assert run.prints(then, 901) == ""
    assert run.at(1800) == ""
    assert run.at(1801).startswith('stop-if "no progress for 15m": it made no progress')


@pytest.mark.parametrize(
    "heartbeat", ["waiting for the other ranks\n", "step 1 loss: 0.5\n", "memory: 3.5\n"]
)
def test_a_heartbeat_is_no_progress(tmp_path, heartbeat):
    run = Measured(tmp_path, "no progress for 15m")
    run.prints("memory: 3.5\nstep 1 loss: 0.5\n", 0)
    assert run.prints(heartbeat, 600) == ""
    assert run.prints(heartbeat, 901) != ""


def test_output_counts_again_after_a_bar_is_complete(tmp_path):
    run = Measured(tmp_path, "no progress for 15m")
    run.prints("100%|##########| 100/100 [00:01<00:00, 9.9it/s]\n", 0)
    run.prints("now it trains\n", 600)
    assert run.at(1000) == ""


def test_the_cost_counts_the_nodes_of_all_attempts(tmp_path):
    now = time.time()
    times = [NodeTime(2, now - 7200, now - 3600), NodeTime(3, now - 3600)]
    run = Measured(tmp_path, "cost > 9.9", Price(2.0), times)
    assert run.at(0) == 'stop-if "cost > 9.9": it had cost 10.00'
    assert Measured(tmp_path, "cost > 10.5", Price(2.0), times).at(0) == ""
    small = Measured(tmp_path, "cost > 0.001", Price(2.0), (NodeTime(1, 0.0, 2.4),))
    assert small.at(0) == 'stop-if "cost > 0.001": it had cost 0.0013'


def test_unknown_price_of_a_cost_condition_is_reported(tmp_path):
    run = Measured(tmp_path, "cost > 10")
    assert run.at(0) == ""
    (told,) = run.stopping.unmet(())
    assert told == 'stop-if "cost > 10" had nothing to check: the price of its nodes is unknown'
