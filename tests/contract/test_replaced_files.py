"""A job replaces the files of its own run: that is its own trouble, and nobody else's."""

from __future__ import annotations

import json

import pytest

from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.artifacts import FOLDER
from batchai_magics.records.record_files import PARAMETERS
from tests.contract.place import Place
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes"), pytest.mark.needs("records")]
RUN = 'cd "$BATCHAI_ARTIFACT_DIR/.." && mkdir -p records/artifacts telemetry'
RECORDS = ("records/parameters.json", "records/headline.json", "records/artifacts/0.jsonl")
FILES = (*RECORDS, "telemetry/x.jsonl", "stdout.spans", "stdout.times")
PIPES = "; ".join(f"rm -f {name}; mkfifo {name}" for name in FILES)
DEEP = "[" * 100_000
BAD = {
    "deep": DEEP,
    "surrogate": '{"\\ud800": 1}',
    "another type": '[{"path": [], "time": 1e300}]',
    "no JSON": "\0\xff",
}


@pytest.mark.needs("logged_parameters")
def test_pipes_in_place_of_records_block_no_reader(place: Place) -> None:
    bad = place.start(f"{RUN}; {PIPES}; echo replaced; exec sleep 1000", name="bad")
    until(lambda: b"replaced" in place.log(bad))
    good = place.run("echo fine", name="good")
    assert good.state is ExecutionState.SUCCEEDED
    records = place.backend.records
    assert records.labels([bad, good.id]) == {}
    assert set(records.read(bad, [PARAMETERS, FOLDER]).values()) == {b""}
    assert Job(place.backend, bad).artifacts() == []
    assert [text for text in Job(place.backend, bad).provenance().problems if PARAMETERS in text]
    if place.backend.telemetry:
        place.backend.telemetry.read(bad)
    place.backend.terminate(bad)
    assert place.wait(bad).state is ExecutionState.FAILED


@pytest.mark.needs("logged_parameters")
def test_bad_records_are_a_problem_of_their_own_run(place: Place) -> None:
    script = "import os\nos.chdir(os.environ['BATCHAI_ARTIFACT_DIR'] + '/..')\n"
    script += "os.makedirs('records/artifacts', exist_ok=True)\n"
    lines = [
        f"for name in {RECORDS!r}:\n    open(name, 'w').write({text!r} + chr(10))\n" for text in BAD.values()
    ]
    bad = [place.submit(f"bad{number}", script + line) for number, line in enumerate(lines)]
    good = place.run_cell("good", "from batchai_magics import log\nlog(params={'lr': 0.5})\n")
    for job in bad:
        job.wait(PATIENCE_S)
    labels = place.backend.records.labels([*(job.id for job in bad), good.id])
    assert json.dumps([dict(each.parameters) for each in labels.values()], ensure_ascii=False).encode()
    assert labels[good.id.key].parameters["lr"] == 0.5
    for job, text in zip(bad, BAD.values(), strict=True):
        assert job.artifacts() == []
        assert [each for each in job.provenance().problems if PARAMETERS in each] or "path" in text
