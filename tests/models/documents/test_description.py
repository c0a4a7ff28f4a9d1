import json
from pathlib import Path

import pytest

from batchai_magics.errors import SpecError
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.documents.description import ACCOUNT, KEY, load_file, name_after
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.mount_volumes import AccountKey
from tests.models.samples import cluster_body, job_body, load

URL = f"https://{ACCOUNT}.file.core.windows.net/share"


def with_shares(*shares):
    mounts = {"azureFileShares": [{"relativeMountPath": f"m{i}", **share} for i, share in enumerate(shares)]}
    return json.dumps(job_body(mountVolumes=mounts))


def shares_of(text, **account):
    spec = load(JobSpec, text, source="job.json", account=AccountKey(**account))
    return spec.to_wire(secrets=True)["properties"]["mountVolumes"]["azureFileShares"]


def test_yaml_gives_the_same_job_as_json():
    import yaml

    text = yaml.safe_dump(job_body(), allow_unicode=True)
    assert load(JobSpec, text, source="x") == JobSpec.from_wire(job_body())


def test_placeholders_are_filled():
    share = {"accountName": ACCOUNT, "azureFileUrl": URL, "credentials": {"accountKey": KEY}}
    filled = shares_of(with_shares(share), name="acc", key="k=")[0]
    assert filled["accountName"] == "acc"
    assert filled["azureFileUrl"] == "https://acc.file.core.windows.net/share"
    assert filled["credentials"] == {"accountKey": "k="}


def test_a_missing_account_name_is_taken_from_the_url():
    share = {"azureFileUrl": "https://other.file.core.windows.net/share"}
    assert shares_of(with_shares(share))[0]["accountName"] == "other"


def test_the_key_goes_only_to_its_own_account():
    urls = [f"https://{name}.file.core.windows.net/share" for name in ("acc", "other")]
    filled = shares_of(with_shares(*({"azureFileUrl": url} for url in urls)), name="acc", key="k")
    assert [share["credentials"] for share in filled] == [{"accountKey": "k"}, {}]


def test_credentials_of_its_own_stay_with_a_share():
    share = {"azureFileUrl": "https://acc.file.core.windows.net/share", "credentials": {"accountKey": "own"}}
    assert shares_of(with_shares(share), name="acc", key="k")[0]["credentials"] == {"accountKey": "own"}


def test_the_setup_of_a_cluster_is_filled_too():
    mounts = {"azureFileShares": [{"azureFileUrl": URL, "relativeMountPath": "afs"}]}
    text = json.dumps(cluster_body(nodeSetup={"mountVolumes": mounts}))
    spec = load(ClusterSpec, text, source="cluster.json", account=AccountKey("acc"))
    assert spec.node_setup.mount_volumes.azure_file_shares[0].account_name == "acc"


def test_placeholders_without_values_are_refused_with_the_words_of_az():
    share = {"accountName": ACCOUNT, "azureFileUrl": URL, "credentials": {"accountKey": KEY}}
    with pytest.raises(SpecError) as caught:
        shares_of(with_shares(share))
    told = str(caught.value)
    assert "account name via AZURE_BATCHAI_STORAGE_ACCOUNT or provide storage_account value" in told
    assert "account key via AZURE_BATCHAI_STORAGE_KEY or provide storage_key value" in told


@pytest.mark.parametrize("mounts", ["text", {"azureFileShares": "text"}, {"azureFileShares": [3]}])
def test_mounts_of_the_wrong_type_are_told_by_the_check(mounts):
    with pytest.raises(SpecError, match=r"properties\.mountVolumes"):
        load(JobSpec, json.dumps(job_body(mountVolumes=mounts)), source="x")


def described(model, folder, body, **beside):
    file = folder / "description.json"
    file.write_text(json.dumps({**beside, **body}))
    return load_file(model, file, source="description.json")


def test_a_file_says_its_schema(tmp_path):
    schema = "https://raw.githubusercontent.com/Azure/BatchAI/master/schemas/2018-05-01/job.json"
    description = described(JobSpec, tmp_path, job_body(), **{"$schema": schema})
    assert description.checked(JobSpec, description.body) == JobSpec.from_wire(job_body())
    assert description.notes == ()


