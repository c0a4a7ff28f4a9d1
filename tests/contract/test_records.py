"""The records of runs: stored with the job, read like its logs, gone with the job."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchai_magics.errors import NotFoundError, StorageError, UsageError
from batchai_magics.models.runs.labels import BASELINE, LabelChange
from batchai_magics.records.record_files import SUBMISSION
from tests.contract.place import Place
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service"), pytest.mark.needs("records")]
TEXT = json.dumps({"script": "print('à la carte')"})


@pytest.mark.sample
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


@pytest.mark.needs("logged_parameters")
def test_what_a_script_logs_as_its_parameters_is_among_its_labels_without_secrets(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2-hunter2")
    script = (
        "import os\nfrom batchai_magics import log\n"
        "log(params={'lr': 0.25, 'login': 'me:' + os.environ['TOKEN']})\nlog(params={'model': 'a'}, loss=1)\n"
    )
    job = place.run_cell("logs --secret TOKEN --args '--lr 0.5 --seed 1'", script)
    assert job.labels().parameters == {"lr": 0.25, "login": "me:***", "seed": 1, "model": "a"}


@pytest.mark.sample
@pytest.mark.needs("atomic_labels")
def test_labels_are_changed_by_several_processes_at_once_and_listed(place: Place) -> None:
    hold = place.submit("hold --tag slow,wide --args '--lr 0.5'", "import time; time.sleep(1000)")
    other = place.start(name="other")

    def add(tag: str) -> None:
        with place.reopen() as backend:
            backend.records.relabel(hold.id, LabelChange((tag,)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, ("a", "b", "c", "d")))
    place.backend.records.relabel(hold.id, LabelChange(remove=("slow",), note="à la carte"))
    with place.reopen() as backend:
        found = backend.records.labels([hold.id, other, place.job("missing")])
    assert {*found} == {hold.id.key}
    labels = found[hold.id.key]
    assert ({*labels.tags}, labels.note) == ({"wide", "a", "b", "c", "d"}, "à la carte")
    assert labels.parameters == {"lr": 0.5}
    with pytest.raises(UsageError, match="is not a tag"):
        place.backend.records.relabel(other, LabelChange(("two words",)))
    with pytest.raises(NotFoundError):
        place.backend.records.relabel(place.job("missing"), LabelChange(("a",)))


@pytest.mark.sample
def test_one_run_of_an_experiment_is_the_baseline(place: Place) -> None:
    records = place.backend.records
    one, two = place.start(name="one"), place.start(name="two")
    assert records.baseline(place.experiment) == ""
    records.relabel(one, LabelChange((BASELINE,)))
    assert records.relabel(two, LabelChange((BASELINE, "wide"))).tags == (BASELINE, "wide")
    assert records.baseline(place.experiment) == "two"
    assert {key: labels.tags for key, labels in records.labels([one, two]).items()} == {
        two.key: (BASELINE, "wide")
    }
    records.relabel(one, LabelChange(remove=(BASELINE,)))
    assert records.baseline(place.experiment) == "two"
    records.relabel(two, LabelChange(remove=(BASELINE,)))
    assert records.baseline(place.experiment) == ""
    job = place.submit("three --tag baseline")
    assert records.baseline(job.id.parent) == "three"
    job.wait().delete()
    assert records.baseline(job.id.parent) == ""


@pytest.mark.needs("ownership")
def test_each_owner_has_a_baseline_of_their_own(place: Place) -> None:
    records = place.backend.records
    ids = {name: place.job(name) for name in ("a1", "b1", "a2")}
    for name, id in ids.items():
        place.backend.create(id, place.spec("true"), owner=name[0])
        records.relabel(id, LabelChange((BASELINE,)))
    assert set(records.labels(ids.values())) == {ids["b1"].key, ids["a2"].key}
    records.relabel(ids["a2"], LabelChange(remove=(BASELINE,)))
    assert set(records.labels(ids.values())) == {ids["b1"].key}
    assert records.baseline(place.experiment) == "b1"
