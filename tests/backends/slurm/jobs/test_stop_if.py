"""`--stop-if` on a real Slurm: checked where the job runs, and recorded as its reason."""

from __future__ import annotations

import pytest

from batchai_magics.models.states import ExecutionState
from tests.contract.place import MOUNTED
from tests.world import kill_watchers, until

pytestmark = pytest.mark.slow
DIVERGES = """echo "{\\"step\\": 3, \\"loss\\": NaN}"; exec sleep 1000"""


def test_the_rank_on_another_node_is_named(place):
    script = f"if [ $PMI_RANK = 1 ]; then {DIVERGES}; fi; exec sleep 1000"
    job = place.wait(place.start_ranks(script, count=2, batchaiStopIf=["loss is nan"]))
    (error,) = job.execution.errors
    assert error.code == "JobStopConditionMet"
    assert error.message == 'stop-if "loss is nan": loss was nan at step 3 of rank 1'
    assert error.message in place.log(job.id, f"execution-{job.ranks[0].node}.log").decode()


def test_that_conditions_are_no_longer_watched_is_told_while_the_job_runs(place, tmp_path):
    id = place.start(f"until [ -e {MOUNTED}/go ]; do sleep 0.05; done", batchaiStopIf=["loss is nan"])

    def warning() -> str:
        kill_watchers(tmp_path)
        execution = place.backend.show(id).execution
        return "; ".join(error.message for error in execution.errors) if execution else ""

    text = until(warning)
    assert place.backend.show(id).state is ExecutionState.RUNNING
    assert text.startswith("the conditions of this job are no longer watched: ")
    assert f"warning: {text}" in place.log(id, "execution.log").decode()
    place.backend.storage.upload(place.share, {"go": b""})
    job = place.wait(id)
    assert job.state is ExecutionState.SUCCEEDED
    assert [error.message for error in job.execution.errors] == [text]