def test_what_means_nothing_in_a_job_file_is_left_out_and_named(tmp_path):
    body = job_body(chainerSettings={"pythonScriptFilePath": "a.py", "masterCommandLineArgs": "-v"})
    body["properties"].pop("horovodSettings")
    description = described(JobSpec, tmp_path, body, author="me")
    spec = description.checked(JobSpec, description.body)
    assert spec.settings.to_wire() == {"pythonScriptFilePath": "a.py"}
    (beside, below) = description.notes
    assert beside.startswith("description.json: author is not used here")
    path = "properties.chainerSettings.masterCommandLineArgs"
    assert below.startswith(f"description.json: {path} is not used here")
    assert 'Did you mean "commandLineArgs"?' in below


def test_what_means_nothing_in_a_cluster_file_is_left_out_and_named(tmp_path):
    image = {"publisher": "microsoft-ads", "offer": "linux", "sku": "ubuntu"}
    description = described(ClusterSpec, tmp_path, cluster_body(virtualMachineConfiguration=image))
    assert description.checked(ClusterSpec, description.body).virtual_machine_configuration.to_wire() == {}
    assert [note.split()[1] for note in description.notes] == [
        f"properties.virtualMachineConfiguration.{key}" for key in image
    ]


def test_a_misspelt_key_is_named_beside_what_is_missing(tmp_path):
    body = job_body()
    body["properties"]["nodeCuont"] = body["properties"].pop("nodeCount")
    description = described(JobSpec, tmp_path, body)
    with pytest.raises(SpecError) as caught:
        description.checked(JobSpec, description.body)
    assert [problem.path for problem in caught.value.problems] == [
        "properties.nodeCount",
        "properties.nodeCuont",
    ]


def test_an_old_key_that_cannot_be_read_is_not_left_out(tmp_path):
    body = job_body(priority="soon")
    del body["properties"]["schedulingPriority"]
    description = described(JobSpec, tmp_path, body)
    with pytest.raises(SpecError, match=r"properties\.priority: expected a whole number"):
        description.checked(JobSpec, description.body)


@pytest.mark.parametrize(
    ("kind", "volume"),
    [
        ("azureFileShares", {"azureFileUrl": "https://acc.file.core.windows.net/s"}),
        ("azureBlobFileSystems", {"accountName": "acc", "containerName": "c"}),
    ],
)
def test_the_credentials_info_of_2017_are_the_credentials(tmp_path, kind, volume):
    share = {**volume, "relativeMountPath": "m", "credentialsInfo": {"AccountKey": "k3y"}}
    description = described(JobSpec, tmp_path, job_body(mountVolumes={kind: [share]}))
    wire = description.checked(JobSpec, description.body).to_wire(secrets=True)
    assert wire["properties"]["mountVolumes"][kind][0]["credentials"] == {"accountKey": "k3y"}
    assert description.notes == ()


@pytest.mark.parametrize("url", ["nonsense", "https://account/share", "https://[account].file.net/share"])
def test_an_address_that_names_no_account_is_ill_formed(url):
    with pytest.raises(SpecError) as caught:
        shares_of(with_shares({"azureFileUrl": url}))
    (problem,) = caught.value.problems
    assert problem.path == "properties.mountVolumes.azureFileShares[0].azureFileUrl"
    assert problem.message == f'Ill-formed Azure File URL "{url}"'


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("recipes/Horovod-PyTorch/job.json", "Horovod-PyTorch"),
        ("recipes/train.yaml", "train"),
        ("My recipes (old)/job.json", "My-recipes-old"),
        (f"{'x' * 80}.json", "x" * 56),
        ("/job.json", ""),
    ],
)
def test_a_job_is_named_after_its_file_or_its_folder(file, name):
    assert name_after(Path(file)) == name


def test_numbers_and_switches_in_quotes_are_taken_from_a_file(tmp_path):
    setup = {"commandLine": "true", "runElevated": "True", "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/a"}
    scale = {"autoScale": {"minimumNodeCount": "0", "maximumNodeCount": "2"}}
    body = cluster_body(scaleSettings=scale, nodeSetup={"setupTask": setup})
    description = described(ClusterSpec, tmp_path, body)
    spec = description.checked(ClusterSpec, description.body)
    assert spec.scale_settings.auto_scale.maximum_node_count == 2
    assert spec.node_setup.setup_task.run_elevated is True


@pytest.mark.parametrize("count", ["two", "-1", "2.0", "٣", ""])
def test_other_texts_are_no_numbers_in_a_file_either(tmp_path, count):
    description = described(JobSpec, tmp_path, job_body(nodeCount=count))
    with pytest.raises(SpecError, match=r"properties\.nodeCount: expected a whole number"):
        description.checked(JobSpec, description.body)
