"""Files and texts that describe jobs and clusters: what is read, filled in, left out and refused."""

import json
import os
from pathlib import Path

import pytest

from batchai_magics.errors import SpecError, UsageError
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.documents.description import load_file, name_after, parse, read_file
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.mount_volumes import AccountKey
from tests.models.samples import cluster_body, job_body, load


def refused(text):
    with pytest.raises(UsageError) as caught:
        parse(text, source="job.json")
    return caught.value.message


def test_json_and_yaml_say_the_same():
    json_text = '\ufeff {"properties": {"nodeCount": 2, "on": true, "none": null, "x": 1.5}}'
    yaml_text = "properties:\n  nodeCount: 2\n  on: true\n  none:\n  x: 1.5\n"
    assert parse(json_text, source="a") == parse(yaml_text, source="b")


@pytest.mark.parametrize(
    "text", ["2018-06-06", "0777", "yes", "off", "1_000", "12:30:00", "0x1F", ".5", "=", "1e5"]
)
def test_yaml_knows_only_the_types_of_json(text):
    assert parse(f"a: {text}", source="x") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"), [("-3", -3), ("2.5", 2.5), ("1.0e+3", 1000.0), ("~", None), ("False", False)]
)
def test_yaml_reads_what_json_has(text, value):
    assert parse(f"a: {text}", source="x") == {"a": value}


def test_yaml_anchors_and_merges_work():
    assert parse("a: &b {x: 1}\nc:\n  <<: *b\n  y: 2", source="x")["c"] == {"x": 1, "y": 2}


def test_a_mistake_in_json_is_told_with_line_and_column():
    assert (
        refused('{"a": 1,\n "b" 2}')
        == "job.json is not valid JSON: Expecting ':' delimiter at line 2, column 6"
    )


def test_a_mistake_in_yaml_is_told_with_line_and_column():
    assert (
        refused("a: 1\nb: [1\n")
        == "job.json is not valid YAML: expected ',' or ']', but got '<stream end>' at line 3, column 1"
    )


REFUSED = {
    "'a' twice": ['{"a": 1, "a": 2}', '{"b": {"a": 1, "a": 2}}', "a: 1\na: 2", "b:\n  a: 1\n  a: 2"],
    "job.json is empty": ["", " \n", "\ufeff"],
    "job.json holds no object": ["[1]", "- 1", "just words", "3"],
    "nested": ["[" * 100_000, '{"a":' * 100_000, "a: &x\n  b: *x"],
    "is not valid YAML": ["a: !!python/object/apply:os.getcwd []", "? [1]\n: 2", "a: \x01", "a: !x 1"],
    "job.json is not valid YAML: a type that JSON does not have at line 1, column 4": [
        *("a: !!binary aGk=", "a: !!set {x}", "a: !!timestamp 2001-01-01", "a: !!bool x", "a: !!int y"),
    ],
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_is_no_description_is_refused_with_the_reason(told):
    for text in REFUSED[told]:
        assert told in refused(text)


@pytest.mark.parametrize(
    "text",
    ["key: *hunter2", "key: !hunter2 x", "key: !<hunter2> x", "key: !h!unter2 x",
     "a: &hunter2 1\nb: &hunter2 2", 'key: {"hunter2', "key: 'hunter2", "key: @hunter2", "key: %hunter2",
     "key: [hunter2: x: y]", '{"accountKey": "hunter2" "x"}'],
)  # fmt: skip
def test_a_mistake_repeats_no_value(text):
    assert "unter2" not in refused(text)


def laughs(line):
    """Ten levels, each with nine times what the one before it holds."""
    lines = [line.format(at=level, above=", ".join([f"*m{level - 1}"] * 9)) for level in range(1, 10)]
    return "\n".join(["m0: &m0 {a: 1}", *lines])


@pytest.mark.parametrize("line", ["m{at}: &m{at} [{above}]", "m{at}: &m{at} {{<<: [{above}]}}"])
def test_aliases_that_expand_to_a_huge_document_are_refused(line):
    assert "aliases stand for more than" in refused(laughs(line))


def test_a_long_text_that_is_repeated_often_counts_too():
    assert "aliases stand for more than" in refused(f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 101)}]")
    assert len(parse(f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 99)}]", source="x")["b"]) == 99


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"nope\.json does not exist"):
        read_file(tmp_path / "nope.json")


def test_a_file_that_is_no_text_is_named(tmp_path):
    file = tmp_path / "job.json"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"job\.json is not a text file"):
        read_file(file)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_file(tmp_path)


def test_endless_device_is_refused_as_a_description():
    with pytest.raises(UsageError, match="larger than 16 MiB"):
        read_file(Path("/dev/zero"))


def test_a_description_may_come_through_a_pipe():
    reading, writing = os.pipe()
    os.write(writing, b'{"a":\r\n 1}')
    os.close(writing)
    assert read_file(Path(f"/dev/fd/{reading}")) == '{"a":\n 1}'
    os.close(reading)


def with_shares(*shares):
    mounts = {"azureFileShares": [{"relativeMountPath": f"m{i}", **share} for i, share in enumerate(shares)]}
    return json.dumps(job_body(mountVolumes=mounts))


def shares_of(text, **account):
    spec = load(JobSpec, text, source="job.json", account=AccountKey(**account))
    return spec.to_wire(secrets=True)["properties"]["mountVolumes"]["azureFileShares"]


def test_a_missing_account_name_is_taken_from_the_url():
    share = {"azureFileUrl": "https://other.file.core.windows.net/share"}
    assert shares_of(with_shares(share))[0]["accountName"] == "other"


def test_the_key_goes_only_to_its_own_account():
    urls = [f"https://{name}.file.core.windows.net/share" for name in ("acc", "other")]
    filled = shares_of(with_shares(*({"azureFileUrl": url} for url in urls)), name="acc", key="k")
    assert [share["credentials"] for share in filled] == [{"accountKey": "k"}, {}]


def test_share_keeps_its_own_credentials():
    share = {"azureFileUrl": "https://acc.file.core.windows.net/share", "credentials": {"accountKey": "own"}}
    assert shares_of(with_shares(share), name="acc", key="k")[0]["credentials"] == {"accountKey": "own"}


@pytest.mark.parametrize("mounts", ["text", {"azureFileShares": "text"}, {"azureFileShares": [3]}])
def test_mounts_of_the_wrong_type_are_told_by_the_check(mounts):
    with pytest.raises(SpecError, match=r"properties\.mountVolumes"):
        load(JobSpec, json.dumps(job_body(mountVolumes=mounts)), source="x")


def described(model, folder, body, **beside):
    file = folder / "description.json"
    file.write_text(json.dumps({**beside, **body}))
    return load_file(model, file, source="description.json")


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
def test_quoted_texts_that_are_no_whole_numbers_are_refused(tmp_path, count):
    description = described(JobSpec, tmp_path, job_body(nodeCount=count))
    with pytest.raises(SpecError, match=r"properties\.nodeCount: expected a whole number"):
        description.checked(JobSpec, description.body)
