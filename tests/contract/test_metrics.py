"""What a job's processes report as numbers, wherever it runs."""

from __future__ import annotations

import pytest

from batchai_magics.jobs.job_handle import Job
from tests.contract.place import Place

pytestmark = pytest.mark.slow

REPORT = "from batchai_magics import log; [log(step=s, loss=s / 4, images_per_sec=100 * s) for s in (1, 2)]"


def test_a_script_reports_numbers_on_nodes_that_have_nothing_of_ours(place: Place) -> None:
    id = place.start_ranks(f'exec python3 -S -c "{REPORT}"', count=4)
    place.wait(id)
    frame = Job(place.backend, id).metrics()
    rows = sorted(frame[["rank", "step", "loss", "images_per_sec"]].itertuples(index=False, name=None))
    assert rows == [(rank, step, step / 4, 100 * step) for rank in range(4) for step in (1, 2)]


def test_the_jobs_own_module_path_comes_first(place: Place) -> None:
    variables = [{"name": "PYTHONPATH", "value": "/mine:/yours"}]
    job = place.run("echo $PYTHONPATH", environmentVariables=variables)
    assert place.log(job.id).decode().startswith("/mine:/yours:")
