from batchai_magics.follow import FailureFound, StateChanged
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.records.job_error import JobError
from batchai_magics.widgets.job.job_output import card_of
from tests.widgets.scripted_job import FAILURE, JOB, ExecutionState, resource


def test_the_card_says_why_the_job_failed():
    model, error = JobModel(), JobError("resnet", "no disk", lines=("no disk",))
    model.take(FailureFound(JOB, error))
    model.take(StateChanged(resource(ExecutionState.FAILED, **FAILURE)))
    assert card_of(model, "").error == error
