"""What a job's processes report as numbers, wherever it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from batchai_magics.jobs.job_handle import Job
from batchai_magics.metrics import read_metrics
from batchai_magics.metrics.reading.event_files import EventFileWriter, _masked_crc
from batchai_magics.models.runs.scalar_export import ExportedRun, ScalarPoint
from batchai_magics.models.states import ExecutionState
from batchai_magics.widgets.job.job_view import follow_job
from tests.contract.place import Place
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]

REPORT = "from batchai_magics import log; [log(step=s, loss=s / 4, images_per_sec=100 * s) for s in (1, 2)]"


@pytest.mark.sample
def test_a_script_reports_numbers_on_nodes_that_have_nothing_of_ours(place: Place) -> None:
    id = place.start_ranks(f'exec python3 -S -c "{REPORT}"', count=4)
    place.wait(id)
    frame = Job(place.backend, id).metrics()
    rows = sorted(frame[["rank", "step", "loss", "images_per_sec"]].itertuples(index=False, name=None))
    assert rows == [(rank, step, step / 4, 100 * step) for rank in range(4) for step in (1, 2)]


LOGS_TO_FILES = """
import time
from pathlib import Path
print("step 1 loss 2.5", flush=True)
folder = Path("lightning_logs/version_0")
folder.mkdir(parents=True)
(folder / "metrics.csv").write_text("epoch,step,loss,val_acc\\n0,1,2.5,\\n0,2,2.0,0.5\\n0,3,1")
time.sleep(600)
"""


@pytest.mark.sample
def test_what_a_running_job_logs_to_files_joins_what_it_prints(place: Place) -> None:
    job = place.submit("r", LOGS_TO_FILES)
    until(lambda: len(job.metrics(tidy=True)) > 2)
    frame = job.metrics(tidy=True)[["metric", "step", "value", "rank"]]
    rows = sorted(frame.itertuples(index=False, name=None))
    assert rows == [("loss", 1, 2.5, 0), ("loss", 2, 2.0, 0), ("val_acc", 2, 0.5, 0)]
    assert not job.is_done
    job.cancel()


@pytest.mark.needs("stop_conditions")
def test_a_number_in_a_file_meets_a_stop_condition(place: Place) -> None:
    job = place.run_cell('r --stop-if "val_acc > 0.4"', LOGS_TO_FILES)
    (error,) = job.show().execution.errors
    assert error.message == 'stop-if "val_acc > 0.4": val_acc was 0.5 at step 2'


@pytest.mark.needs("stop_conditions")
def test_a_number_that_no_process_prints_is_told_of_at_the_end(place: Place) -> None:
    line = 'r --processes 2 --toolkit custom --stop-if "los is nan" --stop-if "loss > 3"'
    first = (
        "import os\nif os.environ['AZ_BATCHAI_TASK_INDEX'] == '0':\n  print('step 1 loss 2.5', flush=True)"
    )
    job = place.run_cell(line, first)
    assert job.state is ExecutionState.SUCCEEDED
    (error,) = job.show().execution.errors
    text = 'stop-if "los is nan" had nothing to check: no los was printed (loss)'
    assert (error.code, error.message) == ("StopConditionNotChecked", text)


@pytest.mark.sample
@pytest.mark.needs("stop_conditions")
def test_a_stop_condition_that_can_no_longer_be_evaluated_is_reported(place: Place, tmp_path: Path) -> None:
    writer = EventFileWriter(tmp_path, ExportedRun("run", "guid", "e", 1000.0))
    writer.write([ScalarPoint("val_acc", 0.1, 1, 1001.0)])
    writer.finish("", 0.0)
    (file,) = tmp_path.rglob("*tfevents*")
    length = b"\xff" * 8
    data = file.read_bytes() + length + _masked_crc(length)
    script = f"open('events.out.tfevents.1', 'wb').write({data!r})\nprint('written', flush=True)\n"
    job = place.run_cell('r --stop-if "val_acc > 0.4"', script)
    texts = [error.message for error in job.show().execution.errors]
    told = [text for text in texts if text.startswith('stop-if "val_acc > 0.4" was not evaluated to the end')]
    assert told, texts
    assert "events.out.tfevents.1: its event at byte" in told[0]


BARS = """
import sys, time
for epoch in (1, 2, 3):
    for step in range(1, 6):
        loss = 1 / epoch - step / 100
        sys.stderr.write(f"\\r{12 * step:3}%|##  | {step}/8 [00:01<00:01, 9.0it/s, loss={loss:.4f}]")
        sys.stderr.flush()
        time.sleep(0.1)
    sys.stderr.write("\\n")
    print(f"Epoch {epoch}: val_acc={epoch / 10}", flush=True)
    time.sleep(0.3)
"""


def test_live_and_reopened_views_tables_figures_and_exports_show_the_same_points(
    place: Place, tmp_path: Path
) -> None:
    job = place.submit("r", BARS)
    live = _viewed(job)
    expected = {  # an epoch has 8 steps; the bars of the last three are not drawn
        "loss": {8 * (e - 1) + s: round(1 / e - s / 100, 4) for e in (1, 2, 3) for s in (1, 2, 3, 4, 5)},
        "val_acc": {5.0: 0.1, 13.0: 0.2, 21.0: 0.3},
    }
    assert live == _viewed(job) == expected
    table = job.metrics(tidy=True)
    exported = read_metrics(job.export("tensorboard", tmp_path / "tb")).frame(tidy=True)
    for name, points in expected.items():
        for rows in (table[table["metric"] == name], exported[exported["metric"] == name]):
            assert dict(zip(rows["step"], rows["value"].round(4), strict=True)) == points
        (line,) = job.plot(metrics=name).lines
        assert dict(line.get_xydata().tolist()) == points
        found = job.summary().metric(name)
        assert found is not None
        assert (found.last_step, found.last) == list(points.items())[-1]


def _viewed(job: Job) -> dict[str, dict[float, float]]:
    """The points that a view of a job shows which is open until the job has ended, by metric."""
    model = follow_job(job)

    def has_ended() -> bool:
        model.poll()
        return model.is_over

    until(has_ended)
    found: dict[str, dict[float, float]] = {}
    for name, values in model.numbers.series.items():
        steps, _, column, *_ = (
            np.frombuffer(data, kind)
            for data, kind in zip(values.columns(0, len(values)), ("f8", "i4", "f4", "f4", "f4"), strict=True)
        )
        found[name] = {float(s): round(float(v), 4) for s, v in zip(steps, column, strict=True)}
    return found
