from batchai_magics.follow import JobFailed, StateChanged
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.records.job_error import JobError
from batchai_magics.widgets.job.job_output import card_bundle
from tests.widgets.scripted_job import FAILURE, JOB, ExecutionState, resource


def test_the_card_says_why_the_job_failed():
    model = JobModel()
    model.take(JobFailed(JOB, JobError("resnet", "no disk", lines=("disk full",))))
    model.take(StateChanged(resource(ExecutionState.FAILED, **FAILURE)))
    card = card_bundle(model, "")
    assert all(words in text for text in card.values() for words in ("resnet failed: no disk", "disk full"))
