"""Steps of a sweep that depend on results: on Slurm, whoever reads it next takes them, in any process."""

from contextlib import closing

import pytest

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.cell import Notebook
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.jobs.sweeps.sweep_handle import FINISHED, Sweep
from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = pytest.mark.slow
LOSS = "import os\nprint('step 1 loss', os.environ['PARAM_LR'])"


def test_a_search_waits_for_its_next_reader_who_takes_it_to_its_end(place):
    line = 's --sweep "lr=log(1e-4,1)" --trials 3 --search tpe --seed 1 --parallel 1 --best "min loss"'
    request = parse_sweep(line, LOSS, settings=place.settings, notebook=Notebook())
    first = submit_sweep(place.backend, request, place.settings).sweep
    until(lambda: first.stored_trials()[0].word == "succeeded")
    assert [trial.word for trial in first.stored_trials()] == ["succeeded", "waiting", "waiting"]
    with closing(SlurmBackend(place.backend.settings)) as backend:
        found = Sweep.find(backend, "s", place.settings).wait(PATIENCE_S)
        assert (found.state, len(found.results())) == (FINISHED, 3)
