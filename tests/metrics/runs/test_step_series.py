"""Which records of a log belong to which run."""

from batchai_magics.metrics import Parser, ValueRecord
from batchai_magics.metrics.runs.step_series import runs


def test_a_job_that_is_begun_once_more_is_another_run():
    text = (
        '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n'
        "[batchai] attempt 2 begins on node2: Slurm took its nodes for another job\n"
        '{"step": 1, "loss": 1.9}\n'
    )
    parser = Parser()
    found = runs(parser.feed(text.encode()) + parser.finish())
    values = [[(each.step, each.value) for each in run if isinstance(each, ValueRecord)] for run in found]
    assert values == [[(1, 2.0), (2, 1.5)], [(1, 1.9)]]
