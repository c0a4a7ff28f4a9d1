"""Runs by tags and conditions, and their columns in a list."""

import json

import pytest

from batchai_magics.errors import UsageError
from batchai_magics.jobs.run_selection import RunSelection
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.runs.labels import Labels, varying_parameters
from tests.commands.conftest import cluster, context, do, job_file
from tests.widgets.scripted_job import ScriptedBackend, resource

__all__ = ["cluster", "context", "do", "job_file"]
LABELS = {
    "one": Labels(("wide", "Best"), parameters={"lr": 0.1, "model": "a"}),
    "two": Labels(("wide",), parameters={"lr": 0.5, "model": "a", "amp": True}),
    "three": Labels(parameters={"model": "a"}),
}


class Labelled(ScriptedBackend):
    """A backend whose runs have labels and no log."""

    def __init__(self, folder):
        super().__init__(folder)
        self.records = self
        self.jobs = [self._job(name) for name in (*LABELS, "four")]

    def labels(self, jobs):
        return {id.key: LABELS[id.name] for id in jobs if id.name in LABELS}

    def _job(self, name):
        job = resource()
        vars(job)["id"] = job.id.parent.child(Kind.JOB, name)
        return job


def selected(backend, tags=(), where=()):
    return [job.id.name for job in RunSelection.of(tags, where).of_jobs(backend, backend.jobs).jobs]


@pytest.mark.parametrize(
    ("tags", "where", "names"),
    [
        ((), (), ["one", "two", "three", "four"]),
        (("WIDE",), (), ["one", "two"]),
        (("wide", "best"), (), ["one"]),
        (("missing",), (), []),
        ((), ("lr < 0.3",), ["one"]),
        (("wide",), ("lr >= 0.1", "lr != 0.1"), ["two"]),
        ((), ("amp == 1",), ["two"]),
        ((), ("amp == true",), ["two"]),
        ((), ("model == A", "lr < 0.3"), ["one"]),
        ((), ("model != 'b'",), ["one", "two", "three"]),
    ],
)
def test_runs_with_all_tags_that_meet_all_conditions_are_selected(tmp_path, tags, where, names):
    assert selected(Labelled(tmp_path), tags, where) == names


def test_names_that_no_run_has_are_reported(tmp_path):
    backend = Labelled(tmp_path)
    found = RunSelection.of((), ("lr < 0.3", "mode == a", "los < 1")).of_jobs(backend, backend.jobs)
    assert (found.jobs, found.unknown) == ([], ("mode", "los"))
    assert found.notes[0] == "No run here has a parameter or metric mode."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("loss", "has no comparison; write it as `loss < 0.3`"),
        ("loss < 1 for 5m", "one value"),
        ("loss = 1", "use =="),
        ("model < a", "not a valid condition"),
    ],
)
def test_a_condition_that_cannot_be_is_refused(text, reason):
    with pytest.raises(UsageError, match=f"--where.*{reason}"):
        RunSelection.of((), (text,))


def test_only_parameters_that_differ_are_columns():
    assert varying_parameters(LABELS.values(), 6) == ["lr", "amp"]
    assert varying_parameters(LABELS.values(), 1) == ["lr"]
    assert varying_parameters([LABELS["one"]], 6) == ["lr", "model"]
    assert varying_parameters([], 6) == []
    every = [Labels(parameters={"lr": rate}) for rate in (0.1, 0.2)] + [Labels(parameters={"epochs": 3})]
    assert varying_parameters(every, 6) == ["lr", "epochs"]
    assert varying_parameters(every, 6, least_share=0.5) == ["lr"]  # few runs have the other


@pytest.mark.slow
def test_the_shell_labels_runs_and_finds_them_by_labels_and_metrics(do, cluster, job_file):
    for name, loss in (("good", 0.2), ("bad", 0.7)):
        line = json.dumps({"step": 1, "loss": loss})
        file = job_file(f"echo '{line}' # --lr {loss}")
        do(f"job create -n {name} -f {file} --tag wide").value.wait()
    assert [job.id.name for job in do("job list --where 'loss < 0.3'").value] == ["good"]
    assert [job.id.name for job in do("job list --tag wide --top 1").value] == ["bad"]
    shown = do("job update -n good --tag baseline --untag wide --note 'as in the paper'")
    assert shown.data["tags"] == ["baseline"]
    table = do("job list").table
    assert table.titles[-3:] == ("lr", "Tags", "Note")
    assert [row[-3:] for row in table.rows] == [(0.2, "baseline", "as in the paper"), (0.7, "wide", "")]
    assert do("job provenance -n good").data["arguments"].endswith("--lr 0.2")
    with pytest.raises(UsageError, match="nothing to change"):
        do("job update -n good")
