"""What is wrong with a description of a job, told by paths."""

import pytest

from batchai_magics.errors import SpecError
from batchai_magics.models.job_spec import JobSpec
from tests.models.samples import job_body


def problems(**changes):
    with pytest.raises(SpecError) as caught:
        JobSpec.from_wire(job_body(**changes))
    return {problem.path: str(problem) for problem in caught.value.problems}


def settings(**values):
    """A job of one toolkit, given as CNTKSettings="…"."""
    return {"horovodSettings": None, **values}
