"""Jobs are created whole or not at all, once, and with what they need."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.azureml.job_creation import ALWAYS, ON_CLUSTERS, REQUIRED, SECRETS
from batchai_magics.backends.azureml.job_names import run_name
from batchai_magics.backends.azureml.node.job_variables import RUN, SPEC, packed, unpacked
from batchai_magics.backends.base import FileRef, JobNeeds
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.base.capabilities import unsupported_fields
from batchai_magics.errors import CapabilityError, ConflictError, UnreachableError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.azureml.faults import refusal
from tests.azureml.workspace import ROOT
from tests.backends.azureml.job_specs import job_spec

SHARE = {
    "accountName": "acct",
    "azureFileUrl": "https://acct.file.core.windows.net/data",
    "credentials": {"accountKey": "c2VjcmV0"},
    "relativeMountPath": "data",
}
CONTAINER = {"accountName": "acct", "containerName": "models", "relativeMountPath": "models"}


@pytest.fixture
def create(backend, experiment):
    def make(name="one", **properties):
        return backend.create(experiment.child(Kind.JOB, name), job_spec(experiment, **properties))

    return make


def sent(azure, experiment, name="one"):
    return azure.jobs.find(run_name(experiment.child(Kind.JOB, name))).properties


def uploads(azure):
    return [each for each in azure.exchanges if each.request.method == "PUT" and "blob" in each.request.host]


def test_a_job_without_a_cluster_runs_on_nodes_of_its_own(create, azure, experiment):
    create()
    body = sent(azure, experiment)
    assert body["resources"] == {"instanceCount": 1, "instanceType": "Standard_DS3_v2"}
    assert (body["queueSettings"], "distribution" in body) == ({"jobTier": "Standard"}, False)
    assert (body["experimentName"], body["displayName"]) == ("first", "one")


def test_a_job_on_a_cluster_names_its_compute(create, azure, experiment):
    azure.computes.add("cpu", maximum=2)
    create(cluster="cpu")
    body = sent(azure, experiment)
    assert body["computeId"] == f"{ROOT}/computes/cpu"
    assert "instanceType" not in body["resources"]


def test_spot_nodes_and_other_sizes_are_asked_for(create, azure, experiment):
    create(batchaiSpot="yes", batchaiSize="Standard_NC24ads_A100_v4")
    body = sent(azure, experiment)
    assert body["queueSettings"] == {"jobTier": "Spot"}
    assert body["resources"]["instanceType"] == "Standard_NC24ads_A100_v4"


@pytest.mark.parametrize(
    ("priority", "tier"), [("low", "Spot"), ("normal", "Standard"), ("high", "Standard")]
)
def test_a_priority_is_one_of_the_tiers_of_serverless_compute(create, azure, experiment, priority, tier):
    create(schedulingPriority=priority)
    assert sent(azure, experiment)["queueSettings"] == {"jobTier": tier}


@pytest.mark.parametrize(
    ("toolkit", "given", "distribution"),
    [
        ("horovodSettings", {"pythonScriptFilePath": "a.py", "processCount": 4}, ("Mpi", 2)),
        ("customMpiSettings", {"commandLine": "./a", "processCount": 2}, ("Mpi", 1)),
        ("pyTorchSettings", {"pythonScriptFilePath": "a.py", "processCount": 4}, ("PyTorch", 2)),
        ("customToolkitSettings", {"commandLine": "./a", "batchaiProcessCount": 2}, ("PyTorch", 1)),
    ],
)
def test_each_toolkit_has_a_distribution(create, azure, experiment, toolkit, given, distribution):
    create(nodes=2, **{toolkit: given})
    kind, per_node = distribution
    assert sent(azure, experiment)["distribution"] == {
        "distributionType": kind,
        "processCountPerInstance": per_node,
    }


def test_tensorflow_has_workers_and_parameter_servers(create, azure, experiment):
    settings = {"pythonScriptFilePath": "a.py", "workerCount": 2, "parameterServerCount": 1}
    create(nodes=2, tensorFlowSettings=settings)
    assert sent(azure, experiment)["distribution"] == {
        "distributionType": "TensorFlow",
        "workerCount": 2,
        "parameterServerCount": 1,
    }


def test_as_many_processes_start_as_nodes_have_gpus(create, azure, experiment):
    create(batchaiSize="Standard_ND96isr_H100_v5", horovodSettings={"pythonScriptFilePath": "a.py"})
    assert sent(azure, experiment)["distribution"]["processCountPerInstance"] == 8


def test_a_job_that_another_process_creates_meanwhile_is_not_overwritten(create, azure, backend):
    existing = backend.jobs.existing
    backend.jobs.existing = lambda id: (1, None)  # as seen before the other process creates it
    create()
    with pytest.raises(ConflictError):
        create(nodes=2)
    backend.jobs.existing = existing
    assert create().spec.node_count == 1


def test_a_new_job_of_a_deleted_ones_name_has_logs_and_samples_of_its_own(create, azure, backend):
    id, log, use = create().id, "user_logs/std_log.txt", "logs/batchai/telemetry/0.jsonl"
    head = {"version": 1, "machine": "m", "nodes": {"0": "n"}, "notes": ["old"]}
    azure.write_log(run_name(id), log, b"old\n")
    azure.write_log(run_name(id), use, json.dumps(head).encode() + b"\n")
    azure.set_status(run_name(id), "Completed")
    assert backend.read(FileRef(id, "stdout.txt")).data == b"old\n"
    assert backend.telemetry.read(id).notes == ("old",)
    backend.delete(id)
    create()
    azure.write_log(run_name(id, 2), log, b"new\n")
    azure.set_status(run_name(id, 2), "Completed")
    assert backend.read(FileRef(id, "stdout.txt")).data == b"new\n"
    assert backend.telemetry.read(id).notes == ()


def test_an_ended_job_of_another_version_is_shown_without_what_cannot_be_read(create, azure, backend):
    id = create().id
    variables = azure.jobs.find(run_name(id)).properties["environmentVariables"]
    variables[RUN] = packed({**unpacked(variables[RUN]), "plan": '{"version": 1}'})
    end = Outcome(3, ranks=(ProcessExit(0, "n", 3, 1764.5),))
    azure.write_log(run_name(id), "logs/batchai/exits/0.json", end.to_json().encode())
    azure.set_status(run_name(id), "Failed")
    assert backend.show(id).execution.exit_code == 3


def test_a_queued_job_says_why_and_a_running_one_is_cancelled_once(create, azure, backend):
    made = create()
    assert backend.show(made.id).waiting == "the service is starting it"
    azure.set_status(run_name(made.id), "Running")
    backend.terminate(made.id)
    assert backend.show(made.id).state is ExecutionState.TERMINATING
    azure.set_status(run_name(made.id), "Canceled")
    backend.terminate(made.id)
    shown = backend.show(made.id)
    assert (shown.state, shown.is_cancelled) == (ExecutionState.FAILED, True)


def test_a_job_of_somebody_else_is_shown_with_what_is_known(start, backend, experiment):
    start(
        "calm_rose_x1",
        command="python train.py",
        resources={"instanceCount": 2, "instanceType": "Standard_DS3_v2"},
        distribution={"distributionType": "PyTorch", "processCountPerInstance": 1},
    )
    (listed,) = backend.list(experiment, Kind.JOB)
    shown = backend.show(listed.id)
    assert (shown.id.name, shown.spec.node_count) == ("calm_rose_x1", 2)
    assert shown.spec.backend_options == {"size": "Standard_DS3_v2"}
    assert shown.spec.custom_toolkit_settings.command_line == "python train.py"
    assert shown.spec.container_settings.image_source_registry.image == "azureml:image:1"


CREDENTIALS = {"username": "me", "password": "x"}
GIVEN = {
    "containerSettings.imageSourceRegistry.credentials": {
        "containerSettings": {"imageSourceRegistry": {"image": "i", "credentials": CREDENTIALS}}
    },
    "mountVolumes.azureFileShares[].fileMode": {
        "mountVolumes": {"azureFileShares": [{**SHARE, "fileMode": "0700"}]}
    },
    "mountVolumes.azureFileShares[].directoryMode": {
        "mountVolumes": {"azureFileShares": [{**SHARE, "directoryMode": "0700"}]}
    },
    "mountVolumes.azureBlobFileSystems[].mountOptions": {
        "mountVolumes": {"azureBlobFileSystems": [{**CONTAINER, "mountOptions": "-o x"}]}
    },
    "mountVolumes.azureFileShares[].credentials.accountKey": {
        "mountVolumes": {"azureFileShares": [{**SHARE, "credentials": {}}]}
    },
    "secrets": {"secrets": [{"name": "A", "value": "b"}]},
    "environmentVariables[].value": {"environmentVariables": [{"name": "HF_TOKEN", "value": "abc"}]},
    "mountVolumes.fileServers": {
        "mountVolumes": {"fileServers": [{"fileServer": {"id": "x"}, "relativeMountPath": "a"}]}
    },
    "mountVolumes.unmanagedFileSystems": {
        "mountVolumes": {"unmanagedFileSystems": [{"mountCommand": "x", "relativeMountPath": "a"}]}
    },
    "batchaiMaxRestarts": {"batchaiMaxRestarts": 1},
    "batchaiSignalBefore": {"batchaiSignalBefore": "PT1M"},
    "batchaiGpus": {"batchaiGpus": 1},
    "batchaiPreflight": {"batchaiPreflight": "stop"},
}
PAGE = Path(__file__).parents[3] / "docs" / "azureml.md"


def test_every_unsupported_field_is_tried():
    assert {*ALWAYS, *REQUIRED, *SECRETS} <= GIVEN.keys()


def test_the_page_names_every_field_that_is_refused(backend):
    refused = [*GIVEN, *ON_CLUSTERS, *unsupported_fields(backend.capabilities)]
    page = PAGE.read_text(encoding="utf-8")
    assert [field for field in refused if not any(f"`{part}`" in page for part in parts(field))] == []


def parts(field: str) -> list[str]:
    """A field and those that it is a part of, by their whole paths and by their names."""
    names = field.split(".")
    return [*(".".join(names[: count + 1]) for count in range(len(names))), names[-1]]


@pytest.mark.parametrize("field", GIVEN)
def test_what_the_service_cannot_do_is_refused_before_anything_is_sent(create, azure, field):
    with pytest.raises(CapabilityError) as caught:
        create(**GIVEN[field])
    assert (field in caught.value.message, bool(caught.value.hint)) == (True, True)
    assert azure.exchanges == []


def test_a_number_is_no_secret_whatever_its_name(create, azure, experiment):
    create(environmentVariables=[{"name": "MAX_TOKEN", "value": "512"}])
    assert sent(azure, experiment)["environmentVariables"]


@pytest.mark.parametrize(
    ("properties", "field"),
    [
        ({"schedulingPriority": "high"}, "schedulingPriority"),
        ({"batchaiSpot": "yes"}, "batchaiSpot"),
        ({"batchaiSize": "Standard_NC6"}, "batchaiSize"),
    ],
)
def test_what_a_cluster_decides_a_job_cannot(create, azure, properties, field):
    with pytest.raises(CapabilityError, match=field):
        create(cluster="cpu", **properties)
    assert azure.exchanges == []


def test_secrets_are_sent_only_with_consent(settings, azure, experiment):
    own = replace(settings.sections["azureml"], visible_secrets="yes")
    backend = open_backend(replace(settings, sections={"azureml": own}))
    secret = [{"name": "KEY", "value": "hunter-22"}]
    made = backend.create(experiment.child(Kind.JOB, "one"), job_spec(experiment, secrets=secret))
    variables = sent(azure, experiment)["environmentVariables"]
    assert variables["KEY"] == "hunter-22"
    assert "hunter-22" not in str(backend.show(made.id))
    backend.close()


def test_code_is_uploaded_once_for_the_same_contents(create, azure):
    create("one")
    count = len(uploads(azure))
    create("two")
    assert (count, len(uploads(azure))) == (2, 2)


def test_an_upload_that_fails_leaves_no_code_and_no_job(create, azure):
    azure.faults.add(refusal(503), "blob.core", method="PUT", count=99)
    with pytest.raises(UnreachableError):
        create()
    assert (azure.workspace.codes, azure.jobs.jobs) == ({}, {})


def test_earlier_runs_are_found_by_one_request(create, azure, backend, experiment):
    for name in ("one", "one-2", "other"):
        azure.set_status(run_name(create(name).id), "Completed")
    sent_before = len(azure.exchanges)
    found = backend.ensure(JobNeeds(experiment.child(Kind.JOB, "one")))
    assert [(job.id.name, job.state.is_final) for job in found] == [("one", True), ("one-2", True)]
    assert len(azure.exchanges) == sent_before + 1


def test_shares_and_containers_become_datastores(create, azure, experiment):
    create(mountVolumes={"azureFileShares": [SHARE], "azureBlobFileSystems": [CONTAINER]})
    outputs = sent(azure, experiment)["outputs"]
    assert [item["mode"] for item in outputs.values()] == ["ReadWriteMount", "ReadWriteMount"]
    variables = sent(azure, experiment)["environmentVariables"]
    packed = [unpacked(variables[name]) for name in (SPEC, RUN)]
    assert "acct" in str(packed)
    assert "c2VjcmV0" not in f"{packed} {sent(azure, experiment)}"


def test_an_image_becomes_an_environment_and_a_curated_one_is_one(create, azure, experiment):
    image = {"imageSourceRegistry": {"image": "pytorch:2", "serverUrl": "lab.azurecr.io"}, "shmSize": "2g"}
    create("one", containerSettings=image)
    (made,) = azure.workspace.environments.values()
    assert made["image"] == "lab.azurecr.io/pytorch:2"
    assert sent(azure, experiment)["resources"]["shmSize"] == "2g"
    curated = "azureml://registries/azureml/environments/acpt-pytorch/labels/latest"
    create("two", containerSettings={"imageSourceRegistry": {"image": curated}})
    assert sent(azure, experiment, "two")["environmentId"] == curated


def test_a_conda_file_is_part_of_the_environment(create, azure, tmp_path):
    file = tmp_path / "conda.yaml"
    file.write_text("dependencies: [numpy]\n")
    create(batchaiConda=str(file))
    (made,) = azure.workspace.environments.values()
    assert made["condaFile"] == "dependencies: [numpy]\n"


def test_an_address_of_data_is_mounted_as_an_input(create, azure, experiment):
    uri = "azureml://datastores/workspaceblobstore/paths/data/"
    create(inputDirectories=[{"id": "DATA", "path": uri}])
    body = sent(azure, experiment)
    assert body["inputs"]["DATA"] == {"jobInputType": "uri_folder", "mode": "ReadOnlyMount", "uri": uri}
    assert '"in:DATA=${{inputs.DATA}}"' in body["command"]


def test_a_creation_whose_response_was_lost_is_found(create, azure, backend):
    put = backend.connection.request_json

    def lost(request):
        if request.method != "PUT" or "/jobs/" not in request.path:
            return put(request)
        put(request)
        backend.connection.request_json = put
        raise ConflictError("A job with this name already exists", code="UserError")

    backend.connection.request_json = lost
    assert create().spec.node_count == 1
    assert len(azure.jobs.jobs) == 1
