"""Every text by which `az batchai` refuses a line, word for word, with exit code 1 and nothing made."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest

from batchai_magics.commands.handlers.output_file_commands import check_setup_logs
from batchai_magics.errors import BatchAIError, UsageError
from batchai_magics.models.cluster_spec import ClusterSpec
from tests.commands.test_any_line import carried_out
from tests.patience import PATIENCE_S

SUBNET = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/{}"
IMAGE = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Compute/images/mine"
DISKS = "--disk-count 1 --disk-size 10 --storage-sku Standard_LRS"
MISSING = (
    "Please configure Azure Storage account {} via AZURE_BATCHAI_STORAGE_{} "
    "or provide storage_{} value in batchai section of your az configuration file."
)
NAME_MISSING = MISSING.format("name", "ACCOUNT", "account")
KEY_MISSING = MISSING.format("key", "KEY", "key")
LISTING = (
    "List files is supported only for clusters with startup task configure to store its output on "
    "Azure File Share or Azure Blob Container"
)


@pytest.fixture
def refused(do):
    """What a line is refused with."""

    def complaint(line):
        with pytest.raises(BatchAIError) as caught:
            do(line)
        assert caught.value.exit_code == 1
        return str(caught.value)

    return complaint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-t 1", "Please provide VM size"),
        (
            "-s Standard_D2",
            "Please provide scale setting for the cluster via command line or configuration file",
        ),
        (
            "-s Standard_D2 --min 1",
            "You need to either provide both min and max node counts or not provide any of them",
        ),
        (
            "-s Standard_D2 --min 2 --max 1",
            "Maximum nodes count must be greater or equal to minimum nodes count",
        ),
        ("-s Standard_D2 -t 1 -u ''", "Please provide admin user name."),
        ("-s Standard_D2 -t 1 -k nonsense", "Incorrect ssh public key value."),
        (
            "-s Standard_F4s -t 1 --use-auto-storage",
            "The specified value Standard_F4s for property Cluster.Properties.VMSize is not a supported VM "
            "size. See additional details for supported VM sizes.",
        ),
        (
            "-s Standard_D2 -t 1 -i Foo",
            'Unsupported image alias "Foo", supported aliases are UbuntuLTS, UbuntuDSVM',
        ),
        (
            "-s Standard_D2 -t 1 -i a:b",
            '--image must have format "publisher:offer:sku:version" or "publisher:offer:sku:"',
        ),
        ("-s Standard_D2 -t 1 -i :o:s:v", "Image publisher must be provided in --image argument"),
        ("-s Standard_D2 -t 1 -i p::s:v", "Image offer must be provided in --image argument"),
        ("-s Standard_D2 -t 1 -i p:o::v", "Image sku must be provided in --image argument"),
        (
            f"-s Standard_D2 -t 1 --custom-image {IMAGE}",
            "You need to specify --image argument with information about the custom image",
        ),
        ("-s Standard_D2 -t 1 -i UbuntuLTS --custom-image x", "Ill-formed custom image resource id"),
        ("-s Standard_D2 -t 1 --subnet x", "Ill-formed subnet resource id"),
        (
            "-s Standard_D2 -t 1 --setup-task ls",
            "--setup-task requires providing of --setup-task-output",
        ),
        ("-s Standard_D2 -t 1 --afs-name logs", NAME_MISSING),
        ("-s Standard_D2 -t 1 --bfs-name logs", NAME_MISSING),
        (
            "-s Standard_D2 -t 1 --afs-name logs --storage-account-name nowhere",
            'Cannot find "nowhere" storage account.',
        ),
        (
            "-s Standard_D2 -t 1 --afs-name l --afs-mount-path '' --storage-account-name local",
            "Azure File share relative mount path cannot be empty.",
        ),
        (
            "-s Standard_D2 -t 1 --bfs-name l --bfs-mount-path '' --storage-account-name local",
            "Azure Storage Container relative mount path cannot be empty.",
        ),
        (
            "-s Standard_D2 -t 1 --nfs srv --nfs-mount-path ''",
            "File server relative mount path cannot be empty.",
        ),
    ],
)
def test_a_cluster_is_refused(do, refused, options, message):
    assert message in refused(f"cluster create -n small {options}")
    assert len(do("cluster list")) == 0
    assert len(do("workspace list")) == 0
    assert len(do("group list")) == 0


@pytest.mark.parametrize("noun", ["cluster", "file-server"])
def test_a_name_that_is_taken_is_refused(do, refused, noun):
    line = f"{noun} create -n small -s Standard_D2 " + ("-t 0" if noun == "cluster" else DISKS)
    do(line)
    told = '"small" already exists in "batchai" resource group under default resource group.'
    assert told in refused(line)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (DISKS, "Please provide VM size."),
        ("-s Standard_D2", "Please provide number of data disks (at least one disk is required)."),
        ("-s Standard_D2 --disk-count 1", "Please provide disk size in Gb."),
        (
            "-s Standard_D2 --disk-count 1 --disk-size 9",
            "Please provide storage account type (storage sku).",
        ),
        (f"-s Standard_D2 {DISKS} --subnet x", "Ill-formed subnet resource id"),
        (f"-s Standard_D2 {DISKS} -k nonsense", "Incorrect ssh public key value."),
        (f"-s Standard_D2 {DISKS} -u ''", "Please provide admin user name."),
    ],
)
def test_a_file_server_is_refused(do, refused, options, message):
    assert message in refused(f"file-server create -n srv {options}")
    assert len(do("file-server list")) == 0


@pytest.mark.parametrize("noun", ["cluster", "file-server"])
def test_backend_with_logins_requires_a_password_or_key(context, refused, monkeypatch, tmp_path, noun):
    monkeypatch.setenv("HOME", str(tmp_path))
    away = replace(context.backend.capabilities, logins=True)
    context.backend.capabilities = away
    rest = "-t 0" if noun == "cluster" else DISKS
    told = refused(f"{noun} create -n small -s Standard_D2 {rest}")
    assert "Please provide admin user password or ssh key." in told


def test_a_cluster_is_in_the_subnet_of_its_file_server(do, refused):
    one, other = SUBNET.format("one"), SUBNET.format("other")
    do(f"file-server create -n srv -s Standard_D2 {DISKS} --subnet {one}")
    told = refused(f"cluster create -n small -s Standard_D2 -t 0 --nfs srv --subnet {other}")
    assert "Cluster and mounted NFS must be in the same subnet." in told
    assert do("cluster create -n small -s Standard_D2 -t 0 --nfs srv").data["subnet"]["id"] == one


@pytest.mark.parametrize(
    ("kind", "volume", "message"),
    [
        ("azureFileShares", {"azureFileUrl": ""}, "Azure File URL cannot absent or be empty"),
        ("azureFileShares", {"azureFileUrl": "nonsense"}, 'Ill-formed Azure File URL "nonsense"'),
        (
            "azureFileShares",
            {"azureFileUrl": "https://[a].b/c"},
            'Ill-formed Azure File URL "https://[a].b/c"',
        ),
        (
            "azureBlobFileSystems",
            {"containerName": "c"},
            "Ill-formed Azure Blob File System reference in the configuration file - "
            "no account name provided.",
        ),
        (
            "azureFileShares",
            {"azureFileUrl": "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/s"},
            NAME_MISSING,
        ),
        (
            "azureFileShares",
            {
                "azureFileUrl": "https://acc.file.core.windows.net/s",
                "credentials": {"accountKey": "<AZURE_BATCHAI_STORAGE_KEY>"},
            },
            KEY_MISSING,
        ),
        (
            "azureBlobFileSystems",
            {"accountName": "nowhere", "containerName": "c"},
            'Cannot find "nowhere" storage account.',
        ),
    ],
)
@pytest.mark.parametrize("noun", ["cluster", "job"])
def test_a_file_with_a_bad_mount_is_refused(refused, tmp_path, noun, kind, volume, message):
    mounts = {"mountVolumes": {kind: [{"relativeMountPath": "m", **volume}]}}
    scale = {"manual": {"targetNodeCount": 0}}
    cluster = {"vmSize": "Standard_D2", "scaleSettings": scale, "nodeSetup": mounts}
    properties = cluster if noun == "cluster" else mounts
    file = tmp_path / "it.json"
    file.write_text(json.dumps({"properties": properties}))
    assert message in refused(f"{noun} create -n small -f {file}")


def test_an_account_without_a_key_is_refused(context, refused):
    context.backend.accounts.keys = lambda name: ("", "")
    line = "cluster create -n small -s Standard_D2 -t 0 --afs-name logs --storage-account-name acc"
    assert 'Cannot find a key for "acc" storage account.' in refused(line)


@pytest.mark.slow
def test_a_job_is_refused(do, refused, job_file, cluster):
    file = job_file("true")
    no_cluster = "Please provide cluster information via command line or configuration file."
    assert no_cluster in refused(f"job create -n hello -f {file} -c ''")
    do(f"job create -n hello -f {file}").value.wait(PATIENCE_S)
    told = "A job with given name, experiment, workspace and resource group already exists."
    assert told in refused(f"job create -n hello -f {file}")


def test_a_command_on_no_node_is_refused(do, refused):
    do("cluster create -n empty -s Standard_D2 -t 0")
    assert "No nodes available in the cluster" in refused("cluster node exec -c empty --exec ls")
    do("cluster create -n small -s Standard_D2 -t 1")
    told = refused("cluster node exec -c small --exec ls -n tvm-1")
    assert "Cannot find a node with id=tvm-1" in told


def test_a_port_that_is_taken_is_refused(do):
    do("cluster create -n small -s Standard_D2 -t 1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        line = f"cluster node exec -c small --exec ls -L {taken.getsockname()[1]}:localhost:80"
        with pytest.raises(BatchAIError, match="Connection to remote host failed"):
            list(do(line).parts)


def test_a_cluster_without_a_setup_task_has_no_files_of_one(do, refused):
    do("cluster create -n small -s Standard_D2 -t 0")
    assert LISTING in refused("cluster file list -c small")


def test_files_of_an_unknown_place_are_not_listed():
    task = {"commandLine": "true", "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs"}
    account = {"adminUserName": "me"}
    properties = {"vmSize": "Standard_D2", "userAccountSettings": account, "nodeSetup": {"setupTask": task}}
    with pytest.raises(BatchAIError, match="List files is not supported for this cluster"):
        check_setup_logs(ClusterSpec.from_wire({"properties": properties}))


CLUSTER = {"vmSize": "STANDARD_D2", "scaleSettings": {"manual": {"targetNodeCount": 1}}}
SERVER = {"vmSize": "STANDARD_D2"}


@pytest.mark.parametrize(
    ("kind", "properties", "field"),
    [
        ("cluster", {**CLUSTER, "userAccountSettings": " "}, "userAccountSettings"),
        ("cluster", {**CLUSTER, "nodeSetup": "x"}, "nodeSetup"),
        ("file-server", {**SERVER, "sshConfiguration": [1]}, "sshConfiguration"),
        ("file-server", {**SERVER, "dataDisks": 3}, "dataDisks"),
    ],
)
def test_a_field_that_is_no_object_is_named(context, tmp_path, monkeypatch, kind, properties, field):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.json").write_text(json.dumps({"properties": properties}))
    words = [*kind.split(), "create", "-n", "x", "-f", "file.json", "-w", "w", "-u", "me", "-p", "hush"]
    with pytest.raises(UsageError, match=rf"properties\.{field}: must be an object"):
        carried_out(words, context)
