"""`--stop-if`, with real jobs."""

from pathlib import Path

import pytest

from batchai_magics import cli
from batchai_magics.cards.job_card import to_text
from batchai_magics.commands.handlers.job_wait import job_exit
from batchai_magics.errors import JobFailedError, SpecError, UsageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_overview import job_overview
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.world import World

pytestmark = pytest.mark.slow

DIVERGES = """
import time
for step in range(100_000):
    loss = "NaN" if step > 3 else 0.5
    print(f'{{"step": {step}, "loss": {loss}}}', flush=True)
    time.sleep(0.05)
"""


def test_a_bad_condition_is_refused_and_nothing_written(world: World) -> None:
    with pytest.raises(UsageError, match="--stop-if: 'loss = nan' is not a valid condition"):
        world.submit('r --stop-if "loss = nan"')
    fields = {"cluster": {"id": str(world.cluster)}, "nodeCount": 1, "stdOutErrPathPrefix": "x"}
    fields |= {"customToolkitSettings": {"commandLine": "true"}, "batchaiStopIf": ["loss is nan", "loss"]}
    with pytest.raises(SpecError, match=r"properties\.batchaiStopIf\[1\]: 'loss' is not a valid condition"):
        JobSpec.from_wire({"properties": fields})
    spec = JobSpec.from_wire(
        {"properties": {**fields, "batchaiStopIf": ["x > 1"], "batchaiPatterns": {"x": "x=1"}}}
    )
    with pytest.raises(SpecError, match=r"properties\.batchaiPatterns\.x: [\s\S]*has no group"):
        world.backend.create(world.job_id("r"), spec)
    assert not world.backend.list(world.experiment, world.job_id("r").kind)


def test_a_job_ends_when_a_condition_of_its_file_or_line_is_met_and_says_why(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BATCHAI_HOME", str(world.home))
    script = tmp_path / "train.py"
    script.write_text(DIVERGES)
    file = tmp_path / "job.json"
    file.write_text(
        '{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/x",'
        f' "customToolkitSettings": {{"commandLine": "python {script}"}}, "batchaiStopIf": ["loss > 99"]}}}}'
    )
    line = ["job", "create", "-n", "r", "-f", str(file), "-c", world.settings.cluster]
    cli.main([*line, "--stop-if", "loss is nan"])
    job = Job(world.backend, world.job_id("r")).wait(PATIENCE_S)
    shown = job.show()
    assert shown.spec.batchai_stop_if == ("loss > 99", "loss is nan")
    assert (shown.state, shown.word) == (ExecutionState.FAILED, "stopped")
    (error,) = shown.execution.errors
    assert error.code == "JobStopConditionMet"
    assert error.message == 'stop-if "loss is nan": loss was nan at step 4'
    assert error.message in to_text(job_overview(job))
    assert error.message in job.log(file="execution.log")
    assert job_exit(shown).exit_code == 143
    assert job_exit(shown).text == f'the job "r" was stopped: {error.message}'
    with pytest.raises(JobFailedError, match="no result: r was stopped: stop-if"):
        _ = job.result
