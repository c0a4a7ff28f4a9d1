import json

import pytest

from batchai_magics.errors import SpecError
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.job import JobSpec
from batchai_magics.models.load import ACCOUNT, KEY
from batchai_magics.models.storage import AccountKey
from tests.models.samples import cluster_body, dumps, job_body, load

URL = f"https://{ACCOUNT}.file.core.windows.net/share"


def with_shares(*shares):
    mounts = {"azureFileShares": [{"relativeMountPath": f"m{i}", **share} for i, share in enumerate(shares)]}
    return json.dumps(job_body(mountVolumes=mounts))


def shares_of(text, **account):
    spec = load(JobSpec, text, source="job.json", account=AccountKey(**account))
    return spec.to_wire(secrets=True)["properties"]["mountVolumes"]["azureFileShares"]


def test_a_description_comes_back_as_the_same_bytes():
    text = dumps(JobSpec.from_wire(job_body()), secrets=True)
    assert dumps(load(JobSpec, text, source="job.json"), secrets=True) == text


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


def test_an_account_name_that_is_given_stays():
    share = {"accountName": "mine", "azureFileUrl": "https://other.file.core.windows.net/share"}
    assert shares_of(with_shares(share))[0]["accountName"] == "mine"


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


def test_the_key_of_an_account_is_not_shown():
    assert "k3y" not in repr(AccountKey("acc", "k3y"))


@pytest.mark.parametrize("mounts", ["text", {"azureFileShares": "text"}, {"azureFileShares": [3]}])
def test_mounts_of_the_wrong_type_are_told_by_the_check(mounts):
    with pytest.raises(SpecError, match=r"properties\.mountVolumes"):
        load(JobSpec, json.dumps(job_body(mountVolumes=mounts)), source="x")
