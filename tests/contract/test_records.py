"""The records of runs: stored with the job, read like its logs, gone with the job."""

from __future__ import annotations

import json

import pytest

from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.records.record_files import SUBMISSION
from tests.contract.place import Place
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.needs("records")]
TEXT = json.dumps({"script": "print('à la carte')"})


def test_a_job_has_the_records_that_it_was_created_with(place: Place) -> None:
    id, spec = place.job(), place.spec()
    place.backend.create(id, spec, records={SUBMISSION: TEXT})
    place.backend.create(id, spec, records={SUBMISSION: "another"})  # the same job: nothing changes
    with place.reopen() as other:
        for backend in (place.backend, other):
            assert backend.records.read(id, [SUBMISSION, "missing", "missing/"]) == {
                SUBMISSION: TEXT.encode()
            }
    with pytest.raises(StorageError):
        place.backend.records.read(id, ["../job.json"])
    place.wait(id)
    place.backend.delete(id)
    with pytest.raises(NotFoundError):
        place.backend.records.read(id, [SUBMISSION])


def test_a_cell_records_what_ran_and_the_machines_that_it_ran_on(place: Place) -> None:
    script = "import signal\nsignal.sigwait([signal.SIGTERM])\n"
    job = place.submit("train --args '--lr 0.5' --env A=1", script)
    until(lambda: job.provenance().machines)
    seen = job.provenance()
    job.cancel()
    assert (seen.submission.code.text, seen.submission.arguments) == (script, "--lr 0.5")
    assert seen.submission.environment == {"A": "1"}
    (machine,) = seen.machines
    assert machine.cores > 0
    assert machine.packages["pydantic"]
    assert "Python" in repr(job.wait().provenance())
