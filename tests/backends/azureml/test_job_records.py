"""What runs keep about themselves is in the service: in tags, variables, and files that nodes wrote."""

import json
from dataclasses import replace

import pytest

from batchai_magics.backends.azureml.job_names import labels_of, run_name, tags_of
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.errors import UsageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.runs.labels import BASELINE, LabelChange, Labels
from tests.backends.azureml.job_specs import job_spec

RECORDS = {
    "submission.json": '{"line": "one"}',
    "labels.json": json.dumps({"tags": ["good"], "parameters": {"lr": 0.1}}),
    "notify.json": '["mailto://me:secret@example.org"]',
}


@pytest.fixture
def create(backend, experiment):
    def make(name="one", records=RECORDS):
        return backend.create(experiment.child(Kind.JOB, name), job_spec(experiment), records=records).id

    return make


@pytest.mark.parametrize(
    "labels",
    [
        Labels(),
        Labels(("good", "best"), "a note", {}),
        Labels(("good",), patterns={"psnr": r"psnr é ([\d.]+)"}),
        Labels(
            (), "", {"lr": 0.1, "layers": 18, "name": "resnet", "is_tuned": True, "text": "12", "none": ""}
        ),
    ],
)
def test_labels_are_the_tags_of_a_job(labels):
    assert labels_of(tags_of(labels)) == labels


def test_tags_of_somebody_else_are_labels(backend, experiment):
    assert labels_of({"team": "vision", "checked": "", "step": "3"}) == Labels(
        ("checked",), "", {"team": "vision", "step": 3}
    )


def test_patterns_of_metrics_are_kept_and_added_to(backend, create):
    id = create(records={"labels.json": Labels(patterns={"psnr": "psnr (.*)"}).to_text()})
    backend.records.relabel(id, LabelChange(patterns={"ssim": "ssim (.*)"}))
    expected = {"psnr": "psnr (.*)", "ssim": "ssim (.*)"}
    assert backend.records.labels([id])[id.key] == Labels(patterns=expected)
    assert Job(backend, id).patterns == expected


@pytest.mark.parametrize("text", ["psnr", "[1]", '{"psnr": 1}'])
def test_a_tag_of_patterns_that_is_none_has_none(text):
    assert labels_of({"batchai_patterns": text}) == Labels()


def test_what_was_submitted_is_kept_without_addresses_of_notifications(backend, azure, create):
    id = create()
    found = backend.records.read(id, ["submission.json", "labels.json", "notify.json"])
    assert json.loads(found["submission.json"]) == {"line": "one"}
    assert json.loads(found["labels.json"])["tags"] == ["good"]
    assert "notify.json" not in found
    assert azure.jobs.find(run_name(id)).properties["tags"] == {"good": "", "lr": "0.1"}


def test_labels_change_while_a_job_runs(backend, azure, create):
    id = create()
    azure.set_status(run_name(id), "Running")
    backend.records.relabel(id, LabelChange(add=("fast",), remove=("good",), note="it works"))
    assert backend.records.labels([id]) == {id.key: Labels(("fast",), "it works", {"lr": 0.1})}
    assert backend.show(id).spec == job_spec(id.parent)


def test_a_tag_that_is_no_word_is_refused(backend, create):
    with pytest.raises(UsageError):
        backend.records.relabel(create(), LabelChange(add=("no word",)))


def test_each_user_has_a_baseline_of_their_own(backend, azure, create):
    first = create("one")
    backend.records.relabel(first, LabelChange(add=(BASELINE,)))
    second = create("two")
    azure.jobs.find(run_name(second)).creator = "Bob"
    backend.records.relabel(second, LabelChange(add=(BASELINE,)))
    assert BASELINE in backend.records.labels([first])[first.key].tags


def test_a_job_with_the_rights_of_its_submitter_gets_a_token(settings, azure, experiment):
    own = replace(settings.sections["azureml"], identity="user")
    backend = open_backend(replace(settings, sections={"azureml": own}))
    backend.create(experiment.child(Kind.JOB, "one"), job_spec(experiment))
    (sent,) = [
        each.request
        for each in azure.exchanges
        if each.request.method == "PUT" and "/jobs/" in each.request.path
    ]
    assert sent.headers["x-azureml-token"].startswith("token-")
    assert sent.json()["properties"]["identity"] == {"identityType": "UserIdentity"}
    backend.close()


def test_a_job_that_another_process_replaced_is_the_new_one(backend, settings, azure, create, experiment):
    id = create()
    azure.set_status(run_name(id), "Completed")
    other = open_backend(settings)
    other.delete(id)
    other.create(id, job_spec(experiment, nodes=2))
    assert backend.show(id).spec.node_count == 2
    other.close()
