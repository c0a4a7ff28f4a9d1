"""Which records of a log belong to which run."""

from batchai_magics.metrics import Measurement, Parser, plot, read_metrics
from batchai_magics.metrics.runs.step_series import runs


def test_a_job_that_is_begun_once_more_is_another_run():
    text = (
        '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n'
        "[batchai] attempt 2 begins on node2: Slurm took its nodes for another job\n"
        '{"step": 1, "loss": 1.9}\n'
    )
    parser = Parser()
    found = runs(parser.feed(text.encode()) + parser.finish())
    values = [[(each.step, each.value) for each in run if isinstance(each, Measurement)] for run in found]
    assert values == [[(1, 2.0), (2, 1.5)], [(1, 1.9)]]


def losses_of(text: str) -> list[list[float]]:
    """The losses of each run of a log."""
    parser = Parser()
    found = runs(parser.feed(text.encode()) + parser.finish())
    return [[each.value for each in run if isinstance(each, Measurement)] for run in found]


def logged(*steps: int, attempt: int, key: str = "step") -> str:
    """What an attempt logs at these steps: its number and the step as its loss."""
    mark = f"[batchai] attempt {attempt} begins on node2: it reached its time limit\n" * (attempt > 1)
    return mark + "".join(f'{{"{key}": {step}, "loss": {attempt}.{step}}}\n' for step in steps)


def test_an_attempt_that_resumes_continues_the_run():
    assert losses_of(logged(1, 2, 3, attempt=1) + logged(4, 5, attempt=2)) == [[1.1, 1.2, 1.3, 2.4, 2.5]]


def test_steps_that_a_resumed_attempt_repeats_are_counted_once():
    text = logged(1, 2, 3, attempt=1) + logged(2, 3, attempt=2) + logged(3, 4, attempt=3)
    assert losses_of(text) == [[1.1, 2.2, 3.3, 3.4]]


def test_an_attempt_that_resumes_an_epoch_continues_the_run():
    text = logged(1, 2, attempt=1, key="epoch") + logged(2, 3, attempt=2, key="epoch")
    assert losses_of(text) == [[1.1, 2.2, 2.3]]


def test_an_attempt_without_a_number_yet_keeps_those_before():
    assert losses_of(logged(1, 2, attempt=1) + logged(attempt=2)) == [[1.1, 1.2]]


def test_the_summary_of_a_complete_log_covers_all_attempts(tmp_path):
    line = "{}\timages/sec: 100.0 +/- 0.0 (jitter = 0.0)\t{}.000\n"
    first, second = ("".join(line.format(step, step) for step in steps) for steps in ((1, 10, 20), (20, 30)))
    (tmp_path / "log").write_text(f"{first}[batchai] attempt 2 begins on node2: it was preempted\n{second}")
    summary = read_metrics(tmp_path / "log").summary()
    assert (summary.first_loss, summary.last_loss) == (1.0, 30.0)


def test_a_chart_marks_where_an_attempt_begins():
    text = logged(1, 2, 3, attempt=1) + logged(3, 4, attempt=2) + logged(5, attempt=3)
    parser = Parser()
    ax = plot(parser.feed(text.encode()) + parser.finish())
    assert [line.get_xdata()[0] for line in ax.lines if line.get_label() == "_attempt"] == [3, 5]
