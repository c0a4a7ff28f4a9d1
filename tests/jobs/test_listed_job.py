"""The headline metric of each job in a list."""

from datetime import datetime, timezone

import pytest

from batchai_magics.cards.card_parts import table_card_text
from batchai_magics.cards.job_list_card import job_list_card, to_html
from batchai_magics.errors import UnreachableError
from batchai_magics.follow.job_errors import cause_of
from batchai_magics.jobs.listed_job import MAX_INTERVAL_S, MAX_VALUES, ListedJob
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics.runs.metric_traits import MetricPreferences
from batchai_magics.models.states import ExecutionState
from tests.widgets.scripted_job import FAILURE, ScriptedBackend, resource, step_line


class Listed(ListedJob):
    """A job in a list whose log has this text; it is read with these options, at no cost."""

    def __init__(self, tmp_path, text, **options):
        super().__init__(resource())
        self.backend = ScriptedBackend(tmp_path)
        self.backend.write(text)
        self.options = {"clock": lambda: 0.0, "cpu_time": lambda: 0.0, **options}

    def read(self):
        self.resource = self.backend.job
        return self.advance(self.backend, **self.options)


def test_values_of_a_job_are_its_headline_metrics(tmp_path):
    listed = Listed(tmp_path, "".join(f"epoch={n} loss=9\nepoch={n} val_loss={3 - n}\n" for n in (1, 2)))
    assert listed.read()
    assert (listed.label, listed.values) == ("val_loss", [2, 1])


@pytest.mark.parametrize(("headline", "values"), [("images/sec", [210, 210]), ("loss", [2, 2])])
def test_the_user_chooses_the_metric_of_the_list(tmp_path, headline, values):
    text = "".join(step_line(step, rank, 100.0 + 10 * rank) for step in (10, 20) for rank in (0, 1))
    listed = Listed(tmp_path, text, preferences=MetricPreferences(headline=headline))
    assert listed.read()
    assert (listed.label, listed.values) == (headline, values)


def test_numbers_of_a_trainer_file_join_the_printed_ones(tmp_path):
    listed = Listed(tmp_path, "started\n")
    assert not listed.read()
    backend = listed.backend
    backend.write('{"step": 1, "loss": 3}\n{"step": 2, "loss": 2}\n', file=TRAINER_LOG)
    assert listed.read()
    assert (listed.label, listed.values) == ("loss", [3, 2])
    backend.write("step 2: loss 9\nstep 3: loss 1\n")
    assert listed.read()
    assert listed.values == [3, 2, 1]


@pytest.mark.parametrize(
    ("losses", "shown"), [("3 2 nan", "loss nan"), ("nan nan", "loss nan"), ("nan 2", "loss 2")]
)
def test_a_loss_that_is_nan_is_listed_as_nan(tmp_path, losses, shown):
    listed = Listed(tmp_path, "".join(f"step {n}: loss {loss}\n" for n, loss in enumerate(losses.split(), 1)))
    listed.read()
    card = job_list_card("default", [listed], datetime.now(timezone.utc))
    assert shown in table_card_text(card)
    assert shown in to_html(card, [listed])


def test_a_job_without_numbers_has_none(tmp_path):
    assert not Listed(tmp_path, "hello\n").read()


def test_a_long_line_is_thinned_to_few_values(tmp_path):
    listed = Listed(tmp_path, "".join(f"step {n}: loss {n}\n" for n in range(1000)))
    assert listed.read()
    assert len(listed.values) <= MAX_VALUES
    assert listed.values[-1] == 999


def test_values_that_cost_long_are_found_seldom_but_at_the_latest_after_some_seconds(tmp_path):
    now, spent = [0.0], iter(range(0, 10_000, 100))  # each look takes 100 s of the processor
    costs = {"clock": lambda: now[0], "cpu_time": lambda: float(next(spent))}
    listed = Listed(tmp_path, "step 1: loss 3\n", **costs)
    assert listed.read()
    listed.backend.write("step 2: loss 2\n")
    assert not listed.read()
    now[0] += MAX_INTERVAL_S
    assert listed.read()
    assert listed.values == [3, 2]


def test_a_failed_job_tells_why(tmp_path):
    listed = Listed(tmp_path, "")
    backend = listed.backend
    backend.write("step 1: loss 3\n", rank=2)
    assert listed.read()
    backend.write("Traceback (most recent call last):\nKeyError: 'labels'\n", "stderr.txt", rank=2)
    backend.finish(ExecutionState.FAILED, **FAILURE)
    assert listed.read()
    assert (listed.failure, listed.is_drained) == ("rank 2: exit code 1: KeyError: 'labels'", True)


def test_a_failed_job_without_readable_logs_has_the_error_of_its_state(tmp_path):
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
