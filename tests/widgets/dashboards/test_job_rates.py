"""The headline metric of each job in a list."""

from datetime import datetime, timezone

import pytest

from batchai_magics.cards.card_parts import table_card_text
from batchai_magics.cards.job_list_card import ListedJob, job_list_card, to_html
from batchai_magics.errors import UnreachableError
from batchai_magics.follow.job_errors import cause_of
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics.runs.metric_traits import MetricPreferences
from batchai_magics.models.states import ExecutionState
from batchai_magics.widgets.dashboards.jobs_dashboard import MAX_INTERVAL_S, MAX_VALUES, JobRates
from tests.widgets.scripted_job import FAILURE, ScriptedBackend, resource, step_line


def reader(tmp_path, text, **options):
    backend = ScriptedBackend(tmp_path)
    backend.write(text)
    return JobRates(backend, backend.job, clock=lambda: 0.0, cpu_time=lambda: 0.0, **options)


def test_values_of_a_job_are_its_headline_metrics(tmp_path):
    rates = reader(tmp_path, "".join(f"epoch={n} loss=9\nepoch={n} val_loss={3 - n}\n" for n in (1, 2)))
    assert rates.advance(resource())
    assert (rates.label, rates.values) == ("val_loss", [2, 1])


@pytest.mark.parametrize(("headline", "values"), [("images/sec", [210, 210]), ("loss", [2, 2])])
def test_the_user_chooses_the_metric_of_the_list(tmp_path, headline, values):
    text = "".join(step_line(step, rank, 100.0 + 10 * rank) for step in (10, 20) for rank in (0, 1))
    rates = reader(tmp_path, text, preferences=MetricPreferences(headline=headline))
    assert rates.advance(resource())
    assert (rates.label, rates.values) == (headline, values)


def test_what_a_trainer_logs_to_a_file_joins_what_is_printed(tmp_path):
    rates = reader(tmp_path, "started\n")
    assert not rates.advance(resource())
    backend = ScriptedBackend(tmp_path)
    backend.write('{"step": 1, "loss": 3}\n{"step": 2, "loss": 2}\n', file=TRAINER_LOG)
    assert rates.advance(resource())
    assert (rates.label, rates.values) == ("loss", [3, 2])
    backend.write("step 2: loss 9\nstep 3: loss 1\n")
    assert rates.advance(resource())
    assert rates.values == [3, 2, 1]


@pytest.mark.parametrize(
    ("losses", "shown"), [("3 2 nan", "loss nan"), ("nan nan", "loss nan"), ("nan 2", "loss 2")]
)
def test_a_loss_that_is_nan_is_listed_as_nan(tmp_path, losses, shown):
    rates = reader(tmp_path, "".join(f"step {n}: loss {loss}\n" for n, loss in enumerate(losses.split(), 1)))
    rates.advance(resource())
    listed = [ListedJob(resource(), rates.values, rates.label, last=rates.last)]
    card = job_list_card("default", listed, datetime.now(timezone.utc))
    assert shown in table_card_text(card)
    assert shown in to_html(card, listed)


def test_a_job_without_numbers_has_none(tmp_path):
    assert not reader(tmp_path, "hello\n").advance(resource())


def test_a_long_line_is_thinned_to_few_values(tmp_path):
    rates = reader(tmp_path, "".join(f"step {n}: loss {n}\n" for n in range(1000)))
    assert rates.advance(resource())
    assert len(rates.values) <= MAX_VALUES
    assert rates.values[-1] == 999


def test_values_that_cost_long_are_found_seldom_but_at_the_latest_after_some_seconds(tmp_path):
    now, spent = [0.0], iter(range(0, 10_000, 100))  # each look takes 100 s of the processor
    backend = ScriptedBackend(tmp_path)
    backend.write("step 1: loss 3\n")
    rates = JobRates(backend, backend.job, clock=lambda: now[0], cpu_time=lambda: float(next(spent)))
    assert rates.advance(resource())
    backend.write("step 2: loss 2\n")
    assert not rates.advance(resource())
    now[0] += MAX_INTERVAL_S
    assert rates.advance(resource())
    assert rates.values == [3, 2]


def test_a_failed_job_tells_why(tmp_path):
    backend = ScriptedBackend(tmp_path)
    backend.write("step 1: loss 3\n", rank=2)
    rates = JobRates(backend, backend.job)
    assert rates.advance(backend.job)
    backend.write("Traceback (most recent call last):\nKeyError: 'labels'\n", "stderr.txt", rank=2)
    backend.finish(ExecutionState.FAILED, **FAILURE)
    assert rates.advance(backend.job)
    assert (rates.failure, rates.is_drained) == ("rank 2: exit code 1: KeyError: 'labels'", True)


def test_a_failed_job_whose_logs_are_out_of_reach_tells_what_is_known_without_them(tmp_path):
    backend = ScriptedBackend(tmp_path)
    backend.write("step 1: loss 3\n")
    backend.finish(ExecutionState.FAILED, **FAILURE)
    read = backend.read

    def read_unless_stderr(file, offset=0, limit=1 << 20):
        if file.path == "stderr.txt":
            raise UnreachableError("no answer")
        return read(file, offset, limit)

    backend.read = read_unless_stderr
    assert cause_of(backend, backend.job) == "rank 2: exit code 1"
