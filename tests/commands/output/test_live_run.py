import io

from rich.console import Console

from batchai_magics.commands.output.live_run import RunView
from batchai_magics.follow.job_events import MetricsAdded, StateChanged
from batchai_magics.metrics.runs.log_metrics import read_log
from tests.widgets.scripted_job import JOB, resource


def test_metrics_below_a_log_are_escaped_for_the_terminal():
    log = '{"step": 1, "a\u202eb": 1}\n{"step": 2, "a\u202eb": 2}\n'
    view, printed = RunView(), io.StringIO()
    view.feed([StateChanged(resource()), MetricsAdded(JOB, read_log(log.encode(), {}).records)])
    Console(file=printed, width=200).print(view)
    assert "a\\u202eb 2" in printed.getvalue()
    assert "\u202e" not in printed.getvalue()
